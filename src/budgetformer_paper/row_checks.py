"""A result row as tables and claims read it: which fields it has, and what stands in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from budgetformer.reporting.results import read_rows

Check = Callable[[Any], bool]


def read_checked(path: Path) -> list[dict[str, Any]]:
    """All rows of a file; those of other commands as they are. Raises ValueError that names file, line, field and
    value for a row of ``reproduce`` that no table could show."""
    return read_rows(path, check=complaint)


def complaint(row: Mapping[str, Any]) -> str | None:
    """What is wrong with a row of ``reproduce``; None for a good one and for rows of other commands."""
    if not {"recipe", "digest"} <= set(row):
        return None
    needed = NEEDED | (MEASURED if "accuracy" in row else {})
    for name in needed:
        if name not in row:
            return f"there is no field {name!r}"
    for name, (good, should) in (needed | OPTIONAL).items():
        if name in row and not good(row[name]):
            return f"field {name!r} is {_shown(row[name])}, not {should}"
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _or_none(good: Check) -> Check:
    return lambda value: value is None or good(value)


def _has(**fields: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(good(value.get(name)) for name, good in fields.items())


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


TEXT, COUNT = (_is_text, "a text"), (_is_count, "a whole number from 0 on")
NUMBER = (_or_none(_is_number), "a number or null")
_PRINTED = dict.fromkeys(("accuracy", "mean_budget", "macs", "grams"), _or_none(_is_number))
_ENERGY = {"kind": _is_text, "joules_per_1000_texts": _or_none(_is_number)}
_ENERGY |= {"grams_per_1000_texts": _or_none(_is_number)}

NEEDED: dict[str, tuple[Check, str]] = {
    **dict.fromkeys(("experiment", "recipe", "what", "scale", "digest", "data"), TEXT),
    "seed": COUNT,
    "printed": (_has(**_PRINTED), "an object with the paper's figures, numbers or null"),
}
"""Of every row: whether a value is good, and what it should be."""
MEASURED: dict[str, tuple[Check, str]] = {
    "accuracy": (lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1"),
    "test_rows": (lambda value: _is_count(value) and value > 0, "a whole number above 0"),
    "rows": (
        _has(classes=lambda value: _is_count(value) and value > 0),
        "an object with a whole number of classes above 0",
    ),
}
"""Of rows with an accuracy."""
OPTIONAL: dict[str, tuple[Check, str]] = {
    **dict.fromkeys(("mean_budget", "mean_heads", "macs", "macs_dense", "paper_macs", "paper_grams"), NUMBER),
    **dict.fromkeys(("seconds", "training_seconds"), NUMBER),
    "config": (_has(training=_or_none(lambda value: isinstance(value, dict))), "an object with the training"),
    "curves": (_has(training=_is_list_of_objects, validation=_is_list_of_objects), "an object with two lists"),
    "energy": (_or_none(_has(**_ENERGY)), "an object with kind, joules and grams per 1,000 texts, or null"),
}
"""Where a row has them."""


def _shown(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 60 else f"{said[:60]}…"
