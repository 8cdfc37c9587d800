"""Runs recipes one after the other: one JSON row each, finished ones skipped, broken ones continued."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from budgetformer.data.errors import DataError
from budgetformer.inference import pick_device
from budgetformer.reporting.results import append_row, environment
from budgetformer.training import Interrupted, TimeOver
from budgetformer.training.sharding import check_sharding

from .budget_files import keep_budgets, lacks_budgets
from .cost import measure_cost
from .measure import measure, measure_tfidf, with_seed
from .planning import Planned, plan
from .processes import Processes, ProcessFailed
from .recipe import Recipe
from .rows import Drawn, draw, missing_data, said_missing
from .running import Running
from .trained import check_pretrained, check_trained_on, is_trained, model_folder, train, training_figures

__all__ = ["Outcome", "Planned", "Running", "in_words", "model_folder", "plan", "reproduce", "run_row"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Rows that were written, rows that were there before, what failed with its reason, and the rows that are ``left``
    because the time was over. ``no_budgets``: rows that were there, and whose models are no more, so that no budgets
    could be written. ``budgets_left``: rows that were there, whose budgets are left because the time was over.
    ``mistakes``: how many failed for their data or a model of other rows."""

    written: int
    skipped: int
    failed: Sequence[tuple[str, str]]
    left: int = 0
    no_budgets: int = 0
    budgets_left: int = 0
    mistakes: int = 0


def reproduce(recipes: Iterable[Recipe], *, seeds: int, running: Running) -> Outcome:
    """Run what is not there yet. Under ``torchrun`` all processes call it; the first one measures and writes.

    A run that fails, for whatever reason, is reported, and the next one begins; so are runs on a data set that is
    missing. When the time limit is over, the present training is saved and no other begins.

    Raises ValueError before any work when no run can be made, and Interrupted after Ctrl-C with finished rows and the
    state of the training kept: the same call goes on.
    """
    started = time.monotonic()
    deadline = None if running.time_limit is None else started + running.time_limit
    device, recipes = pick_device(running.device), list(recipes)
    for recipe in recipes:
        if recipe.training is not None:
            if running.fsdp:
                check_sharding(device, pretrained=recipe.training.start is not None)
                if recipe.ask.cost:
                    raise ValueError("fsdp has no effect on cost, whose steps are taken in one process; leave it out")
            running.processes.share(recipe.training.batch_size or 1)
    with running.processes.joined(device):
        return _reproduce(recipes, seeds=seeds, running=running, deadline=deadline)


def _reproduce(recipes: list[Recipe], *, seeds: int, running: Running, deadline: float | None) -> Outcome:
    processes = running.processes
    planned = plan(recipes, seeds=seeds, running=running)
    undone = processes.first(lambda: [number for number, row in enumerate(planned) if not row.done])
    waiting = [planned[number] for number in undone]
    check_pretrained(row.recipe for row in waiting)
    of_data = [row.recipe.data.name for row in waiting if not row.recipe.ask.cost]
    missing = missing_data(of_data, running.data_folder)
    if missing and set(missing) >= {row.recipe.data.name for row in waiting}:
        raise DataError(said_missing(missing))
    whole, finished = sum(row.seconds for row in waiting), 0.0
    written, failures = 0, _Failures(processes)
    for number, row in enumerate(waiting, start=1):
        if _over(deadline, processes):
            break
        name = f"{row.recipe.label}, seed {row.seed}"
        _say(running, f"[{number}/{len(waiting)}] {name}; about {in_words(whole - finished)} to go")
        try:
            with failures.noted(name):
                if row.recipe.data.name in missing and not row.recipe.ask.cost:
                    raise DataError(said_missing({row.recipe.data.name: missing[row.recipe.data.name]}))
                run_row(row.recipe, seed=row.seed, running=running, deadline=deadline)
                written += 1
        except TimeOver:
            break
        finished += row.seconds
    left = len(waiting) - written - len(failures.failed)
    no_budgets, budgets_left = _budgets_of_old([row for row in planned if row.done], running, deadline, failures)
    return Outcome(
        written=written,
        skipped=sum(row.done for row in planned),
        failed=failures.failed,
        left=left,
        no_budgets=no_budgets,
        budgets_left=budgets_left,
        mistakes=failures.mistakes,
    )


