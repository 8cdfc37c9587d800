"""What training measured of a model: its accuracy, heads and cost, from the folder's ``training.json``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

FIGURES = ("accuracy", "macro_f1", "mean_heads", "mean_budget", "macs", "macs_dense", "rows")


def measured(folder: Path) -> dict[str, Any]:
    """Figures on the validation rows by name; empty for a folder without them. Nothing in it is NaN."""
    try:
        record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        figures = dict(record["validation"])
        rows = record["data"].get("validation_rows")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    figures = {name.removeprefix("eval_"): value for name, value in figures.items()} | {"rows": rows}
    return {name: figures[name] for name in FIGURES if _is_number(figures.get(name))}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
