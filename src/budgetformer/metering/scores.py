"""Accuracy and macro-F1, defined once for training, evaluation and baselines."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import f1_score


def scores(truth: np.ndarray, guesses: np.ndarray) -> dict[str, float]:
    """``accuracy``, and ``macro_f1``, the mean F1 of the classes that occur in ``truth``; both (R,) indices, R > 0."""
    present = np.unique(truth)
    return {
        "accuracy": float((guesses == truth).mean()),
        "macro_f1": float(f1_score(truth, guesses, average="macro", labels=present, zero_division=0)),
    }
