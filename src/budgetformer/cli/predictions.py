"""The fields of an answer."""

from __future__ import annotations

import sys
from typing import Any

from ..inference import Prediction
from .rows import json_line

FIELDS = ("id", "label", "score", "scores", "heads", "macs", "truncated", "reason")


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


def print_json(row: dict[str, Any]) -> None:
    """One JSON line on standard output, in ASCII where that is not UTF-8."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    sys.stdout.write(json_line(row, ascii_only=not unicode))
