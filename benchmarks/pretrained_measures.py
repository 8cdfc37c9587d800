"""The measurements of ``benchmarks/pretrained.py``: one variant on the test rows, and its difference to dense."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import numpy as np
from torch import Tensor

from budgetformer import Classifier
from budgetformer.baselines import Policy, random_policy
from budgetformer.evaluation import evaluate, inputs_of
from budgetformer.reporting.intervals import wilson

FIGURES = ("mean_heads", "mean_budget", "heads_per_layer", "macs", "macs_dense", "truncated", "execution", "precision")


def answers(classifier: Classifier, test: datasets.Dataset, *, title: str, **ask: Any) -> dict[str, Any]:
    """Figures of a variant, and in ``mistakes`` the numbers of the rows that it got wrong."""
    wrong: list[int] = []
    found = evaluate(
        classifier, test, on_mistake=lambda mistake: wrong.append(mistake.row), progress=True, title=title, **ask
    ).figures
    return {
        **scored(found["accuracy"], found["macro_f1"], found["rows"]),
        **{name: found[name] for name in FIGURES},
        "evaluation_seconds": round(found["seconds"], 2),
        "mistakes": wrong,
    }


def random_at_own_budgets(classifier: Classifier, test: datasets.Dataset, *, seed: int) -> list[Policy]:
    """Random heads for every layer, as many as every text of ``test`` gets there with the heads of its own choice.

    Left to itself the model would decide anew: other heads give other states, and these other budgets.
    """
    layers = range(classifier.config.num_hidden_layers)
    own: dict[int, dict[int, float]] = defaultdict(dict)

    def remember(layer: int) -> Policy:
        def apply(share_B: Tensor, scores_BH: Tensor, keys_B: Tensor) -> tuple[Tensor, Tensor]:
            own[layer].update(zip(keys_B.tolist(), share_B.tolist(), strict=True))
            return share_B, scores_BH

        return apply

    def repeat(layer: int) -> Policy:
        permuted = random_policy(seed)

        def apply(share_B: Tensor, scores_BH: Tensor, keys_B: Tensor) -> tuple[Tensor, Tensor]:
            return permuted(share_B.new_tensor([own[layer][key] for key in keys_B.tolist()]), scores_BH, keys_B)

        return apply

    for _ in classifier.stream(inputs_of(test, np.arange(len(test))), policy=[remember(layer) for layer in layers]):
        pass
    return [repeat(layer) for layer in layers]


def scored(accuracy: float, macro_f1: float, rows: int) -> dict[str, Any]:
    """Accuracy with its 95 % interval."""
    reach = wilson(accuracy, rows)
    return {"accuracy": accuracy, "interval": [reach.low, reach.high], "macro_f1": macro_f1, "test_rows": rows}


def paired(dense: Mapping[str, Any], other: Mapping[str, Any], rows: Sequence[int]) -> dict[str, Any]:
    """Accuracy of ``other`` minus that of ``dense`` on the same ``rows``, with the standard error of that difference.

    With l rows that only dense got right and g that only the other one did, of n: the difference is (g − l) / n, its
    standard error sqrt(g + l − (g − l)² / n) / n, and McNemar's statistic (g − l)² / (g + l), None without any.
    """
    shown = set(rows)
    dense_wrong, other_wrong = (set(found["mistakes"]) & shown for found in (dense, other))
    lost, gained, n = len(other_wrong - dense_wrong), len(dense_wrong - other_wrong), len(shown)
    return {
        "rows": n,
        "lost": lost,
        "gained": gained,
        "difference": (gained - lost) / n,
        "standard_error": math.sqrt(gained + lost - (gained - lost) ** 2 / n) / n,
        "mcnemar": (gained - lost) ** 2 / (gained + lost) if gained + lost else None,
    }


def evenly(dataset: datasets.Dataset, most: int | None) -> datasets.Dataset:
    """At most so many rows, taken evenly; None: all of them."""
    if most is None or most >= len(dataset):
        return dataset
    return dataset.select(np.unique(np.linspace(0, len(dataset) - 1, most).astype(int)))
