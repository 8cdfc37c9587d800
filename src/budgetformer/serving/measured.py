"""What training measured of a model: its accuracy, heads and cost, from the folder's ``training.json``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

FIGURES = ("accuracy", "macro_f1", "mean_heads", "mean_budget", "macs", "macs_dense", "rows")


def measured(folder: Path) -> dict[str, Any]:
    """Figures on the validation rows by name; empty for a folder without them. Nothing in it is NaN.

    They are those of the folder's default budget where it has one: of the curve in ``training.json``, or none.
    """
    try:
        record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        default = _default_budget(folder)
        figures = dict(record["validation"])
        rows = record["data"].get("validation_rows")
        if default is not None:
            points = (point for point in record.get("curve", ()) if point["choice"] == "learned")
            figures = dict(next((point for point in points if point["budget"] == default), {}))
            figures |= {"mean_budget": default} if figures else {}
            rows = figures.get("rows")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    figures = {name.removeprefix("eval_"): value for name, value in figures.items()} | {"rows": rows}
    return {name: figures[name] for name in FIGURES if _is_number(figures.get(name))}


def _default_budget(folder: Path) -> float | None:
    file = folder / "config.json"
    return json.loads(file.read_text(encoding="utf-8")).get("default_budget") if file.is_file() else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
