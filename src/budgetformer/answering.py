"""Records in, rows out: what ``predict`` writes for each record, whichever engine runs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .answers import Pair, Prediction
from .data.columns import Columns
from .data.records import Record
from .inference import Classifier

FIELDS = ("id", "label", "score", "scores", "heads", "macs", "truncated", "reason")
WINDOW = 512
"""Records that are read, sorted by length, answered and flushed together."""


def answer_row(answer: Prediction, *, id: Any) -> dict[str, Any]:
    """What is written for one input."""
    return {"id": id} | {name: getattr(answer, name) for name in FIELDS[1:]}


def unanswered_row(reason: str, *, id: Any) -> dict[str, Any]:
    """The row of a record whose text is none: no label, and why."""
    return {
        "id": id,
        "label": None,
        "score": None,
        "scores": {},
        "heads": [],
        "macs": 0,
        "truncated": False,
        "reason": reason,
    }


def answered_rows(
    records: Sequence[Record],
    classifier: Classifier,
    columns: Columns,
    *,
    request: dict[str, Any],
    keep_columns: bool,
) -> Iterator[dict[str, Any]]:
    """One row for each record, in order. Its id is the cell of the id column, else the record's number.

    A record whose text is none gets its row with the reason. ``request`` is that of a call of the classifier;
    ``keep_columns`` puts the record's cells under ``input``.
    """
    inputs = [r.text if r.pair is None else Pair(r.text, r.pair) for r in records if not r.problem]
    answers = iter(classifier(inputs, **request))
    for record in records:
        number = record.row.cells.get(columns.id) if columns.id else record.row.number
        if record.problem:
            row = unanswered_row(record.problem, id=number)
        else:
            row = answer_row(next(answers), id=number)
        yield row | ({"input": record.row.cells} if keep_columns else {})
