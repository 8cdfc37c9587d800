"""parquet, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .errors import DataError, first_line

_ROWS = 1000


def names(path: Path) -> list[str]:
    """The column names, each of which may stand once."""
    try:
        found = list(pq.read_schema(path).names)
    except (pa.ArrowException, OSError) as problem:
        raise DataError(f"{path}: the parquet file is damaged ({first_line(problem)})") from problem
    repeated = [name for name in found if found.count(name) > 1]
    if repeated:
        raise DataError(f"{path}: the column name {repeated[0]!r} stands twice; rename one")
    return found


def count(path: Path) -> int:
    """The number of records, by the file's own account."""
    try:
        return pq.read_metadata(path).num_rows
    except (pa.ArrowException, OSError) as problem:
        raise DataError(f"{path}: the parquet file is damaged ({first_line(problem)})") from problem


def records(path: Path, only: Sequence[str] | None = None, *, start_at: int = 0) -> Iterator[dict[str, Any]]:
    """The records by column name, with those columns of ``only`` that the file has (None: all).

    ``start_at`` records are left out; row groups in which all are left out are not read.
    """
    found = names(path)
    wanted = None if only is None else [name for name in found if name in only]
    try:
        with pq.ParquetFile(path) as file:
            groups, skip = _groups_from(file.metadata, start_at)
            number = start_at
            for batch in file.iter_batches(batch_size=_ROWS, columns=wanted, row_groups=groups):
                left_out = min(skip, batch.num_rows)
                batch, skip = batch.slice(left_out), skip - left_out
                yield from _rows(path, batch, number)
                number += batch.num_rows
    except (pa.ArrowException, OSError) as problem:
        raise DataError(f"{path}: the parquet file is damaged ({first_line(problem)})") from problem


def _rows(path: Path, batch: pa.RecordBatch, number: int) -> list[dict[str, Any]]:
    """The rows of a batch, the first of which is record ``number`` of the file."""
    if not batch.num_columns:
        return [{} for _ in range(batch.num_rows)]
    try:
        return batch.to_pylist()
    except Exception as problem:  # dates before the year 1, text that is no UTF-8, …: each type fails in its own way
        raise DataError(f"{path}: {_unreadable(batch, number, problem)}") from problem


def _unreadable(batch: pa.RecordBatch, number: int, problem: Exception) -> str:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for row, cell in enumerate(column):
            try:
                cell.as_py()
            except Exception as own:
                where = f"record {number + row}: column {name!r} holds a value that cannot be read"
                return f"{where} ({first_line(own)}); write the column as text, or leave it out"
    return f"records {number} to {number + batch.num_rows - 1} cannot be read ({first_line(problem)})"


def _groups_from(metadata: pq.FileMetaData, start_at: int) -> tuple[list[int], int]:
    """The row groups from the one that holds record ``start_at`` on, and how many records of it come before that."""
    groups = range(metadata.num_row_groups)
    for group in groups:
        rows = metadata.row_group(group).num_rows
        if start_at < rows:
            return list(groups[group:]), start_at
        start_at -= rows
    return [], 0
