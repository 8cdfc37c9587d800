"""Texts per second against the number of heads, beside what else could answer the texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .style import BLACK, GREY, LINES, End, label_ends, look, new_figure, plot_series, set_title, styled


@styled
def speed_figure(
    lines: Mapping[str, Sequence[tuple[float, float]]], peers: Mapping[str, float], *, texts: int
) -> Figure:
    """``lines``: (heads, texts per second) by name; ``peers``: texts per second of what has no number of heads.

    Raises ValueError when there is nothing to draw.
    """
    if not lines and not peers:
        raise ValueError("lines or peers must hold at least one entry, or there is nothing to draw")
    figure = new_figure(3.6 + 0.12 * len(peers))
    axes = figure.subplots()
    ends = []
    for index, (name, points) in enumerate(lines.items()):
        style = look(index, len(lines))
        heads, speeds = zip(*sorted(points), strict=True)
        plot_series(axes, np.array(heads), np.array(speeds), style)
        ends.append(End(value=speeds[-1], label=name, color=style.color))
    for index, (name, speed) in enumerate(peers.items()):
        color = BLACK if index == 0 else GREY
        axes.axhline(speed, color=color, linestyle=LINES[1 + index % 3], linewidth=1.2)
        ends.append(End(value=speed, label=name, color=color))
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=16, integer=True))
    axes.set_xlabel("heads kept per layer")
    axes.set_ylabel("texts per second")
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    set_title(figure, _finding(lines, peers, texts))
    label_ends(figure, {axes: ends})
    return figure


def _finding(lines: Mapping[str, Sequence[tuple[float, float]]], peers: Mapping[str, float], texts: int) -> str:
    best = {name: max(points, key=lambda point: point[1]) for name, points in lines.items()}
    if not best:
        return f"Speed on {texts:,} texts"
    name = max(best, key=lambda n: best[n][1])
    heads, speed = best[name]
    found = f"Fastest on {texts:,} texts: {speed:,.0f} texts/s ({name}, {heads:.3g} heads)"
    if peers:
        peer, other = next(iter(peers.items()))
        found += f", {speed / other:.1f} times {peer}"
    return found
