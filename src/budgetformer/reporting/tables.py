"""A table that is written once and read in three places: HTML, terminal, Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from .intervals import wilson

NONE = "–"
"""What stands in a cell that has no value."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """``rows`` of texts, one per name in ``columns``; the first column names the row.

    A column whose cells are all numbers (or have no value) is set flush right. Raises ValueError for a row of
    another length.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"row {number} of table {self.caption!r} has {len(row)} cells for {len(self.columns)} columns"
                )

    def alignment(self) -> list[Literal["left", "right"]]:
        """Of each column."""
        cells = [[row[i] for row in self.rows] for i in range(len(self.columns))]
        return ["right" if i and column and all(map(_is_number, column)) else "left" for i, column in enumerate(cells)]

    def to_html(self) -> str:
        """A ``table`` element with caption and header cells that name their column or row."""
        sides = self.alignment()
        head = "".join(
            f'<th scope="col" class="{side}">{escape(name)}</th>'
            for name, side in zip(self.columns, sides, strict=True)
        )
        lines = [f"<table>\n<caption>{escape(self.caption)}</caption>", f"<thead><tr>{head}</tr></thead>", "<tbody>"]
        for row in self.rows:
            cells = [f'<th scope="row">{escape(row[0])}</th>'] if row else []
            cells += [f'<td class="{side}">{escape(cell)}</td>' for cell, side in zip(row[1:], sides[1:], strict=True)]
            lines.append(f"<tr>{''.join(cells)}</tr>")
        return "\n".join([*lines, "</tbody>", "</table>"])

    def to_rich(self) -> RichTable:
        """For ``rich.console.Console.print``; what looks like markup in a cell is printed as it is."""
        table = RichTable(title=Text(self.caption), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
        for name, side in zip(self.columns, self.alignment(), strict=True):
            table.add_column(Text(name), justify=side)
        for row in self.rows:
            table.add_row(*(Text(_one_line(cell)) for cell in row))
        return table

    def to_text(self) -> str:
        """Plain text in columns, for a log file or a pipe."""
        grid = [[_one_line(cell) for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(cell_len(row[i]) for row in grid) for i in range(len(self.columns))]
        lines = [self.caption] if self.caption else []
        for row in grid:
            cells = [_padded(*parts) for parts in zip(row, widths, self.alignment(), strict=True)]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def to_markdown(self) -> str:
        """A Markdown table, the caption as a line below it."""
        rule = ["---:" if side == "right" else "---" for side in self.alignment()]
        grid = [[markdown_escaped(cell) for cell in row] for row in (self.columns, *self.rows)]
        lines = [f"| {' | '.join(row)} |" for row in (grid[0], rule, *grid[1:])]
        return "\n".join([*lines, "", markdown_escaped(self.caption)] if self.caption else lines)


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """One model in the table of models; None where a figure does not apply.

    ``heads`` kept per layer and text, of ``all_heads``; ``macs`` multiply-adds executed per text.
    """

    name: str
    accuracy: float
    macro_f1: float
    heads: float | None = None
    all_heads: int | None = None
    macs: float | None = None
    texts_per_second: float | None = None

    @classmethod
    def of(cls, name: str, figures: Mapping[str, Any], *, all_heads: int) -> ModelRow:
        """From the figures of an evaluation."""
        return cls(
            name=name,
            accuracy=figures["accuracy"],
            macro_f1=figures["macro_f1"],
            heads=figures["mean_heads"],
            all_heads=all_heads,
            macs=figures["macs"],
            texts_per_second=figures["texts_per_second"],
        )


def models_table(models: Sequence[ModelRow], *, data: str, rows: int, dense_macs: float) -> Table:
    """The models side by side, measured on ``rows`` texts of ``data``; ``dense_macs`` is what full attention costs.

    The caption states how sure an accuracy on that many texts can be.
    """
    cells = [
        [
            model.name,
            f"{model.accuracy:.3f}",
            f"{model.macro_f1:.3f}",
            NONE if model.heads is None else f"{model.heads:.2f} of {model.all_heads}",
            NONE if model.macs is None else f"{model.macs / 1e6:,.1f} million",
            NONE if model.macs is None else f"{model.macs / dense_macs:.0%}",
            NONE if model.texts_per_second is None else f"{model.texts_per_second:,.0f}",
        ]
        for model in models
    ]
    caption = f"Measured on {rows:,} texts: {data}."
    if models:
        best = max(models, key=lambda m: m.accuracy)
        reach = wilson(best.accuracy, rows)
        caption += f" 95% interval of an accuracy of {best.accuracy:.3f}: {reach.low:.3f} to {reach.high:.3f}."
    columns = ("Model", "Accuracy", "Macro-F1", "Heads per layer", "Multiply-adds", "of full attention", "Texts/s")
    return Table(caption=caption, columns=columns, rows=cells)


def markdown_escaped(text: str) -> str:
    """``text`` on one line, with every character that Markdown or HTML would take for itself made literal."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&$])", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _is_number(cell: str) -> bool:
    return cell in ("", NONE) or re.match(r"(± |[+−-])?\d", cell) is not None


def _padded(cell: str, width: int, side: str) -> str:
    room = " " * (width - cell_len(cell))
    return room + cell if side == "right" else cell + room
