"""Under load, fewer heads for everybody rather than no answer for some."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What an input is answered with; ``shed`` is the server's cap where it changed the request, else None."""

    budget: float | None
    max_budget: float | None
    shed: float | None = None


class Shedder:
    """Caps budgets to ``cap`` while the queue is full: on at a fill of ``at``, off below half of it.

    The gap keeps it from switching with every batch. ``cap`` None: never. ``default``: the model's budget for requests
    without one, known when it is loaded.
    """

    def __init__(self, *, cap: float | None, at: float) -> None:
        self.cap, self.at = cap, at
        self.default: float | None = None
        self.active = False

    def watch(self, fill: float) -> None:
        """Take note of how full the queue is, in [0, 1]."""
        self.active = self.cap is not None and fill >= (self.at / 2 if self.active else self.at)

    def tightened(self, budget: float | None, max_budget: float | None) -> Asked:
        """The budget or cap that a request gets now."""
        default = self.default if budget is None and max_budget is None else None
        asked = next((share for share in (budget, max_budget, default) if share is not None), None)
        if not self.active or self.cap is None or (asked is not None and asked <= self.cap):
            return Asked(budget=budget, max_budget=max_budget)
        if budget is not None or default is not None:
            return Asked(budget=self.cap, max_budget=None, shed=self.cap)
        return Asked(budget=None, max_budget=self.cap, shed=self.cap)
