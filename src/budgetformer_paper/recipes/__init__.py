"""The recipes of all experiments, one function for each row of a table and for each figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..printed import DATA
from ..recipe import Recipe
from .more import FIGURE_SETS, ablation, ablations, cost, figure1, figure2, figure3, figure4
from .pretrained import minilm, minilm_adaptive, minilm_dense, minilm_fixed, minilm_random_trained
from .tables import (
    BUDGETS,
    SHAPE,
    SHAPES,
    SHARES,
    table2_budgetformer,
    table2_no_attention,
    table2_straight_through,
    table2_tfidf,
    table2_transformer,
    table3_adaptive,
    table3_asked,
    table3_fixed,
    table4_learned,
    table4_random,
    table4_random_trained,
    table4_static,
    table5,
    table6,
    with_config,
)

COST_SETS = ("ag_news", "imdb")
"""One of either length."""

__all__ = [
    "BUDGETS",
    "COST_SETS",
    "FIGURE_SETS",
    "SHAPES",
    "SHARES",
    "ablation",
    "cost",
    "experiments",
    "figure1",
    "figure2",
    "figure3",
    "figure4",
    "minilm_adaptive",
    "minilm_dense",
    "minilm_fixed",
    "minilm_random_trained",
    "table2_budgetformer",
    "table2_no_attention",
    "table2_straight_through",
    "table2_tfidf",
    "table2_transformer",
    "table3_adaptive",
    "table3_asked",
    "table3_fixed",
    "table4_learned",
    "table4_random",
    "table4_random_trained",
    "table4_static",
    "table5",
    "table6",
    "with_config",
]


def _table3(data: str) -> Iterator[Recipe]:
    yield table3_adaptive(data)
    for budget in BUDGETS:
        literal = budget * SHAPE["num_attention_heads"] < 1  # elsewhere min_heads has no effect
        for min_heads in (1, 0) if literal else (1,):
            yield table3_fixed(data, budget, min_heads=min_heads)
            for rescale_gates in (False, True):
                yield table3_asked(data, budget, rescale_gates=rescale_gates, min_heads=min_heads)


def experiments(data: Iterable[str] = tuple(DATA)) -> dict[str, list[Recipe]]:
    """All recipes at the paper's scale, by the name of the experiment, for these data sets."""
    sets = list(data)
    table2 = (
        table2_transformer,
        table2_budgetformer,
        table2_tfidf,
        table2_straight_through,
        table2_no_attention,
    )
    table4 = (table4_learned, table4_random, table4_random_trained, table4_static)
    return {
        "table2": [row(name) for name in sets for row in table2],
        "table3": [recipe for name in sets for recipe in _table3(name)],
        "table4": [row(name) for name in sets for row in table4],
        "table5": [table5(name, *shape) for name in sets for shape in SHAPES],
        "table6": [table6(name, share) for name in sets for share in SHARES],
        "figure1": [figure1(name) for name in sets if name in FIGURE_SETS],
        "figure2": [figure2(name) for name in sets if name in FIGURE_SETS],
        "figure3": [figure3(name) for name in sets if name == "snli"],
        "figure4": [figure4(name) for name in sets if name == "snli"],
        "minilm": [recipe for name in sets for recipe in minilm(name)],
        "ablations": [recipe for name in sets for recipe in ablations(name)],
        "cost": [cost(name) for name in sets if name in COST_SETS],
    }
