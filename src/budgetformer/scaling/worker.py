"""What runs in a worker: one model, loaded once, that answers part after part."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..answering import WINDOW, answered_rows
from ..data.columns import Columns
from ..data.files import Reading
from ..data.identity import file_stamp
from ..data.json_lines import json_line
from ..data.records import record_of
from ..data.stretches import Stretch, stretch_rows
from ..inference import Classifier
from ..model_folder import model_identity
from .failures import Failure
from .parts import Part, write_whole


@dataclass(frozen=True, kw_only=True)
class WorkerPlan:
    """What every worker is told. Paths are those of a file system that all machines share.

    ``model`` is the digest of the model folder and ``stamps`` say what each input file was when the run began: a
    worker that finds another model or file stops the run. ``threads`` are those of one worker.
    """

    folder: str
    model: str
    output: str
    stamps: dict[str, dict[str, Any]]
    columns: Columns
    reading: Reading
    keep_columns: bool
    request: dict[str, Any]
    precision: str
    execution: str
    threads: int


class PartScorer:
    """Answers parts. Ray Data makes one in each worker and calls it with a row that names a stretch."""

    def __init__(self, plan: WorkerPlan) -> None:
        os.environ["RAYON_NUM_THREADS"] = str(plan.threads)  # of the tokenizer, read at its first use
        torch.set_num_threads(plan.threads)
        self.plan = plan
        self.failure: Failure | None = None
        try:
            _require_same_model(plan)
            self.classifier = Classifier.from_pretrained(
                plan.folder, device="cpu", precision=plan.precision, execution=plan.execution
            )
        except Exception as error:  # raised here, Ray would start workers without end
            self.failure = Failure.of(error)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Answer a part and write its file; ``failure`` is empty, or says what went wrong."""
        number = int(row.pop("part"))
        part = Part(number=number, stretch=Stretch(**row))
        failure = self.failure
        path = Path(self.plan.output) / part.name
        if failure is None and not path.exists():  # it does when a worker died behind it
            try:
                write_whole(path, self._lines(part.stretch))
            except Exception as error:
                failure = Failure.of(error)
        return {"records": part.stretch.records, "failure": failure.text() if failure else ""}

    def _lines(self, stretch: Stretch) -> Iterator[str]:
        plan = self.plan
        _require_same_input(stretch.path, plan)
        only = None if plan.keep_columns else plan.columns.names()
        rows = stretch_rows(stretch, plan.reading, only=only)
        records = (record_of(row, plan.columns, path=stretch.path) for row in rows)
        while window := list(itertools.islice(records, WINDOW)):
            answers = answered_rows(
                window, self.classifier, plan.columns, request=plan.request, keep_columns=plan.keep_columns
            )
            yield from map(json_line, answers)
        _require_same_input(stretch.path, plan)  # else some records may be those of before


def _require_same_input(path: str, plan: WorkerPlan) -> None:
    if file_stamp(Path(path)) != plan.stamps[path]:
        raise ValueError(f"{path} was changed while it was read; start anew with --overwrite")


def _require_same_model(plan: WorkerPlan) -> None:
    if model_identity(Path(plan.folder)) != plan.model:
        raise ValueError(
            f"{plan.folder} holds another model than when the run began, so its answers would be mixed; put the first "
            "model back and go on with --resume, or start anew with --overwrite"
        )
