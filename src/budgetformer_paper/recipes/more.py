"""One function for each figure of the paper, and the ablations that its text speaks of."""

from __future__ import annotations

from collections.abc import Iterator
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


def figure4(data: str = "snli") -> Recipe:
    """Figure 4: maps of the four most relevant heads of each layer for the paper's pair, and entropy of maps by rank.

    Command: ``budgetformer reproduce figure4``, then ``reproduce report``. Paper: SNLI, "A man is playing guitar on a
    stage." and "A man is sleeping in a bed."; relevant heads have sharper maps, which is measured over test rows here.
    Time: an evaluation after Table II.
    """
    changed = replace(table2_budgetformer(data), experiment="figure4", ask=Ask(maps=True))
    return replace(changed, name=f"{data}/maps", what="where heads look")


def cost(data: str) -> Recipe:
    """A step of training beside one of the Transformer in time and memory, and the memory of attention by heads.

    Command: ``budgetformer reproduce cost``. The paper says that training costs no more and that memory falls with the
    heads; its figures are not known here. The texts are random tokens of the data set's length. Time: a minute or two.
    """
    changed = replace(table2_budgetformer(data), experiment="cost", ask=Ask(cost=True), printed=Printed())
    return replace(changed, name=f"{data}/step", what="a training step, and attention by heads")


def ablation(data: str, name: str, what: str, *, ask: Ask | None = None, **changes: Any) -> Recipe:
    """One part of the method left out or read otherwise (docs/method.md, section 3), or the model asked otherwise.

    Command: ``budgetformer reproduce ablations --data DATA``. Time: as the BudgetFormer of Table II for each row that
    trains; an evaluation where only the question is another.
    """
    changed = replace(with_config(table2_budgetformer(data), **changes), ask=ask or Ask())
    return replace(changed, experiment="ablations", name=f"{data}/{name}", what=what, printed=Printed())


def ablations(data: str) -> Iterator[Recipe]:
    """All parts; each part left out, which the text speaks of and no table shows; and the other readings."""
    yield replace(table2_budgetformer(data), experiment="ablations", name=f"{data}/all", what="all parts")
    yield ablation(data, "no-budget-loss", "without the budget loss", alpha_base=0.0, alpha_max=0.0)
    yield ablation(data, "no-entropy-loss", "without the entropy loss", beta_max=0.0)
    yield ablation(data, "no-noise", "without noise", sigma_max=0.0)
    yield ablation(data, "constant-temperature", "temperature 1 throughout", tau_min=1.0, tau_max=1.0)
    yield ablation(data, "tau-floored", "τ = max(τ_min, τ_max exp(−γ t/T))", tau_floored=True)
    yield ablation(data, "alpha-constant", "α = α_max throughout", alpha_base=0.05)
    yield ablation(data, "beta-to-zero", "β falls to 0 and not to −β_max", beta_end=0.0)
    yield ablation(data, "unit-gates", "gates 0 or 1 (straight-through)", selection="straight_through")
    yield ablation(data, "min-heads-0", "no least number of heads", min_heads=0)
    yield ablation(data, "soft-inference", "all parts, evaluated with all heads softly", ask=Ask(budget=1.0))
    yield ablation(data, "min-heads-0-asked", "all parts, evaluated with min_heads 0", ask=Ask(min_heads=0))
