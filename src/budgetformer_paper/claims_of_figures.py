"""What the paper claims of Figures 2 to 4, checked on their rows (the first seed of each)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from .groups import THIRDS
from .summary import Summary
from .verdict import (
    CLASS_ENTROPY,
    CLASS_MEAN,
    CLASS_SPREAD,
    DEPTH,
    FAILED,
    HARDER,
    HELD,
    MIDDLE,
    OPEN,
    SHARPER,
    Verdict,
)

CLASSES = ("neutral", "contradiction", "entailment")
"""In the order that the paper reports for SNLI, the largest first."""


def difficulty_rises(summary: Summary) -> Iterator[Verdict]:
    """Figure 2: simple, hard and very hard rows, by the loss of the twin.

    A step counts when it is larger than its 95 % interval (of the means over the rows).
    """
    groups = [summary.rows[0]["budget_by_difficulty"]["loss of the Transformer"][name] for name in THIRDS]
    if any(group["rows"] < 2 for group in groups):
        return
    steps = [b["mean"] - a["mean"] for a, b in pairwise(groups)]
    chances = [
        1.96 * math.hypot(a["std"] / math.sqrt(a["rows"]), b["std"] / math.sqrt(b["rows"])) for a, b in pairwise(groups)
    ]
    if all(step > chance for step, chance in zip(steps, chances, strict=True)):
        answer = HELD
    else:
        answer = FAILED if any(step < -chance for step, chance in zip(steps, chances, strict=True)) else OPEN
    why = ", ".join(f"{name} {group['mean']:.4f}" for name, group in zip(THIRDS, groups, strict=True))
    yield Verdict(claim=HARDER, data=summary.data, answer=answer, why=why)


def classes_and_layers(summary: Summary) -> Iterator[Verdict]:
    """Figure 3: order of the classes in mean, spread and entropy (means over layers); spread and entropy by layer.

    A step of the order counts when it is larger than its 95 % interval, in which the layers of a row are taken to go
    together. The course over layers counts as measured.
    """
    row = summary.rows[0]
    budgets, entropies = row["budget_by_class"], row["entropy_by_class"]
    if set(CLASSES) <= set(budgets) and set(CLASSES) <= set(entropies):
        for claim, groups, field in (
            (CLASS_MEAN, budgets, "mean"),
            (CLASS_SPREAD, budgets, "std"),
            (CLASS_ENTROPY, entropies, "mean"),
        ):
            values = [_mean(groups[name][field]) for name in CLASSES]
            errors = [_error(groups[name], of_spread=field == "std") for name in CLASSES]
            why = ", ".join(f"{name} {value:.4f}" for name, value in zip(CLASSES, values, strict=True))
            yield _verdict(summary, claim, _falls(values, errors), why)
    spreads = _by_layer([group["std"] for group in budgets.values()])
    entropy = _by_layer([group["mean"] for group in entropies.values()])
    if len(spreads) > 2:
        peak = spreads.index(max(spreads))
        yield _verdict(summary, MIDDLE, HELD if 0 < peak < len(spreads) - 1 else FAILED, _listed(spreads))
    if len(entropy) > 1:
        falls = all(a > b for a, b in pairwise(entropy))
        yield _verdict(summary, DEPTH, HELD if falls else FAILED, _listed(entropy))


def maps_are_sharper(summary: Summary) -> Iterator[Verdict]:
    """Figure 4: over test rows the most relevant heads have a lower attention entropy than the others."""
    found = summary.rows[0]["attention_entropy"]
    lead, chance = found["lead"]["mean"], 1.96 * found["lead"]["std"] / math.sqrt(found["rows"])
    answer = HELD if lead > chance else FAILED if lead < -chance else OPEN
    why = (
        f"entropy of the other heads less that of the {found['shown']} most relevant: {lead:+.3f} nats (by chance "
        f"± {chance:.3f}, {found['rows']} test rows)"
    )
    yield _verdict(summary, SHARPER, answer, why)


def _falls(values: Sequence[float], errors: Sequence[float]) -> str:
    """Whether each value is below the one before, by more than chance."""
    steps = [a - b for a, b in pairwise(values)]
    chances = [1.96 * math.hypot(a, b) for a, b in pairwise(errors)]
    if all(step > chance for step, chance in zip(steps, chances, strict=True)):
        return HELD
    return FAILED if any(step < -chance for step, chance in zip(steps, chances, strict=True)) else OPEN


def _error(group: dict[str, Any], *, of_spread: bool) -> float:
    """Standard error of the mean over layers of a class's mean, or of its standard deviation."""
    factor = math.sqrt(2) if of_spread else 1.0
    return _mean(group["std"]) / math.sqrt(max(group["rows"], 1)) / factor


def _verdict(summary: Summary, claim: str, answer: str, why: str) -> Verdict:
    return Verdict(claim=claim, data=summary.data, answer=answer, why=why)


def _by_layer(groups: Sequence[Sequence[float]]) -> list[float]:
    """Means over the classes."""
    return [_mean(values) for values in zip(*groups, strict=True)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _listed(values: Sequence[float]) -> str:
    return "by layer " + ", ".join(f"{value:.4f}" for value in values)
