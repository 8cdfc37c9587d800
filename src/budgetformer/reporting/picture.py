"""A figure with its words, and the figure as an address that holds the image itself."""

from __future__ import annotations

import base64
import functools
import io
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.text import Text

from .figures.style import project_style

LARGEST_SVG = 300_000
"""Bytes; a larger picture is embedded as PNG."""

DOTS_PER_INCH = 150


@dataclass(frozen=True, kw_only=True)
class Picture:
    """``caption`` says how to read it, ``alt`` what it shows, for those who do not see it.

    Raises ValueError when ``alt`` is empty.
    """

    figure: Figure
    caption: str
    alt: str

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError(f"alt must say what the picture shows; it is empty for {self.caption!r}")


def data_uri(figure: Figure) -> str:
    """The figure as ``data:image/…;base64,…``: SVG, or PNG when the SVG is larger than ``LARGEST_SVG``.

    Letters become outlines, so that the picture looks the same everywhere; only a figure with characters that the
    font lacks (Chinese names of classes) keeps its text as text, for the reader's own fonts.
    """
    kept_as_text = any(_lacks(text.get_text()) for text in figure.findobj(Text))
    settings: dict[Any, Any] = {"svg.fonttype": "none" if kept_as_text else "path", "svg.hashsalt": "budgetformer"}
    with project_style(), matplotlib.rc_context(settings):
        image, kind = _saved(figure, "svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))), "svg+xml"
        if len(image) > LARGEST_SVG:
            image, kind = _saved(figure, "png", dpi=DOTS_PER_INCH), "png"
    return f"data:image/{kind};base64,{base64.b64encode(image).decode('ascii')}"


def png(figure: Figure) -> bytes:
    """The figure as the content of a PNG file."""
    with project_style():
        return _saved(figure, "png", dpi=DOTS_PER_INCH)


def readable_anywhere(text: str) -> str:
    """``text``, or its code points (``U+4F60 …``) where a picture without text, such as a PNG, could not show it."""
    return " ".join(f"U+{ord(c):04X}" for c in text) if _lacks(text) else text


def _saved(figure: Figure, kind: str, **options: object) -> bytes:
    sink = io.BytesIO()
    figure.savefig(sink, format=kind, **options)  # type: ignore[arg-type]
    return sink.getvalue()


def _lacks(text: str) -> bool:
    return not text.isascii() and any(ord(c) not in _known_characters() for c in text if c.isprintable())


@functools.cache
def _known_characters() -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties(family=["DejaVu Sans"]))).get_charmap())
