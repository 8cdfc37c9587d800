"""Pictures of one text: which heads ran and how relevant they are, and where the heads of a layer look."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .heads import MOST_NUMBERS, TALLEST
from .style import FONT, GREY, HEAT, VERMILLION, WIDTH, new_figure, set_title, shortened, styled

LABEL_FONT = 7
"""Points: of the tokens beside a map, still readable in print."""

LABEL_LINE = 8.6
"""Points from one token's label to the next."""

LABEL_COLUMNS = 14
"""Letters of a token's label; what is longer ends in an ellipsis."""

MOST_COLUMNS = 4
"""Maps side by side."""

LIGHT = "Blues"
"""Colours of a map: white is no attention, so that the many small values cost no ink."""

NARROWEST = 1.45
"""Inches of a map, so that its title has room."""

MOST_TOKENS = int((WIDTH - 1.0) * 72 / LABEL_LINE)
"""Tokens that one map can label on a page's width."""


@dataclass(frozen=True, kw_only=True)
class HeadMap:
    """The map of one head: ``title`` and ``subtitle`` above it, ``kept`` whether the head ran."""

    title: str
    subtitle: str
    kept: bool
    map_NN: np.ndarray


@styled
def heads_of_a_text(relevance_LH: np.ndarray | None, kept_LH: np.ndarray, budget_L: np.ndarray | None) -> Figure:
    """Layers × heads: the relevance in per cent, framed where the head ran; budget and number of heads at the right."""
    layers, heads = kept_LH.shape
    figure = new_figure(min(1.5 + max(0.27 * layers, 0.5), TALLEST))
    axes = figure.subplots()
    values_LH = np.full(kept_LH.shape, np.nan) if relevance_LH is None else 100 * relevance_LH
    x, y = np.arange(heads + 1) - 0.5, np.arange(layers + 1) - 0.5
    mesh = axes.pcolormesh(x, y, values_LH, cmap=HEAT, vmin=0, vmax=100, edgecolors="white", linewidth=0.4)
    for layer, head in np.argwhere(kept_LH):
        for colour, width in (("white", 3.4), (VERMILLION, 2.0)):
            corner = (head - 0.44, layer - 0.42)
            axes.add_patch(Rectangle(corner, 0.88, 0.84, fill=False, edgecolor=colour, linewidth=width))
    if relevance_LH is not None:
        figure.colorbar(mesh, ax=axes, label="relevance p, per cent", pad=0.02, aspect=12)
        if heads <= MOST_NUMBERS:
            for (layer, head), value in np.ndenumerate(values_LH):
                color = "white" if value < 55 else "black"
                axes.text(head, layer, f"{value:.0f}", ha="center", va="center", color=color)
    axes.set_xlim(-0.5, heads - 0.5)
    axes.set_ylim(layers - 0.5, -0.5)
    axes.set_xticks(range(0, heads, math.ceil(heads / 24)))
    axes.set_yticks(range(layers))
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    asked = "" if budget_L is None else "budget s → "
    scale = axes.secondary_yaxis("right")
    scale.set_yticks(
        range(layers),
        labels=[
            ("" if budget_L is None else f"{budget_L[layer]:.2f} → ") + f"{kept_LH[layer].sum()}"
            for layer in range(layers)
        ],
    )
    scale.set_ylabel(f"{asked}heads that ran")
    scale.tick_params(length=0)
    scale.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    set_title(figure, f"{int(kept_LH.sum())} of {layers * heads} heads ran for this text (framed)")
    return figure


@styled
def maps_of_a_layer(maps: Sequence[HeadMap], tokens: Sequence[str], *, title: str, high: float) -> Figure:
    """One heat map per head: row i is the attention of token i, and column j is where it goes, up to ``high``.

    Raises ValueError for more than ``MOST_TOKENS`` tokens, whose labels could not be read.
    """
    count = len(tokens)
    if not 1 <= count <= MOST_TOKENS:
        raise ValueError(f"tokens must be 1 to {MOST_TOKENS}, as many as labels have room for, got {count}")
    labels = [shortened(token, LABEL_COLUMNS) for token in tokens]
    margin = 0.1 + 0.062 * max(map(len, labels))
    size = max(NARROWEST, count * LABEL_LINE / 72)
    columns = max(1, min(MOST_COLUMNS, len(maps), int((WIDTH - margin) / (size + 0.06))))
    rows = math.ceil(len(maps) / columns)
    columns = math.ceil(len(maps) / rows)
    size = min((WIDTH - margin) / columns - 0.06, 1.5 * size)
    figure = new_figure(2.5 + 2 * margin + rows * (size + 0.6))  # too high: what is not used is taken off below
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    image = None
    for index, axes in enumerate(grid.flat):
        if index >= len(maps):
            axes.set_visible(False)
            continue
        head = maps[index]
        image = axes.imshow(head.map_NN, cmap=LIGHT, vmin=0, vmax=high, interpolation="nearest", aspect="equal")
        _frame(axes, head)
        ticks = range(count)
        axes.set_xticks(ticks, labels=labels, rotation=90, fontsize=LABEL_FONT)
        axes.set_yticks(ticks, labels=labels, fontsize=LABEL_FONT)
        axes.tick_params(length=0, pad=1.5, labelleft=index % columns == 0, labelbottom=index + columns >= len(maps))
        if index % columns == 0:
            axes.set_ylabel("from this token …", fontsize=LABEL_FONT + 1)
        if index + columns >= len(maps):
            axes.set_xlabel("… to this one", fontsize=LABEL_FONT + 1)
    if image is not None:
        label = "share of a token's attention"
        figure.colorbar(image, ax=grid, label=label, orientation="horizontal", aspect=50, shrink=0.6, pad=0.02)
    set_title(figure, title)
    _take_off_what_is_empty(figure, grid)
    return figure


def _take_off_what_is_empty(figure: Figure, grid: np.ndarray) -> None:
    """Square maps that the width limits leave room above and below: the figure shrinks by that."""
    figure.draw_without_rendering()
    height = figure.get_size_inches()[1]
    empty = sum(
        min(axes.get_position(original=True).height - axes.get_position().height for axes in row if axes.get_visible())
        for row in grid
    )
    figure.set_figheight(height * (1 - max(empty, 0.0)))


def _frame(axes: Axes, head: HeadMap) -> None:
    """Solid and orange around a head that ran, dashed and grey around one that did not."""
    axes.set_title(f"{head.title}\n{head.subtitle}", fontsize=FONT - 1, color="black" if head.kept else GREY)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(VERMILLION if head.kept else GREY)
        spine.set_linewidth(2.0 if head.kept else 1.2)
        spine.set_linestyle("-" if head.kept else (0, (3, 2)))
