"""One checkpoint at every budget: accuracy and work at 1, 2, …, H heads and at its own budgets, and which is enough."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import datasets
import numpy as np

from .evaluation import Evaluation, evaluate
from .inference import Classifier
from .method import random_policy
from .reporting.intervals import Interval, paired_difference

COPIED = ("accuracy", "macro_f1", "mean_heads", "macs", "macs_dense", "rows", "texts_per_second")


@dataclass(frozen=True, kw_only=True)
class BudgetPoint:
    """The model at one budget.

    ``choice``: "own" (the learned budgets), "learned" (``asked`` heads in every layer, the most relevant ones) or
    "random" (as many, drawn). ``figures``: accuracy, macro_f1, mean_heads, macs and macs_dense (multiply-adds executed
    per text, and with all heads), rows, texts_per_second. ``correct``: whether each row's label was found.
    """

    choice: str
    asked: int | None
    all_heads: int
    figures: dict[str, Any]
    correct: np.ndarray = field(repr=False)

    @property
    def budget(self) -> float | None:
        """The share of heads asked for; None: the model's own."""
        return None if self.asked is None else self.asked / self.all_heads

    @property
    def words(self) -> str:
        """What was asked."""
        if self.asked is None:
            return "its own budgets"
        return f"{'all' if self.asked == self.all_heads else self.asked} of {self.all_heads} heads"

    def row(self) -> dict[str, Any]:
        """As JSON values."""
        return {"choice": self.choice, "asked": self.asked, "budget": self.budget} | self.figures


