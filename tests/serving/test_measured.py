"""What a server says of its model is what the folder's default budget was measured to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from budgetformer.serving.measured import measured

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
