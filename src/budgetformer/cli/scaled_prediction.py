"""``predict --engine ray``: the same answers as without, in a folder of parts that several processes write."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..data.columns import Columns, resolve_columns
from ..data.files import Reading, column_names
from ..data.identity import file_stamp
from ..data.stretches import stretches
from ..locking import alone_in
from ..model_folder import check_folder, model_identity
from ..scaling.cluster import cluster, require_ray
from ..scaling.inputs import input_files
from ..scaling.parts import Part, PartFolder
from ..scaling.reaching import settings_for
from .options import refuse
from .outcome import Stopped, warn

PART_RECORDS = 8192


@dataclass(frozen=True, kw_only=True)
class ScaledJob:
    """What ``predict --engine ray`` was asked; None stands for what the machine or the cluster has."""

    folder: Path
    input: Path
    output: Path | None
    columns: Columns
    reading: Reading
    keep_columns: bool
    resume: bool
    overwrite: bool
    budget: float | None
    max_budget: float | None
    precision: str
    execution: str
    device: str
    workers: int | None
    cpus_per_worker: int | None
    part_records: int | None
    ray_address: str | None


def predict_on_ray(job: ScaledJob) -> None:
    """Write the answers to every record of the input in parts; see ``ScaledJob``."""
    output = _checked(job)
    files = input_files(job.input, job.reading)
    PartFolder(path=output).check(resume=job.resume, overwrite=job.overwrite)
    if output.resolve() in (job.input.resolve(), job.folder.resolve()):
        raise ValueError(f"{output} would be read and written; give the answers a folder of their own")
    if job.input.is_dir() and job.input.resolve() in output.resolve().parents:
        raise ValueError(f"{output} lies in the input folder {job.input}; give the answers a place outside of it")
    from ..data.sources import check_pairs, remembered_columns
    from ..scaling.worker import WorkerPlan
    from .models import effective_budgets, load_classifier

    classifier = load_classifier(job.folder, device="cpu", precision=job.precision, execution=job.execution)
    request = effective_budgets(classifier, budget=job.budget, max_budget=job.max_budget)
    config = classifier.config
    del classifier  # every worker loads its own
    columns = resolve_columns(
        column_names(files[0], job.reading),
        job.columns,
        remembered_columns(config),
        need_label=False,
        path=files[0],
        header=job.reading.header,
    )
    columns = replace(columns, label=None)
    check_pairs(columns, config, job.input)
    # not resolved: a link may lead to a file whose name says nothing of its format, and two links to the same file
    stamps = {str(file.absolute()): file_stamp(file) for file in files}
    plan = WorkerPlan(
        folder=str(job.folder.resolve()),
        model=model_identity(job.folder),
        output=str(output.resolve()),
        stamps=stamps,
        columns=columns,
        reading=job.reading,
        keep_columns=job.keep_columns,
        request=request,
        precision=job.precision,
        execution=job.execution,
        threads=job.cpus_per_worker or 1,
    )
    output.mkdir(exist_ok=True)
    with alone_in(output):
        _answer(job, PartFolder(path=output), plan)


def _checked(job: ScaledJob) -> Path:
    """The output; refuses what cannot be, before anything is loaded."""
    require_ray()
    if job.output is None:
        raise ValueError("--engine ray writes a folder of parts: name it with --output")
    if job.device not in ("auto", "cpu"):
        raise ValueError(f"--engine ray computes on processors and got --device {job.device}; leave it out")
    if job.precision == "auto":
        raise ValueError("--engine ray needs one precision for all workers; give --precision float32, bf16 or int8")
    named = {"--workers": job.workers, "--cpus-per-worker": job.cpus_per_worker, "--part-records": job.part_records}
    for name, value in named.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if job.resume:
        refuse({"--part-records": job.part_records}, "with --resume, which goes on with the parts as they are")
    check_folder(job.folder)
    if job.ray_address is not None:
        settings_for(job.ray_address)  # refuses one where nothing listens
    return job.output


def _answer(job: ScaledJob, folder: PartFolder, plan: Any) -> None:
    from ..scaling.scoring import score

    settings = {
        "input": plan.stamps,
        "model": plan.model,
        "columns": [list(plan.columns.text), plan.columns.pair, plan.columns.id],
        "reading": repr(plan.reading),
        "request": plan.request,
        "precision": plan.precision,
        "execution": plan.execution,
        "keep_columns": plan.keep_columns,
    }
    parts = folder.resumed(settings) if job.resume else folder.begin(settings, _planned(job, plan))
    missing = folder.missing(parts)
    total, left = _records(parts), _records(missing)
    if left < total:
        print(f"going on after {total - left:,} records in {len(parts) - len(missing):,} parts", file=sys.stderr)
    bar = tqdm(desc="Predicting", unit="text", total=total, initial=total - left, disable=None, dynamic_ncols=True)
    try:
        if missing:
            with bar, cluster(address=job.ray_address, cpus=_own_cpus(job, plan.threads)) as cpus:
                workers = _workers(job, plan.threads, cpus=cpus, parts=len(missing))
                with closing(score(missing, plan, workers=workers)) as answered:
                    for records in answered:
                        bar.update(records)
    except KeyboardInterrupt:
        done = total - _records(folder.missing(parts))  # more than Ray has told by now
        place = "with --resume in place of --overwrite" if job.overwrite else "and --resume"
        raise Stopped(
            f"stopped after {done:,} records, kept in {folder.path}; go on with the same command {place}"
        ) from None
    folder.finish(settings, parts)
    print(f"{total:,} records answered in {len(parts):,} parts in {folder.path}", file=sys.stderr)


def _planned(job: ScaledJob, plan: Any) -> Any:
    first = 0
    for path in plan.stamps:
        for stretch in stretches(path, job.reading, size=job.part_records or PART_RECORDS, first=first):
            first = stretch.first + stretch.records
            yield stretch


def _records(parts: list[Part]) -> int:
    return sum(part.stretch.records for part in parts)


def _own_cpus(job: ScaledJob, each: int) -> int:
    """Processors of a cluster of this machine's own: all that may be used here, or as many as was asked for."""
    from ..serving.settings import usable_cores

    cores = usable_cores()
    asked = each * (job.workers or 1)
    if job.ray_address is None and asked > cores:
        warn(f"{job.workers or 1} workers of {each} processors each are more than the {cores} cores here")
    return max(cores, asked)


def _workers(job: ScaledJob, each: int, *, cpus: int, parts: int) -> int:
    """As many as the cluster has processors for, or as was asked; a part is the least that one can do."""
    if job.ray_address is not None and cpus < each:
        raise ValueError(f"--cpus-per-worker {each}: the cluster at {job.ray_address} has {cpus} processors")
    return min(job.workers or max(1, cpus // each), parts)
