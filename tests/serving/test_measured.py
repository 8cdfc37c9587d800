"""What a server says of its model is what the folder's default budget was measured to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgetformer import Classifier, train
from budgetformer.serving.measured import measured

from ..conftest import sentences

VALIDATION = {"accuracy": 0.9, "mean_heads": 2.5, "mean_budget": 0.6}
POINTS = [
    {"choice": "own", "budget": None, "accuracy": 0.9, "mean_heads": 2.5, "rows": 40},
    {"choice": "learned", "budget": 0.5, "accuracy": 0.88, "mean_heads": 2.0, "rows": 40},
    {"choice": "random", "budget": 0.25, "accuracy": 0.4, "mean_heads": 1.0, "rows": 40},
]


@pytest.mark.parametrize(
    ("default", "expected"),
    [
        (None, VALIDATION | {"rows": 50}),
        (0.5, {"accuracy": 0.88, "mean_heads": 2.0, "mean_budget": 0.5, "rows": 40}),
        (0.25, {}),
    ],
)
def test_the_figures_are_those_of_the_default(tmp_path: Path, default: float | None, expected: dict[str, Any]) -> None:
    record = {"validation": VALIDATION, "data": {"validation_rows": 50}, "curve": POINTS}
    (tmp_path / "training.json").write_text(json.dumps(record), encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"default_budget": default}), encoding="utf-8")
    assert measured(tmp_path) == expected


@pytest.mark.parametrize("budgeted", [True, False])
def test_the_cost_of_a_trained_folder_is_measured_and_said(
    write_csv: Callable[..., Path], tmp_path: Path, tiny_settings: dict[str, Any], budgeted: bool
) -> None:
    rows = sentences(30, labels=["praise", "refund"])
    tiny_settings["config"] |= {"budgeted": budgeted}
    file, folder = write_csv(rows), tmp_path / "m"
    train(train=file, validation=file, output=folder, max_steps=2, **tiny_settings)
    answers = Classifier.from_pretrained(folder, device="cpu")([text for text, _ in rows])
    macs, said = sum(answer.macs for answer in answers) / len(rows), measured(folder)
    assert said["macs"] == pytest.approx(macs)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"| Multiply-adds per text | {macs / 1e6:.4g} M" in card
    if budgeted:
        assert said["macs"] < said["macs_dense"]
        assert f"M, {macs / said['macs_dense']:.1%} of those with all heads" in card
    else:
        assert said["macs"] == said["macs_dense"]