class _Failures:
    """What failed, with its reason, and how much of it for the data or a model of other rows."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.failed: list[tuple[str, str]] = []
        self.mistakes = 0

    @contextmanager
    def noted(self, name: str) -> Iterator[None]:
        """Whatever fails in the block is said and noted; a stop and what ends all processes is passed on."""
        try:
            yield
        except (Interrupted, ProcessFailed):
            raise
        except Exception as error:
            self.mistakes += isinstance(error, DataError)
            self.failed.append((name, _reason(error)))
            if self.processes.is_first:
                print(f"failed: {name}: {self.failed[-1][1]}", file=sys.stderr)


def _over(deadline: float | None, processes: Processes) -> bool:
    """Whether the time is over, as the first process sees it."""
    return processes.first(lambda: deadline is not None and time.monotonic() >= deadline)


def _budgets_of_old(
    there: list[Planned], running: Running, deadline: float | None, failures: _Failures
) -> tuple[int, int]:
    """Write the budgets of rows that were there before, where they are asked for: how many have no model any more, and
    how many are left because the time was over. What fails is noted, row by row."""
    processes, gone = running.processes, 0
    lacking = processes.first(
        lambda: [place for place, row in enumerate(there) if lacks_budgets(row.recipe, row.seed, running)]
    )
    for tried, place in enumerate(lacking):
        if _over(deadline, processes):
            return gone, len(lacking) - tried
        row = there[place]
        with failures.noted(f"budgets of {row.recipe.label}, seed {row.seed}"):
            gone += not processes.first(partial(_write_budgets_of, row, running))
    return gone, 0


def run_row(recipe: Recipe, *, seed: int, running: Running, deadline: float | None = None) -> None:
    """Train unless the model is there, measure, and append the row."""
    started = time.perf_counter()
    recipe = with_seed(recipe, seed)
    folders, drawn = ([], None) if recipe.ask.cost else _trained(recipe, seed, running, deadline)

    def append() -> None:
        figures = _figures(recipe, folders, drawn, seed=seed, running=running)
        append_row(running.results, _row(recipe, seed, figures, seconds=time.perf_counter() - started, running=running))

    running.processes.first(append)


def _row(recipe: Recipe, seed: int, figures: dict[str, Any], *, seconds: float, running: Running) -> dict[str, Any]:
    return {
        "experiment": recipe.experiment,
        "recipe": recipe.label,
        "what": recipe.what,
        "scale": recipe.scale,
        "seed": seed,
        "digest": recipe.row_digest(),
        "data": recipe.data.name,
        "config": {"data": asdict(recipe.data), "training": recipe.settings(), "ask": asdict(recipe.ask)},
        "printed": asdict(recipe.printed),
        "processes": running.processes.count,
        "fsdp": running.fsdp,
        **figures,
        "seconds": round(seconds, 1),
        **environment(),
    }


def _trained(recipe: Recipe, seed: int, running: Running, deadline: float | None) -> tuple[list[Path], Drawn]:
    """The folders of the models that a row asks, trained if need be, and the rows of data."""
    processes = running.processes

    drawn = processes.first(partial(_drawn, recipe, running))
    if recipe.training is None:
        return [], drawn
    folders = [model_folder(needed, seed, running) for needed in recipe.trainings()]
    for needed, folder in zip(recipe.trainings(), folders, strict=True):
        if processes.first(partial(is_trained, folder)):
            processes.first(partial(check_trained_on, folder, drawn))
        else:
            train(needed, drawn, folder, running, deadline=deadline)
    return folders, drawn


def _drawn(recipe: Recipe, running: Running) -> Drawn:
    return draw(
        recipe.data,
        work=running.work,
        data_folder=running.data_folder,
        quiet=running.quiet,
        revision=running.revisions.get(recipe.data.name),
    )


def _figures(
    recipe: Recipe, folders: list[Path], drawn: Drawn | None, *, seed: int, running: Running
) -> dict[str, Any]:
    """What is measured of a trained model, of TF-IDF, or of the cost of a step."""
    if drawn is None:
        return measure_cost(recipe, seed=seed, device=running.device)
    rows = {"rows": {k: v for k, v in drawn.summary.items() if k not in ("name", "asked", "files")}}
    if recipe.training is None:
        return rows | measure_tfidf(drawn, seed=seed).figures
    keep = running.keep_budgets is not None
    measured = measure(recipe, folders, drawn, seed=seed, device=running.device, quiet=running.quiet, answers=keep)
    keep_budgets(recipe, seed, measured, running)
    return rows | measured.figures | training_figures(folders[0])


def _reason(error: Exception) -> str:
    """One line; what no user can mend has the name of its kind, and with BUDGETFORMER_DEBUG its place."""
    if os.environ.get("BUDGETFORMER_DEBUG", "") not in ("", "0"):
        traceback.print_exception(error)
    said = " ".join(str(error).split())
    plain = said and isinstance(error, ValueError | ArithmeticError | OSError)
    return said if plain else f"{type(error).__name__}: {said}"


def in_words(seconds: float) -> str:
    """A duration for people."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _write_budgets_of(row: Planned, running: Running) -> bool:
    """The budgets of a row that was there before, from its model; False when that is no more."""
    recipe = row.recipe
    folders = [model_folder(needed, row.seed, running) for needed in recipe.trainings()]
    if not all(map(is_trained, folders)):
        return False
    _say(running, f"budgets of {recipe.label}, seed {row.seed}, whose row is there")
    drawn = _drawn(recipe, running)
    for folder in folders:
        check_trained_on(folder, drawn)
    _figures(with_seed(recipe, row.seed), folders, drawn, seed=row.seed, running=running)
    return True


def _say(running: Running, text: str) -> None:
    if running.processes.is_first and not running.quiet:
        print(text, file=sys.stderr)
