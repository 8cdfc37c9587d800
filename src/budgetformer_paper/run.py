"""Runs recipes one after the other: one JSON row each, finished ones skipped, broken ones continued."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from budgetformer.inference import pick_device
from budgetformer.metering.memory import MemoryMeter
from budgetformer.reporting.results import append_row, environment, read_rows
from budgetformer.training import NonFiniteError, TrainingSettings
from budgetformer.training import run as run_training
from budgetformer.training.checkpoints import CHECKPOINTS, newest_checkpoint

from .measure import Measured, curves, measure, measure_tfidf, with_seed
from .recipe import Recipe
from .rows import Drawn, check_data, draw
from .scales import expected_seconds

RUNS, NOTES = "models", "measured.json"
_GOES_ON = (NonFiniteError, RuntimeError, MemoryError)
"""What ends one run and not the night."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """Where and how: ``results`` the file of rows, ``work`` the folder of drawn rows and models, which can be deleted
    when nothing more is to be measured. ``keep_budgets``: a folder for the budgets of every test row.
    """

    results: Path
    work: Path
    data_folder: Path | None = None
    device: str = "auto"
    keep_budgets: Path | None = None
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One row to come: recipe, seed, whether it is there already, whether it trains, and about how long it takes."""

    recipe: Recipe
    seed: int
    done: bool
    trains: bool
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Rows that were written, rows that were there before, and what failed with its reason."""

    written: int
    skipped: int
    failed: Sequence[tuple[str, str]]


def plan(recipes: Iterable[Recipe], *, seeds: int, running: Running) -> list[Planned]:
    """All rows in order, seed by seed; a model that several rows share is trained for the first of them.

    The expected time is that of the row with another seed where there is one.

    Raises ValueError for seeds below 1 or results that cannot be read.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    rows = read_rows(running.results) if running.results.is_file() else []
    there = {(row.get("recipe"), row.get("scale"), row.get("seed"), row.get("digest")) for row in rows}
    took = {(row.get("recipe"), row.get("scale"), row.get("digest")): row.get("seconds") for row in rows}
    trained: set[Path] = set()
    planned = []
    for seed in range(seeds):
        for recipe in recipes:
            done = (recipe.label, recipe.scale, seed, recipe.row_digest()) in there
            folders = {model_folder(needed, seed, running): needed for needed in recipe.trainings()}
            missing = [] if done else [f for f in folders if f not in trained and not is_trained(f)]
            guess = sum(expected_seconds(needed, train=f in missing) for f, needed in folders.items())
            measured = took.get((recipe.label, recipe.scale, recipe.row_digest()))
            expected = guess or expected_seconds(recipe) if measured is None else measured
            seconds = 0.0 if done else expected
            trained |= set(missing)
            planned.append(Planned(recipe=recipe, seed=seed, done=done, trains=bool(missing), seconds=seconds))
    return planned


