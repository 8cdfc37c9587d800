"""Rows of several seeds as one line: what was measured for a recipe at a scale."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from budgetformer.reporting.intervals import wilson


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The rows of one recipe at one scale, one per seed; figures are means over them.

    ``accuracy_reach`` is half of the 95 % interval of the accuracy: over the test rows for one seed, over seeds and
    test rows for several, where ``spread`` is the standard deviation between seeds (None for one).
    """

    recipe: str
    what: str
    scale: str
    data: str
    rows: Sequence[dict[str, Any]]

    @property
    def experiment(self) -> str:
        """The experiment that the recipe belongs to."""
        return self.rows[0]["experiment"]

    @property
    def variant(self) -> str:
        """The recipe's name without experiment and data set."""
        return self.recipe.split("/")[-1]

    @property
    def first_seed(self) -> str:
        """Whose figures a picture shows that is drawn of one row: the first of ``rows``."""
        more = f", the first of {len(self.rows)}" if len(self.rows) > 1 else ""
        return f"seed {self.rows[0]['seed']}{more}"

    @property
    def place(self) -> str:
        """Data set, scale and seed, for the caption of what is drawn of one row."""
        return f"{self.data}, scale {self.scale}, {self.first_seed}"

    @property
    def printed(self) -> dict[str, Any]:
        """What the paper prints."""
        return self.rows[-1]["printed"]

    @property
    def accuracy(self) -> float:
        """Mean over seeds."""
        return sum(row["accuracy"] for row in self.rows) / len(self.rows)

    @property
    def spread(self) -> float | None:
        """Standard deviation of the accuracy between seeds."""
        return self.deviation("accuracy")

    @property
    def accuracy_reach(self) -> float:
        """Half of the 95 % interval."""
        interval = wilson(min(1.0, self.accuracy), self.rows[0]["test_rows"])
        of_rows = (interval.high - interval.low) / 2
        return math.hypot(of_rows, self.reach_of_seeds("accuracy"))

    def reach_of_seeds(self, name: str) -> float:
        """Half of the 95 % interval of a mean over seeds; 0 for one seed, which says nothing of others."""
        return 1.96 * (self.deviation(name) or 0.0) / math.sqrt(len(self.rows))

    def mean(self, name: str) -> float | None:
        """Mean of a figure over the seeds; None where a row does not have it."""
        known = self._values(name)
        return sum(known) / len(known) if known else None

    def deviation(self, name: str) -> float | None:
        """Standard deviation of a figure between seeds; None for one seed, or where a row does not have it."""
        known = self._values(name)
        return statistics.stdev(known) if len(known) > 1 else None

    def _values(self, name: str) -> list[float]:
        """The figure of every seed; empty where one does not have it."""
        known = [float(row[name]) for row in self.rows if row.get(name) is not None]
        return known if len(known) == len(self.rows) else []


def summaries(rows: Iterable[dict[str, Any]]) -> list[Summary]:
    """The rows by recipe and scale, in the order in which these came first.

    Of a recipe that was changed only the rows like the newest one count, of a row that was measured twice the newer.
    Rows of other experiments in the same file are left out.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        measured = {"accuracy", "test_rows"} <= set(row) or "step_seconds" in row
        if measured and {"recipe", "scale", "seed", "digest"} <= set(row):
            found.setdefault((row["recipe"], row["scale"]), []).append(row)
    made = []
    for (recipe, scale), group in found.items():
        newest = group[-1]
        by_seed = {row["seed"]: row for row in group if row["digest"] == newest["digest"]}
        kept = [by_seed[seed] for seed in sorted(by_seed)]
        made.append(Summary(recipe=recipe, what=newest["what"], scale=scale, data=newest["data"], rows=kept))
    return made
