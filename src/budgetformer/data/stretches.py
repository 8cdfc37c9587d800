"""Stretches of a file's records that are read on their own, so that several processes share a file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import jsonl, parquet
from .errors import DataError
from .files import Reading, Row, format_of
from .opening import not_in_pieces

SHARED = ("jsonl", "parquet")
"""Formats in which a record can be found without reading all those before it."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """``records`` records of ``path``, of which the first has the number ``first`` among all files that are read.

    ``start_at`` is where they begin: a byte of jsonl, which is the start of ``line``; a record of parquet (line 0).
    """

    path: str
    first: int
    records: int
    start_at: int
    line: int


def check_shared(path: str | Path, reading: Reading) -> str:
    """The format of a file that can be read in stretches. Raises DataError that says why it cannot."""
    path = Path(path)
    kind = format_of(path, reading)
    if kind not in SHARED:
        raise DataError(
            f"{path}: the records of {kind} cannot be shared out, as a quote mark anywhere may change where they end; "
            "write the file as parquet or jsonl first"
        )
    why_not = not_in_pieces(path, reading.encoding) if kind == "jsonl" else None
    if why_not:
        raise DataError(f"{path}: its records cannot be shared out: {why_not}")
    return kind


def stretches(path: str | Path, reading: Reading, *, size: int, first: int = 0) -> Iterator[Stretch]:
    """All records of a file, ``size`` at a time, in order; the numbers of the records begin at ``first``.

    Parquet says how many records it has. jsonl is read through once, for its line ends.
    """
    path = Path(path)
    if check_shared(path, reading) == "parquet":
        total = parquet.count(path)
        for start in range(0, total, size):
            yield Stretch(path=str(path), first=first + start, records=min(size, total - start), start_at=start, line=0)
        return
    starts = jsonl.starts(path, reading.encoding)
    while some := list(itertools.islice(starts, size)):
        line, byte = some[0]
        yield Stretch(path=str(path), first=first, records=len(some), start_at=byte, line=line)
        first += len(some)


def stretch_rows(stretch: Stretch, reading: Reading, *, only: Sequence[str] | None = None) -> Iterator[Row]:
    """The rows of a stretch, with the numbers, lines and cells that ``files.iter_rows`` gives them.

    Raises DataError for whatever cannot be read, and when the file has fewer records than it had.
    """
    path, number = Path(stretch.path), stretch.first
    found: Iterator[tuple[int | None, dict[str, Any]]]
    if format_of(path, reading) == "parquet":
        found = ((None, cells) for cells in parquet.records(path, only, start_at=stretch.start_at))
    else:
        found = jsonl.records(path, reading.encoding, start_at=stretch.start_at, line=stretch.line)
    for line, cells in itertools.islice(found, stretch.records):
        yield Row(number=number, line=line, cells=cells)
        number += 1
    if number < stretch.first + stretch.records:
        raise DataError(f"{path}: the file was cut while it was read; start anew with the whole file")
