"""Tables for people, on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

_WIDTH_OF_A_FILE = 160


def figures_table(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """Names and values."""
    return table(title, ("", ""), rows)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A plain table; what is not the first column is aligned to the right."""
    made = Table(title=title, title_justify="left", show_header=any(columns))
    for place, name in enumerate(columns):
        made.add_column(name, justify="right" if place else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell.replace("[", r"\[") for cell in row))
    return made


def show(made: Table) -> None:
    """Print it; wide where standard output is no terminal."""
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)
    console.print(made)


def millions(macs: float) -> str:
    """Multiply-adds in a readable unit."""
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if macs >= size:
            return f"{macs / size:,.2f} {unit}"
    return f"{macs:,.0f}"
