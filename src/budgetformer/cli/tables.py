"""Tables for people, on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_WIDTH_OF_A_FILE = 200
_MUCH = 10_000


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
    _console().print(made)


def show_widest(tables: Sequence[Table]) -> bool:
    """Print the first table that fits on a line of standard output, else the last; whether it was the first."""
    console = _console()
    unbound = console.options.update(max_width=_MUCH)
    needed = (Measurement.get(console, unbound, t).maximum for t in tables)
    fitting = next((t for t, width in zip(tables, needed, strict=True) if width <= console.width), tables[-1])
    console.print(fitting)
    return fitting is tables[0]


def _console() -> Console:
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)


def millions(macs: float) -> str:
    """Multiply-adds in a readable unit."""
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if macs >= size:
            return f"{macs / size:,.2f} {unit}"
    return f"{macs:,.0f}"
