"""One function for each figure of the paper, and the ablations that its text speaks of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..recipe import Ask, Printed, Recipe
from .tables import table2_budgetformer, with_config

FIGURE_SETS = ("dbpedia14", "snli", "yelp_full")


def figure1(data: str) -> Recipe:
    """Figure 1: budget and accuracy over training, in training and validation; the BudgetFormer of Table II.

    Command: ``budgetformer reproduce figure1``, then ``reproduce report``. Paper: DBpedia, Yelp and SNLI; the budget
    falls and its two curves agree. Time: an evaluation after Table II.
    """
    return replace(table2_budgetformer(data), experiment="figure1", name=f"{data}/curves", what="over training")


def figure2(data: str) -> Recipe:
    """Figure 2: budgets of simple, hard and very hard inputs.

    Command: ``budgetformer reproduce figure2``, then ``reproduce report``. Paper: DBpedia, Yelp and SNLI; the budget
    rises with difficulty. How it chose the groups it does not say: here thirds of the Transformer's loss on the test
    rows, and beside them thirds of the length, and negation. Time: two evaluations after Table II.
    """
    changed = replace(table2_budgetformer(data), experiment="figure2", ask=Ask(difficulty=True))
    return replace(changed, name=f"{data}/difficulty", what="by difficulty")


def figure3(data: str = "snli") -> Recipe:
    """Figure 3: mean and standard deviation of the budget and entropy of the relevance, by layer and class.

    Command: ``budgetformer reproduce figure3``, then ``reproduce report``. Paper: SNLI; neutral above contradiction
    above entailment, spread largest in the middle layers, entropy falling with depth. Time: an evaluation after
    Table II.
    """
    return replace(table2_budgetformer(data), experiment="figure3", name=f"{data}/classes", what="by layer and class")


def ablation(data: str, name: str, what: str, **changes: Any) -> Recipe:
    """What the text claims of the parts of the method and no table shows: one part is left out.

    Command: ``budgetformer reproduce ablations --data DATA``. Time: as the BudgetFormer of Table II, for each row.
    """
    changed = with_config(table2_budgetformer(data), **changes)
    return replace(changed, experiment="ablations", name=f"{data}/{name}", what=what, printed=Printed())
