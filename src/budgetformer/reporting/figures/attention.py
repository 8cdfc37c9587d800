"""Pictures of one text: which heads ran and how relevant they are, and where the heads of a layer look."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.textpath import text_to_path

from .heads import MOST_NUMBERS, TALLEST
from .style import FONT, GREY, HEAT, VERMILLION, WIDTH, new_figure, set_title, shortened, styled

LABEL_FONT = 7
"""Points: of the tokens beside a map, still readable in print."""

LABEL_LINE = 8.0
"""Points from one token's label to the next."""

LABEL_COLUMNS = 12
"""Letters of a token's label; what is longer ends in an ellipsis."""

MOST_COLUMNS = 4
"""Maps side by side."""

LIGHT = "Blues"
"""Colours of a map: white is no attention, so that the many small values cost no ink."""

NARROWEST, WIDEST = 1.4, 2.2
"""Inches of a map: its title has room, and a map of few tokens does not fill the page."""

GAP, HEADING = 0.08, 0.38
"""Inches between two maps, and for the two lines above each."""

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
def heads_of_a_text(
    relevance_LH: np.ndarray | None,
    kept_LH: np.ndarray,
    budget_L: np.ndarray | None,
    there_LH: np.ndarray | None = None,
) -> Figure:
    """Layers × heads: the relevance in per cent, framed where the head ran; budget and number of heads at the right.

    Heads that are not in ``there_LH`` (None: all are) are crossed out.
    """
    layers, heads = kept_LH.shape
    there_LH = np.ones(kept_LH.shape, dtype=bool) if there_LH is None else there_LH
    figure = new_figure(min(1.5 + max(0.27 * layers, 0.5), TALLEST))
    axes = figure.subplots()
    values_LH = np.full(kept_LH.shape, np.nan) if relevance_LH is None else 100 * relevance_LH
    values_LH = np.where(there_LH, values_LH, np.nan)
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
                if not there_LH[layer, head]:
                    continue
                color = "white" if value < 55 else "black"
                axes.text(head, layer, f"{value:.0f}", ha="center", va="center", color=color)
    for layer, head in np.argwhere(~there_LH):
        axes.plot([head - 0.3, head + 0.3], [layer + 0.3, layer - 0.3], color=GREY, linewidth=1.0)
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
    set_title(figure, f"{int(kept_LH.sum())} of {int(there_LH.sum())} heads ran for this text (framed)")
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
    title = textwrap.fill(title, 70)
    longest = max(map(_inches, labels))
    left, below = longest + 0.35, longest + 0.3
    columns = max(
        1, min(MOST_COLUMNS, len(maps), int((WIDTH - left) / (max(NARROWEST, count * LABEL_LINE / 72) + GAP)))
    )
    columns = math.ceil(len(maps) / math.ceil(len(maps) / columns))
    rows = math.ceil(len(maps) / columns)
    size = min((WIDTH - left) / columns - GAP, max(WIDEST, count * LABEL_LINE / 72))
    top = 0.15 + 0.2 * (title.count("\n") + 1)
    height = top + rows * (HEADING + size + below) + 0.65
    figure = Figure(figsize=(WIDTH, height))  # places are in inches, so that no layout has to be searched for
    image = None
    for index, head in enumerate(maps):
        row, column = divmod(index, columns)
        bottom = height - top - row * (HEADING + size + below) - HEADING - size
        axes = _axes(figure, left + column * (size + GAP), bottom, size, size)
        image = axes.imshow(head.map_NN, cmap=LIGHT, vmin=0, vmax=high, interpolation="nearest", aspect="auto")
        _frame(axes, head)
        axes.set_xticks(range(count), labels=labels, rotation=90, fontsize=LABEL_FONT)
        axes.set_yticks(range(count) if column == 0 else [], labels=labels if column == 0 else [], fontsize=LABEL_FONT)
        axes.tick_params(length=0, pad=1.5)
        axes.set_xlabel("… to this token", fontsize=LABEL_FONT + 1, labelpad=2)
        if column == 0:
            axes.set_ylabel("from this token …", fontsize=LABEL_FONT + 1, labelpad=2)
    if image is not None:
        bar = _axes(figure, left, 0.48, WIDTH - left - 0.8, 0.1)
        figure.colorbar(image, cax=bar, label="share of a token's attention", orientation="horizontal")
    figure.suptitle(title, x=0.01, y=1 - 0.08 / height, ha="left", va="top")
    return figure


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a place that is given in inches."""
    whole = figure.get_size_inches()
    return figure.add_axes((left / whole[0], bottom / whole[1], width / whole[0], height / whole[1]))


def _inches(label: str) -> float:
    """How long a token's label is."""
    font = FontProperties(family=["DejaVu Sans"], size=LABEL_FONT)
    return text_to_path.get_text_width_height_descent(label, font, ismath=False)[0] / 72


def _frame(axes: Axes, head: HeadMap) -> None:
    """Solid and orange around a head that ran, dashed and grey around one that did not."""
    axes.set_title(f"{head.title}\n{head.subtitle}", fontsize=FONT - 1, color="black" if head.kept else GREY)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(VERMILLION if head.kept else GREY)
        spine.set_linewidth(2.0 if head.kept else 1.2)
        spine.set_linestyle("-" if head.kept else (0, (3, 2)))
