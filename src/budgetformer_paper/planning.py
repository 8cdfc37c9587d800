"""Which rows are to come, what they train, and about how long they take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .recipe import Recipe, digest
from .row_checks import read_checked
from .running import Running
from .scales import expected_seconds
from .trained import is_trained, model_folder


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One row to come: recipe, seed, whether it is there already, whether it trains, and about how long it takes:
    seconds of ``measuring``, and of ``training`` what no row before it trains."""

    recipe: Recipe
    seed: int
    done: bool
    trains: bool
    measuring: float
    training: float

    @property
    def seconds(self) -> float:
        """Of both."""
        return self.measuring + self.training


def plan(recipes: Iterable[Recipe], *, seeds: int, running: Running) -> list[Planned]:
    """All rows in order, seed by seed; a model that several rows share is trained for the first of them.

    The expected times are those of the row with another seed, and of a model with the same training, where there are
    any.

    Raises ValueError for seeds below 1 or results that cannot be read.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    recipes = list(recipes)
    rows = read_checked(running.results) if running.results.is_file() else []
    rows = [row for row in rows if {"recipe", "digest"} <= set(row)]
    there = {(row["recipe"], row["scale"], row["seed"], row["digest"]) for row in rows if _counts(row, running)}
    took = {(row["recipe"], row["scale"], row["digest"]): row for row in rows if row.get("seconds") is not None}
    trainings = _training_seconds(rows)
    trained: set[Path] = set()
    planned = []
    for seed in range(seeds):
        for recipe in recipes:
            done = (recipe.label, recipe.scale, seed, recipe.row_digest()) in there
            folders = {model_folder(needed, seed, running): needed for needed in recipe.trainings()}
            missing = [] if done else [f for f in folders if f not in trained and not is_trained(f)]
            trained |= set(missing)
            measured = took.get((recipe.label, recipe.scale, recipe.row_digest()))
            planned.append(
                Planned(
                    recipe=recipe,
                    seed=seed,
                    done=done,
                    trains=bool(missing),
                    measuring=0.0 if done else _measuring(recipe, measured),
                    training=sum(_training(folders[folder], trainings) for folder in missing),
                )
            )
    return planned


def _counts(row: dict[str, Any], running: Running) -> bool:
    """Whether a row of ``reproduce`` is of the commit that was asked for where one was."""
    asked = running.revisions.get(row["data"])
    return asked is None or (row.get("rows") or {}).get("revision") == asked


def _training_seconds(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """How long trainings took, by scale and digest of the training; the newest row of each counts."""
    found = {}
    for row in rows:
        config = row.get("config") or {}
        if config.get("training") and row.get("training_seconds") is not None:
            named = digest({"data": config.get("data"), "training": config["training"]})
            found[row["scale"], named] = float(row["training_seconds"])
    return found


def _measuring(recipe: Recipe, row: dict[str, Any] | None) -> float:
    """Of the row with another seed: its seconds without the training, where that was part of them; a guess where a
    training went on after a stop, of which the row does not say how much was left."""
    guess = sum(expected_seconds(needed, train=False) for needed in recipe.trainings()) or expected_seconds(recipe)
    if row is None:
        return guess
    seconds, training = float(row["seconds"]), row.get("training_seconds")
    if training is not None and seconds >= training:
        return seconds - training
    return min(seconds, guess) if row.get("resumed") else seconds


def _training(recipe: Recipe, trainings: dict[tuple[str, str], float]) -> float:
    """The seconds of one training: those that it took with another seed, or a guess."""
    known = trainings.get((recipe.scale, recipe.training_digest()))
    return expected_seconds(recipe) - expected_seconds(recipe, train=False) if known is None else known
