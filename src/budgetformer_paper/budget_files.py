"""The budgets of every test row as a file of comma-separated values, one for each row of a model with budgets."""

from __future__ import annotations

import csv
from pathlib import Path

from .measure import Measured
from .recipe import Recipe
from .running import Running


def keep_budgets(recipe: Recipe, seed: int, measured: Measured, running: Running) -> None:
    """Write the budgets that were measured, where they are asked for and there are any."""
    if running.keep_budgets is None or measured.budgets_RL is None:
        return
    file = _file(recipe, seed, running.keep_budgets)
    file.parent.mkdir(parents=True, exist_ok=True)
    layers = [f"layer{i}" for i in range(measured.budgets_RL.shape[1])]
    aside = file.with_name(f"{file.name}.partial")
    with aside.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(["row", "label", "predicted", "correct", *layers])
        for (number, label, predicted), budget_L in zip(measured.answers, measured.budgets_RL, strict=True):
            writer.writerow([number, label, predicted, int(label == predicted), *(f"{s:.5f}" for s in budget_L)])
    aside.replace(file)


def lacks_budgets(recipe: Recipe, seed: int, running: Running) -> bool:
    """Whether budgets are asked for of a row that has them, and are not in their file yet."""
    training = recipe.training
    if running.keep_budgets is None or training is None or not training.config.get("budgeted", True) or recipe.ask.cost:
        return False
    return not _file(recipe, seed, running.keep_budgets).is_file()


def _file(recipe: Recipe, seed: int, folder: Path) -> Path:
    return folder / f"{recipe.label.replace('/', '-')}-{recipe.scale}-seed{seed}.csv"
