"""One checkpoint at 1, 2, …, H heads: accuracy and multiply-adds, learned against random choice of heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from ..intervals import wilson
from .style import BLACK, BLUE, GREY, PURPLE, VERMILLION, End, label_ends, new_figure, set_title, styled

LEAST_SPAN = 0.02
"""The accuracy axis shows at least this much, so that noise of a few rows does not look like an effect."""


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """``heads`` kept per layer and text (a mean), ``macs`` multiply-adds executed per text, measured on ``rows``."""

    heads: float
    accuracy: float
    macs: float
    rows: int

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> CurvePoint:
        """From the figures of an evaluation."""
        return cls(
            heads=figures["mean_heads"], accuracy=figures["accuracy"], macs=figures["macs"], rows=figures["rows"]
        )


@dataclass(frozen=True, kw_only=True)
class _Line:
    """Points of equal budget averaged (several seeds), with the interval of the mean accuracy."""

    heads: np.ndarray
    accuracy: np.ndarray
    low: np.ndarray
    high: np.ndarray
    macs: np.ndarray


@styled
def budget_curve(
    *,
    learned: Sequence[CurvePoint],
    random: Sequence[CurvePoint] = (),
    own: CurvePoint | None = None,
    twin: CurvePoint | None = None,
    heads: int,
) -> Figure:
    """Accuracy (with its 95 % interval) and multiply-adds against heads per layer, of the same checkpoint.

    ``learned``: evaluated at fixed budgets. ``random``: the same with randomly permuted relevance, several seeds are
    averaged. ``own``: at the learned budgets. ``twin``: the full-attention model, drawn as a level. ``heads``: H.
    """
    if not learned and twin is None:
        raise ValueError("learned or twin must hold at least one point, or there is nothing to draw")
    figure = new_figure(5.6)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1.6, 1])
    lines = [
        (_line(learned), BLUE, "o", "-", "learned choice"),
        (_line(random), VERMILLION, "s", "--", "random choice"),
    ]
    ends, cost_ends = [], []
    for line, color, marker, style, label in lines:
        if line is None:
            continue
        top.fill_between(line.heads, line.low, line.high, color=color, alpha=0.15, linewidth=0)
        top.plot(line.heads, line.accuracy, color=color, marker=marker, linestyle=style)
        ends.append(End(value=line.accuracy[-1], label=label, color=color))
    chosen = lines[0][0]
    if chosen is not None:
        bottom.plot(chosen.heads, chosen.macs / 1e6, color=BLUE, marker="o")
        cost_ends.append(End(value=chosen.macs[-1] / 1e6, label="this model", color=BLUE))
    if twin is not None:
        top.axhline(twin.accuracy, color=BLACK, linestyle=":", linewidth=1.4)
        bottom.axhline(twin.macs / 1e6, color=BLACK, linestyle=":", linewidth=1.4)
        ends.append(End(value=twin.accuracy, label="full attention", color=BLACK))
        cost_ends.append(End(value=twin.macs / 1e6, label="full attention", color=BLACK))
    if own is not None:
        for axes, value in ((top, own.accuracy), (bottom, own.macs / 1e6)):
            axes.plot([own.heads], [value], color=PURPLE, marker="*", markersize=13, markeredgecolor=BLACK, zorder=5)
    _accuracy_axis(top, [line for line, *_ in lines if line is not None], own, twin)
    _cost_axis(bottom, chosen, twin)
    for axes in (top, bottom):
        axes.set_xlim(1 - 0.03 * heads if heads > 1 else 0.5, heads + 0.03 * heads if heads > 1 else 1.5)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=16, integer=True))
        axes.grid(axis="y")
        axes.set_axisbelow(True)
    bottom.set_xlabel(f"heads kept per layer, of {heads} (mean over texts)")
    set_title(figure, _finding(chosen, lines[1][0], own, twin))
    label_ends(figure, {top: ends, bottom: cost_ends})
    if own is not None:
        _name_own(top, own)
        if twin is not None and twin.macs > 0:
            share = f"{own.macs / twin.macs:.0%} of full attention"
            bottom.annotate(
                share, (own.heads, own.macs / 1e6), xytext=(0, -14), textcoords="offset points", va="center"
            )
    return figure


def _line(points: Sequence[CurvePoint]) -> _Line | None:
    if not points:
        return None
    places = sorted({round(p.heads, 6) for p in points})
    groups = [[p for p in points if round(p.heads, 6) == place] for place in places]
    accuracy = np.array([np.mean([p.accuracy for p in group]) for group in groups])
    # All seeds answer the same texts, so the number of texts is that of one evaluation.
    intervals = [wilson(float(a), group[0].rows) for a, group in zip(accuracy, groups, strict=True)]
    return _Line(
        heads=np.array(places),
        accuracy=accuracy,
        low=np.array([i.low for i in intervals]),
        high=np.array([i.high for i in intervals]),
        macs=np.array([np.mean([p.macs for p in group]) for group in groups]),
    )


def _accuracy_axis(axes: Axes, lines: list[_Line], own: CurvePoint | None, twin: CurvePoint | None) -> None:
    points = [p.accuracy for p in (own, twin) if p is not None]
    low = min([*points, *(float(line.low.min()) for line in lines)])
    high = max([*points, *(float(line.high.max()) for line in lines)])
    room = max(LEAST_SPAN - (high - low), 0) / 2 + 0.04 * (high - low)
    axes.set_ylim(max(low - room, -0.02), min(high + room, 1.02))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0 if high - low > 0.05 else 1))
    axes.set_ylabel("accuracy")
    axes.set_title("Accuracy, same budget for every text (band: 95% interval)")


def _cost_axis(axes: Axes, line: _Line | None, twin: CurvePoint | None) -> None:
    whole = twin.macs if twin is not None else float(line.macs[-1]) if line is not None else 0.0
    most = max([whole, *(line.macs.tolist() if line is not None else [])]) / 1e6
    axes.set_ylim(0, 1.12 * most if most > 0 else 1)
    axes.set_ylabel("million multiply-adds\nper text")
    axes.set_title("Multiply-adds executed")


def _name_own(axes: Axes, own: CurvePoint) -> None:
    """In the lower right corner, which curves that rise with the heads leave empty."""
    axes.annotate(
        f"learned budgets:\n{own.heads:.2f} heads, {own.accuracy:.1%}",
        xy=(own.heads, own.accuracy),
        xytext=(0.6, 0.1),
        textcoords="axes fraction",
        va="center",
        arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.8, "shrinkB": 6},
        bbox={"facecolor": "white", "edgecolor": GREY, "linewidth": 0.6, "pad": 2.5},
    )


def _finding(learned: _Line | None, random: _Line | None, own: CurvePoint | None, twin: CurvePoint | None) -> str:
    parts = []
    if own is not None:
        parts.append(f"{own.accuracy:.1%} with {own.heads:.2f} heads per layer")
    if twin is not None:
        parts.append(f"{twin.accuracy:.1%} with full attention")
    if learned is not None and random is not None:
        shared = [
            (heads, float(learned.accuracy[i] - random.accuracy[list(random.heads).index(heads)]))
            for i, heads in enumerate(learned.heads)
            if heads in random.heads
        ]
        if shared:
            heads, points = max(shared, key=lambda pair: abs(pair[1]))
            word = "loses" if points >= 0 else "gains"
            parts.append(f"random choice of heads {word} {100 * abs(points):.1f} points at {heads:g} per layer")
    elif learned is not None and not parts:
        parts.append(
            f"From {learned.accuracy[0]:.1%} at {learned.heads[0]:g} to {learned.accuracy[-1]:.1%} at all heads"
        )
    return ", ".join(parts)
