"""Pictures of the heads: which are relevant, which are kept, for which class, and how many the layers ask for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from .style import BLUE, FONT, GREY, HEAT, VERMILLION, new_figure, set_title, shortened, styled

MOST_NUMBERS = 16
"""Up to this many heads the cells of a heat map carry their number."""

MOST_CLASSES, COLUMNS = 18, 3
"""Small maps by class: at most so many, so many side by side."""

TALLEST = 9.6
"""Inches that fit on a page."""

IN_USE = 0.01
"""A head counts as used when at least this share of the texts keeps it."""


class HeadArrays(Protocol):
    """Means over texts: L layers, H heads, C true classes, R texts; see ``evaluation.HeadUse``."""

    @property
    def relevance_LH(self) -> np.ndarray: ...
    @property
    def use_LH(self) -> np.ndarray: ...
    @property
    def relevance_CLH(self) -> np.ndarray: ...
    @property
    def use_CLH(self) -> np.ndarray: ...
    @property
    def budget_RL(self) -> np.ndarray: ...


@styled
def head_maps(relevance_LH: np.ndarray, use_LH: np.ndarray) -> Figure:
    """Layers × heads: the mean relevance p, and the share of texts that keep the head, both in per cent."""
    layers, heads = use_LH.shape
    figure = new_figure(min(1.7 + 2 * max(0.26 * layers, 0.6), TALLEST))
    top, bottom = figure.subplots(2, 1, sharex=True)
    for axes, values_LH, title in (
        (top, relevance_LH, "Mean relevance p of each head (a layer's row sums to 100%)"),
        (bottom, use_LH, "Texts that keep the head"),
    ):
        high = 100.0 if axes is bottom else max(1.0, 100 * float(np.nanmax(values_LH)))
        mesh = _heat(axes, values_LH, high)
        _ticks(axes, layers, heads, x=True, y=True)
        axes.set_title(title)
        axes.set_ylabel("layer")
        figure.colorbar(mesh, ax=axes, label="per cent", pad=0.02, aspect=12)
        if heads <= MOST_NUMBERS:
            _numbers(axes, values_LH, high)
    bottom.set_xlabel("head")
    used = int((use_LH >= IN_USE).sum())
    set_title(figure, f"Of {layers * heads} heads, {used} are kept for at least {IN_USE:.0%} of the texts")
    return figure


@styled
def head_maps_by_class(
    values_CLH: np.ndarray, class_names: Sequence[str], *, kind: Literal["relevance", "use"]
) -> Figure:
    """One small layers × heads map per true class on a common scale; a class without texts says so.

    Of more than ``MOST_CLASSES`` classes those furthest from the mean of all are drawn, and the title says so.
    Raises ValueError when there is not one name per class.
    """
    classes, layers, heads = values_CLH.shape
    if len(class_names) != classes:
        raise ValueError(f"class_names must hold one name for each of the {classes} classes, got {len(class_names)}")
    known = np.isfinite(values_CLH).all(axis=(1, 2))
    title = _largest_difference(values_CLH, class_names, known, kind)
    if classes > MOST_CLASSES:
        mean_LH = values_CLH[known].mean(axis=0) if known.any() else np.zeros((layers, heads))
        distance_C = np.nan_to_num(np.abs(values_CLH - mean_LH).sum(axis=(1, 2)), nan=-1.0)
        drawn = np.sort(np.argsort(-distance_C, kind="stable")[:MOST_CLASSES])
        title += f". Drawn: the {MOST_CLASSES} of {classes} classes furthest from the mean"
        values_CLH, known, class_names = values_CLH[drawn], known[drawn], [class_names[i] for i in drawn]
        classes = MOST_CLASSES
    columns = min(COLUMNS, classes)
    rows = math.ceil(classes / columns)
    high = 100.0 if kind == "use" or not known.any() else max(1.0, 100 * float(values_CLH[known].max()))
    figure = new_figure(min(1.3 + rows * (0.45 + max(0.18 * min(layers, 8), 0.13 * layers, 0.55)), TALLEST))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    mesh = None
    for index, axes in enumerate(grid.flat):
        if index >= classes:
            axes.set_visible(False)
            continue
        axes.set_title(shortened(class_names[index], 84 // columns), fontsize=FONT)
        if known[index]:
            mesh = _heat(axes, values_CLH[index], high)
        else:
            axes.text(0.5, 0.5, "no texts", transform=axes.transAxes, ha="center", va="center", color=GREY)
        last_in_column = index + columns >= classes
        _ticks(axes, layers, heads, x=last_in_column, y=index % columns == 0)
        if index % columns == 0:
            axes.set_ylabel("layer")
        if last_in_column:
            axes.set_xlabel("head")
    if mesh is not None:
        what = "mean relevance p, per cent" if kind == "relevance" else "texts that keep the head, per cent"
        figure.colorbar(mesh, ax=grid, label=what, orientation="horizontal", aspect=50, shrink=0.7, pad=0.03)
    set_title(figure, title)
    return figure


@styled
def budget_distribution(
    budget_RL: np.ndarray, *, heads: int, s_min: float | None = None, s_max: float | None = None
) -> Figure:
    """The learned budgets of R texts by layer, as mirrored histograms with the median; lines where k changes.

    A budget between the lines j/H and (j + 1)/H keeps j heads. The interval of the budget loss is shaded when given.
    """
    rows, layers = budget_RL.shape
    figure = new_figure(3.9)
    axes = figure.subplots()
    low, high = float(budget_RL.min()), float(budget_RL.max())
    bottom = max(0, math.floor(low * heads + 1e-6))
    top = min(heads, max(math.ceil(high * heads - 1e-6), bottom + 1))
    margin = 0.5 / heads
    limits = (max(-0.02, bottom / heads - margin), min(1.02, top / heads + margin))
    if s_min is not None and s_max is not None:
        axes.axhspan(s_min, s_max, color="#e8e8e8", zorder=0)
    edges = np.linspace(low - 1e-3, high + 1e-3, 1 + min(max(round(math.sqrt(rows)), 8), 40))
    for layer in range(layers):
        counts = np.histogram(budget_RL[:, layer], bins=edges)[0]
        half = 0.42 * counts / counts.max()
        middle = (edges[:-1] + edges[1:]) / 2
        axes.fill_betweenx(middle, layer - half, layer + half, step="mid", color=BLUE, linewidth=0)
        median = float(np.median(budget_RL[:, layer]))
        axes.plot([layer - 0.42, layer + 0.42], [median, median], color=VERMILLION, linewidth=2)
    axes.set_ylim(*limits)
    axes.set_xlim(-0.6, layers - 0.4)
    thresholds = [j for j in range(heads + 1) if limits[0] <= j / heads <= limits[1]]
    for j in thresholds:
        axes.axhline(j / heads, color="#888888", linewidth=0.8, linestyle=(0, (4, 2)), zorder=1)
    scale = axes.secondary_yaxis("right")
    scale.set_yticks([j / heads for j in thresholds], labels=[f"{j}/{heads}" for j in thresholds])
    scale.set_ylabel("heads kept from this line up")
    axes.set_xticks(range(layers))
    axes.set_xlabel("layer")
    axes.set_ylabel("learned budget s")
    shaded = "" if s_min is None or s_max is None else f".  Grey: [{s_min:g}, {s_max:g}]"
    axes.set_title(f"Width: number of texts.  Orange: median.  Dashed: one head more{shaded}")
    medians = np.median(budget_RL, axis=0)
    inner = np.quantile(budget_RL, [0.025, 0.975])
    by_layer = f"{medians.min():.2f} to {medians.max():.2f} by layer" if layers > 1 else f"{medians[0]:.2f}"
    set_title(figure, f"Median budget {by_layer}; 95% of all budgets lie between {inner[0]:.2f} and {inner[1]:.2f}")
    return figure


def _heat(axes: Axes, values_LH: np.ndarray, high: float) -> QuadMesh:
    layers, heads = values_LH.shape
    x, y = np.arange(heads + 1) - 0.5, np.arange(layers + 1) - 0.5
    mesh = axes.pcolormesh(
        x, y, 100 * values_LH, cmap=HEAT, vmin=0, vmax=high, edgecolors="white", linewidth=0.4, antialiased=True
    )
    axes.set_ylim(layers - 0.5, -0.5)
    axes.set_xlim(-0.5, heads - 0.5)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return mesh


def _ticks(axes: Axes, layers: int, heads: int, *, x: bool, y: bool) -> None:
    """Every head and layer has a number where there is room, otherwise every second, third, …"""
    wide = axes.get_subplotspec().get_gridspec().ncols == 1  # type: ignore[union-attr]
    axes.set_xticks(range(0, heads, math.ceil(heads / (24 if wide else 8))))
    axes.set_yticks(range(0, layers, 1 if wide else math.ceil(layers / 4)))
    axes.tick_params(length=0, labelbottom=x, labelleft=y)


def _numbers(axes: Axes, values_LH: np.ndarray, high: float) -> None:
    for (layer, head), value in np.ndenumerate(100 * values_LH):
        if np.isfinite(value):
            color = "white" if value < 0.55 * high else "black"
            axes.text(head, layer, f"{value:.0f}", ha="center", va="center", color=color)


def _largest_difference(
    values_CLH: np.ndarray, names: Sequence[str], known: np.ndarray, kind: Literal["relevance", "use"]
) -> str:
    what = "kept for" if kind == "use" else "relevance"
    present = np.flatnonzero(known)
    if len(present) < 2:
        return "Heads kept, by true class" if kind == "use" else "Relevance of heads, by true class"
    values = values_CLH[present]
    layer, head = np.unravel_index(np.argmax(values.max(axis=0) - values.min(axis=0)), values.shape[1:])
    column = values[:, layer, head]
    most, least = (present[pick(column)] for pick in (np.argmax, np.argmin))
    return (
        f"Largest difference between classes: layer {layer}, head {head}, {what} {column.max():.0%} "
        f"({shortened(names[most], 18)}) and {column.min():.0%} ({shortened(names[least], 18)})"
    )
