"""Budgets and entropies of groups of test rows: by class, by difficulty, by what a reader can see."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
THIRDS = ("simple", "hard", "very hard")
LENGTHS = ("short", "middle", "long")
_NEGATION = re.compile(
    r"\b(not|no|never|none|nobody|nothing|nowhere|neither|nor|without|cannot)\b|n't\b", re.IGNORECASE
)


def spread_of(values_R: np.ndarray) -> dict[str, Any]:
    """Rows, mean, standard deviation and the quantiles of a box plot; what needs rows is None without any."""
    if not len(values_R):
        return {"rows": 0, "mean": None, "std": None, "quantiles": None}
    quantiles = np.quantile(values_R, QUANTILES).tolist()
    return {
        "rows": len(values_R),
        "mean": float(values_R.mean()),
        "std": float(values_R.std()),
        "quantiles": quantiles,
    }


def by_class(values_RL: np.ndarray, truth_R: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Mean and standard deviation in every layer, for the rows of each class that occurs."""
    groups = {name: values_RL[truth_R == place] for place, name in enumerate(names)}
    return {
        name: {"rows": len(rows), "mean": rows.mean(axis=0).tolist(), "std": rows.std(axis=0).tolist()}
        for name, rows in groups.items()
        if len(rows)
    }


def by_difficulty(budget_R: np.ndarray, loss_R: np.ndarray, texts: Sequence[str]) -> dict[str, Any]:
    """The spread of the mean budget of a row, by three criteria.

    Thirds of the loss that the full-attention twin has on the row (the paper does not say how it chose its groups);
    thirds of the length in words; with a word of negation or without.
    """
    words_R = np.array([len(text.split()) for text in texts])
    negated_R = np.array([_NEGATION.search(text) is not None for text in texts], dtype=bool)
    return {
        "loss of the Transformer": _thirds(budget_R, loss_R, THIRDS),
        "length": _thirds(budget_R, words_R, LENGTHS),
        "negation": {"without": spread_of(budget_R[~negated_R]), "with": spread_of(budget_R[negated_R])},
    }


def _thirds(budget_R: np.ndarray, key_R: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    parts = np.array_split(np.argsort(key_R, kind="stable"), len(names))
    return {name: spread_of(budget_R[part]) for name, part in zip(names, parts, strict=True)}
