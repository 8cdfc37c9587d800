"""The measurements of ``benchmarks/pretrained.py``: one variant on the test rows, and its difference to dense."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import numpy as np

from budgetformer import Classifier
from budgetformer.evaluation import evaluate
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
