"""What the paper claims of Figures 2 and 3, checked on their rows (the first seed of each)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .groups import THIRDS
from .summary import Summary
from .verdict import FAILED, HELD, OPEN, Verdict

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
    yield Verdict(claim="the budget rises with difficulty", data=summary.data, answer=answer, why=why)


def classes_and_layers(summary: Summary) -> Iterator[Verdict]:
    """Figure 3: order of the classes in mean, spread and entropy (means over layers); spread and entropy by layer.

    The order of means counts as measured: how far it is from chance is not computed, the figures are printed.
    """
    row = summary.rows[0]
    budgets, entropies = row["budget_by_class"], row["entropy_by_class"]
    if set(CLASSES) <= set(budgets) and set(CLASSES) <= set(entropies):
        for what, groups, field in (
            ("mean budget", budgets, "mean"),
            ("spread of the budget", budgets, "std"),
            ("entropy of the relevance", entropies, "mean"),
        ):
            values = [_mean(groups[name][field]) for name in CLASSES]
            held = all(a > b for a, b in pairwise(values))
            why = ", ".join(f"{name} {value:.4f}" for name, value in zip(CLASSES, values, strict=True))
            yield _verdict(summary, f"{what}: neutral > contradiction > entailment", held, why)
    spreads = _by_layer([group["std"] for group in budgets.values()])
    entropy = _by_layer([group["mean"] for group in entropies.values()])
    if len(spreads) > 2:
        peak = spreads.index(max(spreads))
        yield _verdict(
            summary, "the spread of the budget peaks in middle layers", 0 < peak < len(spreads) - 1, _listed(spreads)
        )
    if len(entropy) > 1:
        yield _verdict(summary, "entropy falls with depth", all(a > b for a, b in pairwise(entropy)), _listed(entropy))


def _verdict(summary: Summary, claim: str, held: bool, why: str) -> Verdict:
    return Verdict(claim=claim, data=summary.data, answer=HELD if held else FAILED, why=why)


def _by_layer(groups: Sequence[Sequence[float]]) -> list[float]:
    """Means over the classes."""
    return [_mean(values) for values in zip(*groups, strict=True)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _listed(values: Sequence[float]) -> str:
    return "by layer " + ", ".join(f"{value:.4f}" for value in values)
