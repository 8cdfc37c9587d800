"""What a JSON value must look like, and what to say of one that does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Shape = Callable[[Any, str], str | None]
"""Of a value and the name of its field: what is wrong with it; None for a good one."""
Check = Callable[[Any], bool]


def leaf(good: Check, should: str) -> Shape:
    """A value that is ``good``; ``should`` says what it is to be."""
    return lambda value, name: None if good(value) else said(value, name, should)


def fields(
    needed: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None, *, should: str = "an object"
) -> Shape:
    """An object with these fields and any others; without a name it is the row itself."""

    def look(value: Any, name: str) -> str | None:
        if not isinstance(value, dict):
            return said(value, name, should)
        start = f"{name}." if name else ""
        for field in needed:
            if field not in value:
                return f"there is no field {start + field!r}"
        shapes = {**needed, **(optional or {})}
        return _first(shape(value[field], start + field) for field, shape in shapes.items() if field in value)

    return look


def every(shape: Shape, *, least: int = 0, should: str) -> Shape:
    """An object whose fields, of whatever names, all have this shape."""

    def look(value: Any, name: str) -> str | None:
        if not isinstance(value, dict) or len(value) < least:
            return said(value, name, should)
        return _first(shape(one, f"{name}.{field}") for field, one in value.items())

    return look


def each(shape: Shape, *, should: str) -> Shape:
    """A list of values of this shape."""

    def look(value: Any, name: str) -> str | None:
        if not isinstance(value, list):
            return said(value, name, should)
        return _first(shape(one, f"{name}[{place}]") for place, one in enumerate(value))

    return look


def or_null(shape: Shape) -> Shape:
    """Null, or a value of this shape."""
    return lambda value, name: None if value is None else shape(value, name)


def also(*shapes: Shape) -> Shape:
    """All of these, the first ones first."""
    return lambda value, name: _first(shape(value, name) for shape in shapes)


def said(value: Any, name: str, should: str) -> str:
    """The sentence on a value that is not what it should be."""
    shown = repr(value)
    return f"field {name!r} is {shown if len(shown) <= 60 else f'{shown[:60]}…'}, not {should}"


def is_text(value: Any) -> bool:
    """Whether it is a text that can be written to a file (JSON has halves of characters, which cannot)."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def is_number(value: Any) -> bool:
    """Whether it is a number that a float holds; neither true nor false."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_count(value: Any) -> bool:
    """Whether it is a whole number from 0 on."""
    return isinstance(value, int) and is_number(value) and value >= 0


def lengths(value: Any, good: Check = is_number) -> tuple[int, ...] | None:
    """The lengths of lists within lists of ``good`` values; None where they differ, or for anything else."""
    if not isinstance(value, list):
        return () if good(value) else None
    inner = {lengths(one, good) for one in value}
    if not inner:
        return (0,)
    (first, *others) = inner
    return None if others or first is None else (len(value), *first)


def _first(found: Any) -> str | None:
    return next((wrong for wrong in found if wrong), None)


TEXT = leaf(is_text, "a text")
TEXT_OR_NULL = leaf(lambda value: value is None or is_text(value), "a text or null")
FLAG = leaf(lambda value: isinstance(value, bool), "true or false")
NUMBER = leaf(is_number, "a number")
NUMBER_OR_NULL = leaf(lambda value: value is None or is_number(value), "a number or null")
COUNT = leaf(is_count, "a whole number from 0 on")
COUNT_OR_NULL = leaf(lambda value: value is None or is_count(value), "a whole number from 0 on, or null")
POSITIVE = leaf(lambda value: is_count(value) and value > 0, "a whole number above 0")
