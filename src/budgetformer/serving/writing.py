"""Answers as JSON, written piece by piece: a large one takes seconds of a thread, and nobody else may wait for it.

The encoder lets no other thread work before it has ended. So a list is encoded element by element; between two of them
the event loop has its turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

HERE = 2000
"""Numbers that are written where they are, in about a millisecond; an answer with more of them goes to a thread."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """The ``body`` of an answer to ``texts`` inputs, and the ``timings`` in it (milliseconds by name)."""

    body: bytes
    texts: int
    timings: dict[str, float]


def value(content: Any) -> bytes:
    """JSON of one value. Raises ValueError for NaN and for what is no text in UTF-8."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def array(elements: Iterable[Any]) -> bytes:
    """JSON of a list; ``elements`` may make them while they are written."""
    return b"[" + b",".join(map(value, elements)) + b"]"


def members(**parts: bytes) -> bytes:
    """JSON of an object whose values are written already."""
    return b"{" + b",".join(value(name) + b":" + part for name, part in parts.items()) + b"}"
