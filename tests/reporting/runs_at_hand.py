"""Histories and head statistics in the form that training and evaluation give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from budgetformer.reporting.figures import CurvePoint


@dataclass(frozen=True, kw_only=True)
class Heads:
    relevance_LH: np.ndarray
    use_LH: np.ndarray
    relevance_CLH: np.ndarray
    use_CLH: np.ndarray
    budget_RL: np.ndarray


def heads(*, layers: int, heads: int, classes: int, rows: int = 20, without: int | None = None) -> Heads:
    """Random statistics; class ``without`` has no rows."""
    random = np.random.default_rng(0)
    relevance_CLH = random.dirichlet(np.ones(heads), size=(classes, layers))
    use_CLH = random.random((classes, layers, heads))
    overall = relevance_CLH.mean(axis=0), use_CLH.mean(axis=0)
    if without is not None:
        relevance_CLH[without] = use_CLH[without] = np.nan
    return Heads(
        relevance_LH=overall[0],
        use_LH=overall[1],
        relevance_CLH=relevance_CLH,
        use_CLH=use_CLH,
        budget_RL=random.random((rows, layers)).astype(np.float32),
    )


def history(*, layers: int, updates: int = 12, updates_per_epoch: int = 4, budget: float = 0.2) -> list[dict[str, Any]]:
    """Rows as the Trainer logs them; ``layers=0`` is a full-attention run. The last evaluates the kept model."""
    rows: list[dict[str, Any]] = []
    for step in range(1, updates + 1):
        epoch = step / updates_per_epoch
        row = {"step": step, "epoch": epoch, "loss": 2 / step, "grad_norm": 1.0 + step, "learning_rate": 1e-3}
        if layers:
            row |= {"task_loss": 1.9 / step, "budget_loss": 0.1 / step, "entropy_loss": -0.1, "price_loss": 0.0}
            row |= {"tau": 2 - 0.1 * step, "mean_budget": budget, "mean_heads": 8 * budget}
        for layer in range(layers):
            row |= {f"layer_{layer}/budget": budget, f"layer_{layer}/heads": 8 * budget, f"layer_{layer}/entropy": 0.7}
            row |= {f"layer_{layer}/effective_heads": 2.0, f"layer_{layer}/distinct_heads": 5.0}
        rows.append(row)
        if step % updates_per_epoch == 0:
            rows.append({"step": step, "epoch": epoch, "eval_loss": 1 / step, "eval_accuracy": 0.5 + 0.01 * step})
    rows.append({"step": updates, "epoch": updates / updates_per_epoch, "train_runtime": 3.0})
    rows.append({"step": updates, "epoch": updates / updates_per_epoch, "eval_loss": 0.9, "eval_accuracy": 0.99})
    return rows


def curve(heads: int, *, rows: int = 50, accuracy: float = 0.9) -> list[CurvePoint]:
    """One point for each number of heads."""
    return [
        CurvePoint(heads=k, accuracy=accuracy - 0.1 / k, macs=1e6 * (1 + k), rows=rows) for k in range(1, heads + 1)
    ]
