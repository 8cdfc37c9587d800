"""Answers every record of a file, window by window, so that memory does not grow with the file."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..answering import FIELDS, WINDOW, answered_rows
from ..data.columns import Columns, resolve_columns
from ..data.errors import DataError
from ..data.files import Reading, column_names
from ..data.identity import file_stamp
from ..data.json_lines import json_line
from ..data.records import iter_records
from ..data.sources import check_pairs, remembered_columns
from ..inference import Classifier
from ..model_folder import model_identity
from .outcome import Stopped
from .predictions import print_json
from .resumable import ResumableFile
from .rows import TableWriter, kind_of


@dataclass(frozen=True, kw_only=True)
class PredictionJob:
    """What ``predict --input`` was asked; ``output`` None is standard output."""

    input: Path
    output: Path | None
    columns: Columns
    reading: Reading
    keep_columns: bool
    resume: bool
    overwrite: bool


def predict_file(job: PredictionJob, classifier: Classifier, *, folder: Path, request: dict[str, Any]) -> None:
    """Write one row for each record, in order; see ``PredictionJob``."""
    found = column_names(job.input, job.reading)
    columns = resolve_columns(
        found,
        job.columns,
        remembered_columns(classifier.config),
        need_label=False,
        path=job.input,
        header=job.reading.header,
    )
    columns = replace(columns, label=None)  # labels play no part here, so a strange one is no reason to stop
    check_pairs(columns, classifier.config, job.input)
    if job.output is None:
        for row in _rows(job, classifier, columns, request):
            print_json(row)
        sys.stdout.flush()
        return
    kind = kind_of(job.output)
    carried = _carried(found) if job.keep_columns and kind != "jsonl" else {}
    settings = {
        "input": file_stamp(job.input),
        "model": model_identity(folder),
        "columns": [list(columns.text), columns.pair, columns.id],
        "reading": repr(job.reading),
        "request": request,
        "precision": classifier.precision.name,
        "keep_columns": job.keep_columns,
        "kind": kind,
    }
    target = ResumableFile(job.output, settings=settings, header=kind != "jsonl", quoted=kind != "jsonl")
    with target.open(resume=job.resume, overwrite=job.overwrite) as file:
        table = None if kind == "jsonl" else TableWriter(file, [*FIELDS, *carried.values()], kind=kind)
        if table is not None and target.is_new:
            table.header()
        if target.records:
            print(f"going on after {target.records:,} records", file=sys.stderr)
        written = target.records
        try:
            for row in _rows(job, classifier, columns, request, skip=written, partial=target.partial):
                if table is None:
                    file.write(json_line(row))
                else:
                    table.write(_flat(row, carried, job.input))
                written += 1
                if written % WINDOW == 0:
                    file.flush()
        except KeyboardInterrupt:
            if not written:
                raise Stopped("stopped before the first record was answered, so nothing is kept") from None
            place = "with --resume in place of --overwrite" if job.overwrite else "and --resume"
            raise Stopped(
                f"stopped after {written:,} records, kept in {target.partial}; go on with the same command {place}"
            ) from None
    print(f"{written:,} records answered in {job.output}", file=sys.stderr)


def _rows(
    job: PredictionJob,
    classifier: Classifier,
    columns: Columns,
    request: dict[str, Any],
    *,
    skip: int = 0,
    partial: Path | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows after the first ``skip``, which ``partial`` has, computed in the windows of an undisturbed run.

    With as many threads as before, every digit is the same.
    """
    records = iter_records(job.input, columns, job.reading, keep_columns=job.keep_columns)
    again = skip % WINDOW  # windows are those of a run that was not stopped, so that its last digits are the same
    passed = sum(1 for _ in itertools.islice(records, skip - again))
    bar = tqdm(desc="Predicting", unit="text", initial=skip, disable=None, dynamic_ncols=True, leave=False)
    with bar:
        window = list(itertools.islice(records, WINDOW))
        if passed + len(window) < skip:
            raise DataError(
                f"{partial} holds {skip:,} answers and {job.input} has only {passed + len(window):,} records: they do "
                "not belong together; start anew with --overwrite"
            )
        while window:
            rows = answered_rows(window, classifier, columns, request=request, keep_columns=job.keep_columns)
            yield from itertools.islice(rows, again, None)
            bar.update(len(window) - again)
            again = 0
            window = list(itertools.islice(records, WINDOW))


def _carried(found: list[str]) -> dict[str, str]:
    """The input's columns and what they are called in a table beside ours."""
    taken = {*FIELDS, *found}
    carried = {}
    for name in found:
        new = name
        while new in FIELDS or (new != name and new in taken):
            new = f"input_{new}"
        taken.add(new)
        carried[name] = new
    return carried


def _flat(row: dict[str, Any], carried: dict[str, str], path: Path) -> dict[str, Any]:
    cells = row.pop("input", {})
    unknown = [name for name in cells if carried and name not in carried]
    if unknown:
        raise DataError(
            f"{path}: record with id {row['id']!r} has a field {unknown[0]!r} that the first records lack, so the "
            "table has no column for it; write --output as .jsonl"
        )
    return row | {new: cells.get(name) for name, new in carried.items()}
