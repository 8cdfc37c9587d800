"""From the cells of a row to a text, perhaps a second one, and a label."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .columns import Columns
from .errors import DataError
from .files import Reading, Row, iter_rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """What a model needs of a row: ``pair`` only for pairs, ``label`` None when there is none.

    ``problem`` says why ``text`` or ``pair`` could not be taken as text (then it is empty), else None.
    """

    row: Row
    text: str
    pair: str | None
    label: str | None
    problem: str | None


def iter_records(
    path: str | Path, columns: Columns, reading: Reading | None = None, *, keep_columns: bool = False
) -> Iterator[Record]:
    """One record for each row of the file, in order. ``keep_columns``: ``row.cells`` holds all columns."""
    only = None if keep_columns else columns.names()
    for row in iter_rows(path, reading, only=only):
        yield record_of(row, columns, path=path)


def record_of(row: Row, columns: Columns, *, path: str | Path) -> Record:
    """Take text, pair and label out of the cells. An empty cell and null are the empty text."""
    problem: list[str] = []
    text = "\n".join([_text(row, name, problem) for name in columns.text])
    pair = None if columns.pair is None else _text(row, columns.pair, problem)
    label = None
    if columns.label is not None:
        try:
            label = label_text(row.cells.get(columns.label))
        except TypeError as refused:
            raise DataError(f"{path}: {row.where}: column {columns.label!r}: {refused}") from refused
    return Record(row=row, text=text, pair=pair, label=label, problem=problem[0] if problem else None)


def label_text(value: Any) -> str | None:
    """A label as its class is called: surrounding blanks are not part of it; null and NaN are None.

    Numbers of jsonl and parquet are spelled as a whole number when they are one (2 and 2.0 are "2"), truth values
    as "true" and "false". Raises TypeError for lists, objects and bytes, which are no labels.
    """
    match value:
        case None:
            return None
        case str():
            return value.strip()
        case bool():
            return "true" if value else "false"
        case float() if math.isnan(value):
            return None
        case float() if value.is_integer():
            return str(int(value))
        case int() | float() | decimal.Decimal() | datetime.date():
            return str(value)
    raise TypeError(f"a label must be a text, a number or a truth value, got {_kind(value)}")


def _text(row: Row, name: str, problem: list[str]) -> str:
    if name not in row.cells:
        problem.append(f"column {name!r} is missing in this record")
        return ""
    value = row.cells[name]
    if isinstance(value, str):
        return value
    if value is not None:
        problem.append(f"column {name!r} must hold text, got {_kind(value)}")
    return ""


def _kind(value: object) -> str:
    match value:
        case bool():
            return f"the truth value {value}"
        case int() | float():
            return f"the number {value}"
        case list():
            return "a list"
        case dict():
            return "an object"
        case bytes():
            return "bytes"
    return f"a value of type {type(value).__name__}"
