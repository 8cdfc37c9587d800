"""The curve of budgets as a table, and as a marked section of a model card that a later measurement replaces."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..model_folder import CURVE_PICTURE
from .picture import Picture
from .tables import NONE, Table, markdown_escaped

BEGIN, END = "<!-- budget-curve: begin, replaced as a whole -->", "<!-- budget-curve: end -->"
_SECTION = re.compile(f"{re.escape(BEGIN)}(?:(?!{re.escape(BEGIN)}).)*?{re.escape(END)}\n*", re.DOTALL)
"""From one mark to the next; what stands behind a beginning that has no end is not ours to replace."""
_BEFORE = re.compile(r"^## (Training|Use|Limits|Loading without the package)\b", re.MULTILINE)
"""Headings of our cards that the section comes before when it is new."""


def curve_table(rows: Sequence[Mapping[str, Any]], *, heads: int, caption: str = "") -> Table:
    """The rows of a ``BudgetCurve``, learned and random choice of heads side by side; ``heads``: H."""
    random = {row["asked"]: row for row in rows if row["choice"] == "random"}
    cells = []
    for row in rows:
        if row["choice"] == "random":
            continue
        other = random.get(row["asked"])
        cells.append(
            [
                "its own budgets" if row["asked"] is None else f"{row['asked']} of {heads} heads",
                NONE if row["budget"] is None else f"{row['budget']:.3g}",
                f"{row['mean_heads']:.2f}",
                f"{row['accuracy']:.4f}",
                *([NONE if other is None else f"{other['accuracy']:.4f}"] if random else []),
                f"{row['macs'] / 1e6:,.1f}",
                f"{row['macs'] / row['macs_dense']:.0%}",
            ]
        )
    columns = ["", "budget", "heads/layer", "accuracy", *(["random heads"] if random else [])]
    return Table(caption=caption, columns=[*columns, "M mult-adds", "of all heads"], rows=cells)


def curve_section(
    rows: Sequence[Mapping[str, Any]], *, heads: int, data: str, picture: Picture | None, notes: Sequence[str] = ()
) -> str:
    """The section: what was measured on what, table, picture, and ``notes`` such as which budget was chosen."""
    random = any(row["choice"] == "random" for row in rows)
    said = (
        f"The same weights at other budgets, on {rows[0]['rows']:,} labelled rows: {markdown_escaped(data)}. "
        "`budget=` at request time asks for a share of the heads in every layer; the first line is the model that "
        "decides for each text itself (`max_budget=1.0`). "
        + ("Random heads: as many, but drawn. " if random else "")
        + "M mult-adds: millions of multiply-adds executed per text; the last column compares them with all heads."
    )
    shown = [] if picture is None else [f"![{_alt(picture.alt)}]({CURVE_PICTURE})", "", picture.caption, ""]
    lines = [BEGIN, "## At other budgets", "", said, "", curve_table(rows, heads=heads).to_markdown(), "", *shown]
    lines += ["### Default budget", "", *(markdown_escaped(note) for note in notes), ""] if notes else []
    return "\n".join([*lines, END, ""])


def has_section(card: str) -> bool:
    """Whether a curve is shown in it."""
    return _SECTION.search(card) is not None


def with_section(card: str, section: str) -> str:
    """``card`` with the section in place of an earlier one, else before what is said about training and use."""
    body = section.rstrip("\n") + "\n\n"
    if _SECTION.search(card):
        return _SECTION.sub(lambda _: body, card, count=1)
    place = _BEFORE.search(card)
    if place is None:
        return card.rstrip("\n") + "\n\n" + body.rstrip("\n") + "\n"
    return card[: place.start()] + body + card[place.start() :]


def _alt(text: str) -> str:
    return " ".join(re.sub(r"[\[\]]", "", text).split())