def reproduce(recipes: Iterable[Recipe], *, seeds: int, running: Running) -> Outcome:
    """Run what is not there yet.

    Raises ValueError before any work for data that are missing, Interrupted after Ctrl-C with the state saved: the same
    call goes on. A run that fails for other reasons is reported, and the next one begins.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("reproduce runs in one process: start it without torchrun")
    pick_device(running.device)
    recipes = list(recipes)
    planned = plan(recipes, seeds=seeds, running=running)
    waiting = [row for row in planned if not row.done]
    check_data([row.recipe for row in waiting], running.data_folder)
    whole, finished, failed = sum(row.seconds for row in waiting), 0.0, []
    for number, row in enumerate(waiting, start=1):
        left = in_words(whole - finished)
        _say(running, f"[{number}/{len(waiting)}] {row.recipe.label}, seed {row.seed}; about {left} to go")
        try:
            run_row(row.recipe, seed=row.seed, running=running)
        except _GOES_ON as error:
            failed.append((f"{row.recipe.label}, seed {row.seed}", " ".join(str(error).split()) or repr(error)))
            print(f"failed: {failed[-1][0]}: {failed[-1][1]}", file=sys.stderr)
        finished += row.seconds
    return Outcome(written=len(waiting) - len(failed), skipped=len(planned) - len(waiting), failed=failed)


def run_row(recipe: Recipe, *, seed: int, running: Running) -> None:
    """Train unless the model is there, measure, and append the row."""
    started = time.perf_counter()
    recipe = with_seed(recipe, seed)
    drawn = draw(recipe.data, work=running.work, data_folder=running.data_folder, quiet=running.quiet)
    if recipe.training is None:
        measured, of_training = measure_tfidf(drawn, seed=seed), {}
    else:
        folders = [model_folder(needed, seed, running) for needed in recipe.trainings()]
        for needed, folder in zip(recipe.trainings(), folders, strict=True):
            if not is_trained(folder):
                train(needed, drawn, folder, running)
        measured = measure(recipe, folders, drawn, seed=seed, device=running.device, quiet=running.quiet)
        of_training = training_figures(folders[0])
    append_row(
        running.results,
        {
            "experiment": recipe.experiment,
            "recipe": recipe.label,
            "what": recipe.what,
            "scale": recipe.scale,
            "seed": seed,
            "digest": recipe.row_digest(),
            "data": recipe.data.name,
            "rows": {k: v for k, v in drawn.summary.items() if k not in ("name", "asked")},
            "config": {"data": asdict(recipe.data), "training": recipe.settings(), "ask": asdict(recipe.ask)},
            "printed": asdict(recipe.printed),
            **measured.figures,
            **of_training,
            "seconds": round(time.perf_counter() - started, 1),
            **environment(),
        },
    )
    _keep_budgets(recipe, seed, measured, running)


def train(recipe: Recipe, drawn: Drawn, folder: Path, running: Running) -> None:
    """Train into ``folder``, or go on from the newest whole checkpoint in it."""
    resume = newest_checkpoint(folder) is not None
    assert recipe.training is not None
    settings = replace(
        recipe.training,
        train=drawn.train,
        validation=drawn.validation,
        text_column=drawn.columns.text,
        pair_column=drawn.columns.pair,
        label_column=drawn.columns.label,
        output=folder,
        resume=resume,
        overwrite=not resume and folder.exists(),
        device=running.device,
        quiet=running.quiet,
        title=recipe.label,
    )
    with MemoryMeter(device=_cuda(settings)) as meter:
        result = run_training(settings)
    notes = {
        "training_seconds": round(result.seconds, 2),
        "resumed": resume,
        "peak_memory": meter.resident.bytes,
        "peak_device_memory": meter.device.bytes,
    }
    (folder / NOTES).write_text(json.dumps(notes), encoding="utf-8")
    drop_checkpoints(folder)


def drop_checkpoints(folder: Path) -> None:
    """Remove what only an unfinished run needs: at the paper's scale more than a gigabyte for each model."""
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)


def training_figures(folder: Path) -> dict[str, Any]:
    """What the row says of the training: time and memory (None where a run was broken off), updates, curves."""
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    empty = {"training_seconds": None, "resumed": None, "peak_memory": None, "peak_device_memory": None}
    notes = json.loads((folder / NOTES).read_text(encoding="utf-8")) if (folder / NOTES).is_file() else {}
    return {
        **(empty | notes),
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


def in_words(seconds: float) -> str:
    """A duration for people."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _keep_budgets(recipe: Recipe, seed: int, measured: Measured, running: Running) -> None:
    if running.keep_budgets is None or measured.budgets_RL is None:
        return
    running.keep_budgets.mkdir(parents=True, exist_ok=True)
    name = f"{recipe.label.replace('/', '-')}-{recipe.scale}-seed{seed}.csv"
    header = ",".join(f"layer{i}" for i in range(measured.budgets_RL.shape[1]))
    np.savetxt(running.keep_budgets / name, measured.budgets_RL, fmt="%.5f", delimiter=",", header=header, comments="")


def _cuda(settings: TrainingSettings) -> torch.device | None:
    return torch.device("cuda") if pick_device(settings.device).startswith("cuda") else None


def _say(running: Running, text: str) -> None:
    if not running.quiet:
        print(text, file=sys.stderr)
