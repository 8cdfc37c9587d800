"""What is said at the end of a training about states that were not kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetformer.cli.trained import report
from budgetformer.training import TrainingResult


def ended(folder: Path, budget: float, rows: int = 8) -> TrainingResult:
    """A training whose second evaluation was more accurate than the state that was kept."""
    history = [
        {"step": 10, "eval_accuracy": 0.5, "eval_mean_budget": 0.2},
        {"step": 20, "eval_accuracy": 0.75, "eval_mean_budget": budget},
    ]
    metrics = {"accuracy": 0.5, "macro_f1": 0.5, "mean_heads": 2.0, "mean_budget": 0.2}
    return TrainingResult(
        output=folder, metrics=metrics, validation_rows=rows, history=history, best_update=10, seconds=1.0
    )


def test_a_more_accurate_state_with_too_large_a_budget_is_named(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(ended(model, budget=0.6))
    said = " ".join(capsys.readouterr().out.split())
    assert "update 20 was more accurate (0.7500), but its mean budget 0.600 lay outside the wanted 0.1 to 0.3" in said


def test_nothing_is_said_of_states_within_the_interval(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(ended(model, budget=0.25))
    assert "more accurate" not in capsys.readouterr().out


def test_one_row_is_called_one(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(ended(model, budget=0.25, rows=1))
    assert "On the 1 validation row " in capsys.readouterr().out
