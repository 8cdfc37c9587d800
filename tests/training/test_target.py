"""A target for accuracy: chosen on the validation rows, kept in the folder, and changed when a run is gone on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from budgetformer import Classifier, train
from budgetformer.training import TrainingSettings

TARGET: dict[str, Any] = {"max_steps": 4, "eval_steps": 2}


def default_of(folder: Path) -> float | None:
    return Classifier.from_pretrained(folder, device="cpu").config.default_budget


def test_the_choice_is_made_on_the_validation_rows_alone(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    tiny_settings |= {"config": tiny_settings["config"] | {"fixed_budget": 0.75}}
    result = train(train=small_csv, output=tmp_path / "m", target_accuracy_drop=99, **TARGET, **tiny_settings)
    assert result.choice is not None
    assert len(result.choice.point.correct) == result.validation_rows == 4
    assert default_of(tmp_path / "m") == result.choice.budget == 0.25
    # The validation figures stay those of the model's own budgets.
    record = json.loads((tmp_path / "m" / "training.json").read_text(encoding="utf-8"))
    own = next(point for point in record["curve"] if point["choice"] == "own")
    assert own["accuracy"] == pytest.approx(record["validation"]["accuracy"])
    assert own["mean_heads"] == pytest.approx(record["validation"]["mean_heads"])
    assert record["settings"]["preset"] == "tiny"
    assert record["source"] is None


def test_going_on_may_have_another_target_or_none(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    common = {"train": small_csv, "output": tmp_path / "m", **TARGET, **tiny_settings}
    train(**common, target_accuracy_drop=99)
    assert (tmp_path / "m" / "budget-curve.png").is_file()
    result = train(**common, resume=True)
    assert result.choice is None
    assert default_of(tmp_path / "m") is None
    assert not (tmp_path / "m" / "budget-curve.png").exists()
    assert "budget-curve" not in (tmp_path / "m" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("target", [-1, 100, float("nan"), "0.5", True])
def test_what_is_no_loss_in_points_is_refused(target: Any) -> None:
    with pytest.raises(ValueError, match="target_accuracy_drop is in percentage points"):
        TrainingSettings(train="a.csv", output="m", target_accuracy_drop=target)


def test_full_attention_has_no_budget_to_choose() -> None:
    with pytest.raises(ValueError, match="target_accuracy_drop has no effect with full attention"):
        TrainingSettings(train="a.csv", output="m", target_accuracy_drop=1, config={"budgeted": False})
