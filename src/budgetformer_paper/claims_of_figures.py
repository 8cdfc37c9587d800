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
    yield _verdict(summary, HARDER, answer, why)


def classes_and_layers(summary: Summary) -> Iterator[Verdict]:
    """Figure 3: order of the classes in mean, spread and entropy (means over layers); spread and entropy by layer.

    A step of the order counts when it is larger than its 95 % interval, in which the layers of a row are taken to go
    together. So does a step of the entropy from a layer to the next, and the lead of the largest spread of the layers
    between over that of the first and the last.
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
    spreads, entropy = _spreads_by_layer(budgets), _entropies_by_layer(entropies)
    if len(spreads) > 2:
        ends, between = max(spreads[0], spreads[-1]), max(spreads[1:-1])
        answer = _falls([between[0], ends[0]], [between[1], ends[1]])
        yield _verdict(summary, MIDDLE, answer, _listed(spreads))
    if len(entropy) > 1:
        answer = _falls([value for value, _ in entropy], [error for _, error in entropy])
        yield _verdict(summary, DEPTH, answer, _listed(entropy))


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
    return Verdict(claim=claim, data=summary.data, answer=answer, why=f"{why} ({summary.first_seed})")


def _spreads_by_layer(budgets: dict[str, Any]) -> list[tuple[float, float]]:
    """The standard deviation of every layer, mean over the classes, with its standard error."""
    return _by_layer(budgets, "std", factor=math.sqrt(2))


def _entropies_by_layer(entropies: dict[str, Any]) -> list[tuple[float, float]]:
    """The entropy of every layer, mean over the classes, with its standard error."""
    return _by_layer(entropies, "mean", factor=1.0)


def _by_layer(groups: dict[str, Any], field: str, *, factor: float) -> list[tuple[float, float]]:
    values = [_mean(values) for values in zip(*(group[field] for group in groups.values()), strict=True)]
    errors = [
        math.hypot(*(std / math.sqrt(max(rows, 1)) / factor for std, rows in layer)) / len(groups)
        for layer in zip(*([(std, group["rows"]) for std in group["std"]] for group in groups.values()), strict=True)
    ]
    return list(zip(values, errors, strict=True))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _listed(values: Sequence[tuple[float, float]]) -> str:
    return "by layer " + ", ".join(f"{value:.4f}" for value, _ in values)
