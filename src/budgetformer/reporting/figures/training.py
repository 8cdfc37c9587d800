"""Pictures of a training run, from the rows that the Trainer logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from .style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    End,
    Look,
    label_ends,
    look,
    new_figure,
    plot_series,
    set_title,
    styled,
)

MOST_POINTS = 200
"""A line of the losses has at most this many points; each is the mean of a run of log rows."""

MOST_LAYER_POINTS = 60
"""The same for lines by layer, several of which share a picture."""

History = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Series:
    """One logged quantity: ``x`` in epochs, ``y`` its values."""

    x: np.ndarray
    y: np.ndarray


@styled
def budgets_over_training(history: History, *, s_min: float, s_max: float, kept_step: int | None = None) -> Figure:
    """Mean budget of each layer over the epochs, [s_min, s_max] shaded, and the validation accuracy beside it.

    ``history`` as ``transformers.Trainer`` logs it with ``BudgetSchedule``; ``kept_step`` is the update whose
    checkpoint was kept. With full attention there are no budgets, and only the accuracy is drawn.
    """
    budgets = layer_series(history, "budget")
    accuracy = evaluated(history, "eval_accuracy")
    kept = next((row.get("epoch") for row in history if kept_step is not None and row.get("step") == kept_step), None)
    figure = new_figure(3.3)
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1]) if budgets else (None, figure.subplots())
    ends = {} if left is None else {left: _budgets(left, budgets, s_min, s_max)}
    right.plot(accuracy.x, accuracy.y, color=BLACK, marker="o")
    known = accuracy.y[np.isfinite(accuracy.y)]
    if len(known):
        room = 0.12 * max(known.max() - known.min(), 0.02)
        right.set_ylim(max(known.min() - room, -0.01), min(known.max() + room, 1.01))
    _axes(right, "Validation accuracy", "share of texts")
    if kept is not None:
        for axes in figure.axes:
            axes.axvline(kept, color=GREY, linewidth=0.9, linestyle=(0, (2, 2)), zorder=0)
        right.text(kept, 0.02, "kept ", transform=right.get_xaxis_transform(), ha="right", va="bottom", color=GREY)
    set_title(figure, _finding_of_budgets(budgets, accuracy, s_min, s_max))
    label_ends(figure, ends)
    return figure


@styled
def training_curves(history: History, *, heads: int) -> Figure:
    """Task loss, the losses that join it, temperature, and what the heads of each layer do, over the epochs.

    Effective heads are exp(entropy) of the relevance, distinct heads those that some text used since the last log
    row; ``heads`` is H, the top of both scales. A full-attention run has a task loss only.
    """
    effective, distinct = layer_series(history, "effective_heads"), layer_series(history, "distinct_heads")
    task = logged(history, "task_loss")
    task = task if len(task.x) else logged(history, "loss")
    figure = new_figure(7.6 if effective else 2.9)
    if not effective:
        alone = figure.subplots()
        ends = _losses(alone, task, evaluated(history, "eval_loss"))
        set_title(figure, _finding_of_curves(task, effective, heads))
        label_ends(figure, {alone: ends})
        return figure
    grid = figure.subplots(3, 2)
    labels = {
        grid[0, 0]: _losses(grid[0, 0], task, evaluated(history, "eval_loss")),
        grid[0, 1]: _regularisers(grid[0, 1], history),
    }
    tau = logged(history, "tau")
    grid[1, 0].plot(tau.x, tau.y, color=PURPLE)
    grid[1, 0].set_ylim(bottom=0)
    _axes(grid[1, 0], "Temperature of the relevance", "τ")
    norm = logged(history, "grad_norm")
    grid[1, 1].plot(norm.x, norm.y, color=GREEN, linewidth=1.1)
    if np.nanmin(norm.y, initial=np.inf) > 0:
        grid[1, 1].set_yscale("log")
        grid[1, 1].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        grid[1, 1].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        grid[1, 1].yaxis.set_minor_formatter(NullFormatter())
    _axes(grid[1, 1], "Gradient norm", "norm before clipping")
    for axes, layers, title in (
        (grid[2, 0], effective, "Effective heads by layer"),
        (grid[2, 1], distinct, "Distinct heads by layer"),
    ):
        labels[axes] = []
        for layer, series in enumerate(layers):
            style = look(layer, len(layers))
            plot_series(axes, series.x, series.y, style)
            labels[axes].append(End(value=series.y[-1], label=str(layer), color=style.color))
        axes.set_ylim(0, heads * 1.06)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        _axes(axes, title, "heads")
    set_title(figure, _finding_of_curves(task, effective, heads))
    label_ends(figure, labels)
    return figure


def logged(history: History, name: str, *, most: int = MOST_POINTS) -> Series:
    """A quantity of the training rows, averaged in runs to at most ``most`` points; NaN stays NaN."""
    rows = [(row.get("epoch", row.get("step", 0)), row[name]) for row in history if row.get(name) is not None]
    x, y = np.array([r[0] for r in rows], dtype=float), np.array([r[1] for r in rows], dtype=float)
    run = -(-len(x) // most)
    if run > 1:
        starts = range(0, len(x), run)
        x, y = (np.array([part[i : i + run].mean() for i in starts]) for part in (x, y))
    return Series(x=x, y=y)


def evaluated(history: History, name: str) -> Series:
    """A quantity of the evaluations. After training the kept checkpoint is evaluated again at the last update; the
    first row of an update is the one of the training."""
    first: dict[Any, tuple[float, float]] = {}
    for row in history:
        if row.get(name) is not None:
            first.setdefault(row.get("step"), (row.get("epoch", row.get("step", 0)), row[name]))
    points = list(first.values())
    return Series(x=np.array([p[0] for p in points], dtype=float), y=np.array([p[1] for p in points], dtype=float))


def layer_series(history: History, name: str) -> list[Series]:
    """``layer_i/name`` of the training rows for i = 0, 1, …; empty with full attention."""
    found: list[Series] = []
    while len((series := logged(history, f"layer_{len(found)}/{name}", most=MOST_LAYER_POINTS)).x):
        found.append(series)
    return found


def _budgets(axes: Axes, budgets: list[Series], s_min: float, s_max: float) -> list[End]:
    axes.axhspan(s_min, s_max, color="#e8e8e8", zorder=0)
    ends = []
    for layer, series in enumerate(budgets):
        style = look(layer, len(budgets))
        plot_series(axes, series.x, series.y, style)
        ends.append(End(value=series.y[-1], label=f"layer {layer}", color=style.color))
    highest = max([s_max, *(float(np.nanmax(s.y, initial=0.0)) for s in budgets)])
    axes.set_ylim(0, min(1.0, highest * 1.12))
    _axes(axes, f"Mean budget s by layer (grey: [{s_min:g}, {s_max:g}])", "share of heads asked for")
    return ends


def _losses(axes: Axes, task: Series, validation: Series) -> list[End]:
    axes.plot(task.x, task.y, color=BLUE, linewidth=1.1)
    ends = [End(value=task.y[-1], label="train", color=BLUE)] if len(task.y) else []
    if len(validation.x):
        axes.plot(validation.x, validation.y, color=VERMILLION, linestyle="--", marker="s")
        ends.append(End(value=validation.y[-1], label="valid.", color=VERMILLION))
    axes.set_ylim(bottom=0)
    _axes(axes, "Task loss", "cross-entropy, nats")
    return ends


def _regularisers(axes: Axes, history: History) -> list[End]:
    ends = []
    for name, label, style in (
        ("budget_loss", "budget", Look(color=ORANGE, marker="^", line="-")),
        ("entropy_loss", "entropy", Look(color=GREEN, marker="o", line="--")),
        ("price_loss", "price", Look(color=BLACK, marker="D", line=":")),
    ):
        series = logged(history, name)
        if len(series.x) and np.any(series.y != 0):
            plot_series(axes, series.x, series.y, style)
            ends.append(End(value=series.y[-1], label=label, color=style.color))
    axes.axhline(0, color=GREY, linewidth=0.7)
    _axes(axes, "Losses added, weighted", "loss")
    return ends


def _axes(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title)
    axes.set_xlabel("epoch")
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=axes.get_xlim()[1] > 2))
    axes.set_ylabel(unit)
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def _finding_of_budgets(budgets: list[Series], accuracy: Series, s_min: float, s_max: float) -> str:
    parts = []
    if budgets:
        first, last = (float(np.mean([s.y[i] for s in budgets])) for i in (0, -1))
        place = "below" if last < s_min else "above" if last > s_max else "inside"
        parts.append(f"The mean budget goes from {first:.2f} to {last:.2f}, {place} [{s_min:g}, {s_max:g}]")
    if len(accuracy.y):
        parts.append(f"{'v' if parts else 'V'}alidation accuracy ends at {accuracy.y[-1]:.3f}")
    return "; ".join(parts) or "Nothing was logged"


def _finding_of_curves(task: Series, effective: list[Series], heads: int) -> str:
    parts = []
    if len(task.y):
        parts.append(f"The task loss goes from {task.y[0]:.2f} to {task.y[-1]:.2f}")
    if effective:
        low, high = (f"{pick(s.y[-1] for s in effective):.1f}" for pick in (min, max))
        reach = low if low == high else f"{low} to {high}"
        parts.append(f"{'t' if parts else 'T'}he relevance ends on {reach} effective heads of {heads}")
    return "; ".join(parts) or "Nothing was logged"
