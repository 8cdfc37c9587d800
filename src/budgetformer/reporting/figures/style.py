"""What all pictures share: size, fonts, colours that the colour-blind can tell apart, labels at the ends of lines."""

from __future__ import annotations

import functools
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 6.7
"""Inches: the text width of an A4 page, so that a font keeps its size in print."""
FONT = 9

BLACK, ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE, GREY = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
    "#6b6b6b",
)
"""The palette of Okabe and Ito without its yellow, which is too light for lines on white, and a grey."""

SERIES = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK)
MARKERS = "osD^vPX*<>hd"
LINES = ("-", "--", "-.", ":")
HEAT = "cividis"

_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": FONT,
    "axes.titlesize": FONT + 0.5,
    "axes.titlelocation": "left",
    "axes.labelsize": FONT,
    "xtick.labelsize": FONT,
    "ytick.labelsize": FONT,
    "legend.fontsize": FONT,
    "legend.frameon": False,
    "figure.titlesize": FONT + 2,
    "figure.titleweight": "bold",
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": "#444444",
    "axes.labelcolor": "black",
    "text.color": "black",
    "xtick.color": "black",
    "ytick.color": "black",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "text.usetex": False,
    "text.parse_math": False,
    "axes.unicode_minus": True,
}

P = ParamSpec("P")


@dataclass(frozen=True, kw_only=True)
class Look:
    """Colour, marker and line style of one series; no two of a picture share all three."""

    color: str
    marker: str
    line: str


@dataclass(frozen=True, kw_only=True)
class End:
    """The last value of a line and the label that belongs there."""

    value: float
    label: str
    color: str


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw inside ``project_style``."""

    @functools.wraps(draw)
    def inner(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with project_style():
            return draw(*args, **kwargs)

    return inner


@contextmanager
def project_style() -> Iterator[None]:
    """The project's style, whatever the user's settings of matplotlib; those come back at the end.

    Names in scripts that the font lacks are no reason to warn: ``picture.data_uri`` keeps them as text.
    """
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        yield


def new_figure(height: float) -> Figure:
    """An empty figure of the common width; ``height`` in inches."""
    return Figure(figsize=(WIDTH, height), layout="constrained")


def set_title(figure: Figure, text: str) -> None:
    """The finding on top of the picture, broken into lines that fit."""
    figure.suptitle(textwrap.fill(text, 70), x=0.01, ha="left")


def look(index: int, count: int) -> Look:
    """The look of series ``index`` of ``count``: distinct colours up to seven, then a ramp from dark to light."""
    if count <= len(SERIES):
        color = SERIES[index]
    else:
        ramp = matplotlib.colormaps["viridis"](0.78 * index / (count - 1))
        color = matplotlib.colors.to_hex(ramp)
    return Look(color=color, marker=MARKERS[index % len(MARKERS)], line=LINES[index % len(LINES)])


def plot_series(axes: Axes, x: np.ndarray, y: np.ndarray, style: Look, label: str = "") -> None:
    """A line with about eight markers, however many points it has."""
    every = max(1, len(x) // 8)
    axes.plot(
        x,
        y,
        color=style.color,
        linestyle=style.line,
        marker=style.marker,
        markevery=every,
        label=label or "_nolegend_",
    )


def label_ends(figure: Figure, ends: Mapping[Axes, Sequence[End]]) -> None:
    """Write each label at the right of its axes, at the height of its line, moved apart where they would overlap.

    To be called last, since the layout decides how much room a label needs.
    """
    figure.draw_without_rendering()
    point = figure.dpi / 72
    for axes, unsorted in ends.items():
        known = sorted((e for e in unsorted if np.isfinite(e.value)), key=lambda e: e.value)
        extent = axes.get_window_extent()
        gap = min(1.25 * FONT * point / extent.height, 1 / max(len(known) - 1, 1))
        low, high = axes.get_ylim()
        wanted = [(e.value - low) / (high - low) for e in known]
        for end, at, y in zip(known, wanted, spread(wanted, gap), strict=True):
            axes.annotate(
                end.label,
                xy=(1.0, at),
                xytext=(1.0 + 14 * point / extent.width, y),
                xycoords="axes fraction",
                textcoords="axes fraction",
                va="center",
                annotation_clip=False,
                arrowprops={
                    "arrowstyle": "-",
                    "color": end.color,
                    "linewidth": 1.1,
                    "relpos": (0, 0.5),
                    "shrinkA": 1,
                    "shrinkB": 0,
                },
            )


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Places in ascending order at least ``gap`` apart, as near to ``wanted`` (ascending) as can be, within [0, 1]."""
    groups: list[list[float]] = []  # each a run of places that touch: sum of wanted starts, members
    for index, value in enumerate(wanted):
        groups.append([value - index * gap, 1])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] > groups[-1][0] / groups[-1][1]:
            total, members = groups.pop()
            groups[-1][0] += total
            groups[-1][1] += members
    starts = [total / members for total, members in groups for _ in range(int(members))]
    most = 1 - gap * (len(wanted) - 1)
    return [min(max(start, 0.0), max(most, 0.0)) + index * gap for index, start in enumerate(starts)]


def shortened(name: str, width: int) -> str:
    """``name`` on one line of at most ``width`` columns, control characters dropped; wide characters count twice."""
    printable = "".join(c if c.isprintable() else " " for c in name)
    text, used = " ".join(printable.split()) or "(blank)", 0
    for place, character in enumerate(text):
        used += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used > width:
            return text[: max(place - 1, 1)].rstrip() + "…"
    return text
