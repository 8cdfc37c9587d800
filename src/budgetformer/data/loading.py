"""Whole files as a data set on disk."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets

from .columns import Columns
from .errors import DataError
from .files import Reading, format_of
from .records import iter_records
from .storage import BATCH_ROWS, with_progress, write_dataset

_BATCH_CHARACTERS = 1 << 24


def features(*, pairs: bool) -> datasets.Features:
    """The columns of a data set: text, pair (only of pairs), label (null: none) and row, the record's number from 0."""
    columns = {"text": datasets.Value("string")}
    if pairs:
        columns["pair"] = datasets.Value("string")
    return datasets.Features(columns | {"label": datasets.Value("string"), "row": datasets.Value("int64")})


def load(
    paths: str | Path | Sequence[str | Path],
    columns: Columns,
    reading: Reading | None = None,
    *,
    folder: str | Path | None = None,
    progress: bool = True,
) -> datasets.Dataset:
    """All records of one or several files as a data set (see ``features``), in order, memory-mapped from ``folder``.

    Rows are numbered on from file to file. Raises DataError naming file and row for a cell that is not text.
    """
    files = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    rows = itertools.chain.from_iterable(_rows(path, columns, reading, progress) for path in files)
    return write_rows(rows, pairs=columns.pair is not None, folder=folder)


def write_rows(rows: Iterator[dict[str, Any]], *, pairs: bool, folder: str | Path | None = None) -> datasets.Dataset:
    """Dictionaries with text, label and perhaps pair as a data set; rows are numbered in order."""
    return write_dataset(_batches(rows, list(features(pairs=pairs))), features(pairs=pairs), folder=folder)


def _rows(path: Path, columns: Columns, reading: Reading | None, progress: bool) -> Iterator[dict[str, Any]]:
    format_of(path, reading or Reading())
    for record in with_progress(iter_records(path, columns, reading), f"Reading {path.name}", show=progress):
        if record.problem:
            raise DataError(f"{path}: {record.row.where}: {record.problem}")
        yield {"text": record.text, "pair": record.pair, "label": record.label}


def _batches(rows: Iterator[dict[str, Any]], names: Sequence[str]) -> Iterator[dict[str, list[Any]]]:
    batch: dict[str, list[Any]] = {name: [] for name in names}
    characters = 0
    for number, row in enumerate(rows):
        for name in names:
            batch[name].append(number if name == "row" else row[name])
        characters += len(row["text"])
        if len(batch["row"]) == BATCH_ROWS or characters > _BATCH_CHARACTERS:
            yield batch
            batch, characters = {name: [] for name in names}, 0
    if batch["row"]:
        yield batch


class Texts:
    """All texts of a data set, of pairs both, read in batches as often as it is iterated."""

    def __init__(self, dataset: datasets.Dataset) -> None:
        self._dataset = dataset.select_columns([name for name in ("text", "pair") if name in dataset.features])

    def __iter__(self) -> Iterator[str]:
        for batch in self._dataset.iter(batch_size=BATCH_ROWS):
            for texts in batch.values():
                yield from texts
