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


def records(path: Path, only: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The records by column name, with those columns of ``only`` that the file has (None: all)."""
    found = names(path)
    wanted = None if only is None else [name for name in found if name in only]
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS, columns=wanted):
                if batch.num_columns == 0:
                    yield from ({} for _ in range(batch.num_rows))
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as problem:
        raise DataError(f"{path}: the parquet file is damaged ({first_line(problem)})") from problem