@dataclass(frozen=True, kw_only=True)
class BudgetCurve:
    """All points of one checkpoint on the same rows; ``learned`` and ``random`` by rising number of heads."""

    own: BudgetPoint
    learned: tuple[BudgetPoint, ...]
    random: tuple[BudgetPoint, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """As JSON values: its own budgets first, then by heads."""
        return [point.row() for point in (self.own, *self.learned, *self.random)]


@dataclass(frozen=True, kw_only=True)
class BudgetChoice:
    """The cheapest point that loses at most ``target`` percentage points of accuracy.

    ``reference`` is what it is held against: the better of all heads and the model's own budgets, on the same rows.
    ``drop`` is the loss in points, ``interval`` where it lies with 95 % for rows like these.
    """

    target: float
    point: BudgetPoint
    reference: BudgetPoint
    drop: float
    interval: Interval

    @property
    def budget(self) -> float | None:
        """To be asked for; None: the model's own budgets."""
        return self.point.budget

    def row(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "target_accuracy_drop": self.target,
            "budget": self.budget,
            "asked": self.point.asked,
            "drop": self.drop,
            "drop_low": self.interval.low,
            "drop_high": self.interval.high,
            "reference": self.reference.words,
            "rows": len(self.point.correct),
        }

    def sentences(self) -> list[str]:
        """What was chosen, and how sure it is."""
        rows, point, reference = len(self.point.correct), self.point, self.reference
        way = "" if point.budget is None else f" for every text (budget {point.budget:.7g})"
        said = [
            f"Smallest budget within {self.target:g} percentage points: {point.words}{way}, "
            f"{point.figures['mean_heads']:.2f} heads per layer, accuracy {point.figures['accuracy']:.4f}; "
            f"the best is {reference.figures['accuracy']:.4f} with {reference.words}.",
        ]
        if point is not reference:
            change = f"loses {self.drop:.2f}" if self.drop >= 0 else f"gains {-self.drop:.2f}"
            said.append(
                f"It {change} points on these {rows:,} rows; on others like them, with 95% confidence, it loses "
                f"between {self.interval.low:.2f} and {self.interval.high:.2f}."
            )
            if self.interval.high > self.target:
                said.append(f"So these rows cannot tell that it stays within {self.target:g} points: more would.")
        if 100 / rows > self.target:
            said.append(f"One row is {100 / rows:.3g} points, more than the {self.target:g} that may be lost.")
        return said


def measure_curve(
    classifier: Classifier,
    dataset: datasets.Dataset,
    *,
    random: bool = True,
    seed: int = 0,
    own: Evaluation | None = None,
    progress: bool = False,
) -> BudgetCurve:
    """Evaluate at the model's own budgets and at every number of heads, with learned and with ``random`` choice.

    ``dataset`` as in ``evaluate``; ``own``: its evaluation at the own budgets, where there is one. Raises ValueError
    for full attention, which has no budgets.
    """
    config = classifier.config
    require_budgets(classifier)
    heads = config.num_attention_heads
    if own is None:
        # A cap of 1 changes nothing, and leaves a default budget of the folder aside.
        own = evaluate(classifier, dataset, max_budget=1.0, progress=progress, title="Own budgets")
    points: dict[str, list[BudgetPoint]] = {"learned": [], "random": []}
    for k in possible_heads(classifier):
        for choice, policy in (("learned", None), *([("random", random_policy(seed))] if random else [])):
            title = f"{k} of {heads} heads, {choice} choice"
            measured = evaluate(classifier, dataset, budget=k / heads, policy=policy, progress=progress, title=title)
            points[choice].append(_point(choice, k, heads, measured))
    return BudgetCurve(
        own=_point("own", None, heads, own), learned=tuple(points["learned"]), random=tuple(points["random"])
    )


def require_budgets(classifier: Classifier) -> None:
    """Raise ValueError for full attention, which has no curve."""
    if not classifier.config.budgeted:
        raise ValueError("this model has full attention and always uses all heads, so it has no curve of budgets")


def possible_heads(classifier: Classifier) -> range:
    """The numbers of heads that a budget can ask for: at least ``min_heads``, and no more than a layer has, but 1."""
    config = classifier.config
    most = max(config.heads_per_layer, default=config.num_attention_heads)
    return range(max(1, config.min_heads), max(1, most) + 1)


def check_target(target: Any) -> None:
    """Refuse what is no loss of accuracy in percentage points. Raises ValueError."""
    number = isinstance(target, int | float) and not isinstance(target, bool) and math.isfinite(target)
    if not number or not 0 <= target < 100:
        raise ValueError(
            f"target_accuracy_drop is in percentage points, from 0 to below 100 (0.5 is half a point), got {target!r}"
        )


def smallest_budget(curve: BudgetCurve, *, target: float) -> BudgetChoice:
    """The point with the fewest heads per layer whose accuracy is at most ``target`` points below the reference.

    The reference is the better of all heads and the own budgets, not the best of the whole curve, which would be a
    matter of luck. Of points with equally many heads the more accurate one is taken. The interval is that of the
    difference of two shares measured on the same rows (``paired_difference``).
    """
    check_target(target)
    reference = max(curve.learned[-1], curve.own, key=lambda p: int(p.correct.sum()))
    enough = [p for p in (curve.own, *curve.learned) if _drop(p, reference) <= target + 1e-9]
    point = min(enough, key=lambda p: (p.figures["mean_heads"], -p.figures["accuracy"]))
    lost = int((reference.correct & ~point.correct).sum())
    gained = int((point.correct & ~reference.correct).sum())
    reach = paired_difference(lost, gained, len(point.correct))
    return BudgetChoice(
        target=target,
        point=point,
        reference=reference,
        drop=_drop(point, reference),
        interval=Interval(low=100 * reach.low, high=100 * reach.high),
    )


def default_sentence(choice: BudgetChoice) -> str:
    """What a folder does that has ``choice`` as its default, and how to ask for something else."""
    if choice.budget is None:
        return "The folder answers with its own budgets when a call names none."
    return (
        "The folder answers with this budget when a call names none (default_budget in config.json); budget=1.0 asks "
        "for all heads and max_budget=1.0 for its own budgets."
    )


def _drop(point: BudgetPoint, reference: BudgetPoint) -> float:
    return 100 * (int(reference.correct.sum()) - int(point.correct.sum())) / len(reference.correct)


def _point(choice: str, asked: int | None, heads: int, measured: Evaluation) -> BudgetPoint:
    figures = {name: measured.figures[name] for name in COPIED}
    return BudgetPoint(choice=choice, asked=asked, all_heads=heads, figures=figures, correct=measured.correct)
