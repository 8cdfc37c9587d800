"""Data sets on disk: written in batches, read through the memory map, so that their size does not matter."""

from __future__ import annotations

import atexit
import errno
import functools
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import datasets
import pyarrow as pa
from tqdm import tqdm

from .errors import DataError

BATCH_ROWS = 1000
_Item = TypeVar("_Item")


@functools.cache
def scratch_folder() -> Path:
    """A folder for this process, under the system's temporary folder (TMPDIR), removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="budgetformer-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked worker must not take its parent's files away
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def write_dataset(
    batches: Iterable[dict[str, list[Any]]], features: datasets.Features, *, folder: str | Path | None = None
) -> datasets.Dataset:
    """Write columns batch by batch to an Arrow file in ``folder`` (default: ``scratch_folder()``) and map it.

    The file gets its name when it is complete. Raises DataError when it cannot be written, e.g. on a full disk.
    """
    folder = scratch_folder() if folder is None else Path(folder)
    path = folder / f"{uuid.uuid4().hex}.arrow"
    aside = path.with_suffix(".partial")
    schema = features.arrow_schema
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(pa.RecordBatch.from_pydict(batch, schema=schema))
        aside.rename(path)
    except OSError as problem:
        reason = "the disk is full" if problem.errno == errno.ENOSPC else problem.strerror or str(problem)
        raise DataError(f"{folder}: cannot write the data there: {reason}; make room or set TMPDIR") from problem
    finally:
        aside.unlink(missing_ok=True)
    return datasets.Dataset.from_file(str(path))


def with_progress(
    items: Iterable[_Item], what: str, *, show: bool, total: int | None = None, unit: str = " rows"
) -> Iterator[_Item]:
    """The items, with a progress bar when ``show`` is set and standard error is a terminal."""
    return iter(tqdm(items, desc=what, total=total, unit=unit, disable=not (show and sys.stderr.isatty())))
