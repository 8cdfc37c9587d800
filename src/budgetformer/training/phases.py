"""A run in two phases: first with all heads, then with budgets; and where the second began."""

from __future__ import annotations

import json
from pathlib import Path

BEGUN = "budgets.json"
"""Beside the checkpoints: the update before which budgets began."""


class Phases:
    """The first ``dense_share`` of the updates train with all heads; the budgets come after it.

    Where they began is kept, so that a run that goes on with another length does not go back to all heads.
    """

    def __init__(self, dense_share: float = 0.0) -> None:
        self.dense_share = dense_share
        self.begun: int | None = None

    def first(self, updates: int) -> int:
        """The update, from 0, before which budgets begin, in a run of so many; fewer than all of them."""
        planned = min(round(self.dense_share * updates), max(updates - 1, 0))
        return planned if self.begun is None else self.begun

    def rate(self, update: int, *, updates: int, warmup: float) -> float:
        """The factor of the learning rates: in each phase up over the share ``warmup`` of it, then linearly to 0."""
        first = self.first(updates)
        done, length = (update, first) if update < first else (update - first, updates - first)
        rising = round(warmup * length)
        if done < rising:
            return done / rising
        return max(0.0, (length - done) / max(length - rising, 1))

    def keep(self, folder: Path) -> None:
        """Write down where budgets began."""
        aside = folder / f".{BEGUN}.partial"
        aside.write_text(json.dumps({"update": self.begun}), encoding="utf-8")
        aside.replace(folder / BEGUN)

    def restore(self, folder: Path, update: int) -> bool:
        """Whether a run that goes on at ``update`` has its budgets already, as its folder says."""
        try:
            begun = int(json.loads((folder / BEGUN).read_text(encoding="utf-8"))["update"])
        except FileNotFoundError:
            return False
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise ValueError(f"{folder / BEGUN} cannot be read ({problem}); start anew with --overwrite") from problem
        if update > begun:
            self.begun = begun
        return update > begun
