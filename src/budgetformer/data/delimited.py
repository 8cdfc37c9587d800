"""csv and tsv, record by record, cells exactly as written.

A cell that begins with a quote mark ends at the next single quote mark (RFC 4180; a doubled one stands for itself);
line ends inside belong to it. A quote mark elsewhere, and every quote mark when ``quotes`` is False, is an ordinary
character. Where quotes could swallow rows without a word, there is an error instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import DataError
from .opening import open_lines

LONGEST_CELL = 1 << 28
"""Characters after which a quoted cell is taken for one that was never closed."""


def records(
    path: Path, *, delimiter: str, quotes: bool, header: bool, encoding: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """Pairs of the line on which a record ends and its cells by column name.

    In a file of one column every line is a record; with more columns a line with nothing on it is none.
    """
    names: list[str] | None = None
    for line, cells in _raw(path, delimiter=delimiter, quotes=quotes, encoding=encoding):
        if names is None:
            if header:
                names = _checked_names(path, cells)
                continue
            names = [str(i) for i in range(len(cells))]
        if len(cells) != len(names):
            if cells == [""]:
                continue
            raise DataError(_ragged(path, line, cells, names, delimiter=delimiter, quotes=quotes))
        yield line, dict(zip(names, cells, strict=True))


def names(path: Path, *, delimiter: str, quotes: bool, header: bool, encoding: str) -> list[str]:
    """The column names: the cells of the first line, or "0", "1", ... without a header."""
    for _, cells in _raw(path, delimiter=delimiter, quotes=quotes, encoding=encoding):
        return _checked_names(path, cells) if header else [str(i) for i in range(len(cells))]
    raise DataError(f"{path}: the file is empty")


def _raw(path: Path, *, delimiter: str, quotes: bool, encoding: str) -> Iterator[tuple[int, list[str]]]:
    with open_lines(path, encoding) as lines:
        numbered = enumerate(lines, start=1)
        for number, line in numbered:
            if quotes and '"' in line:
                cursor = _Cursor(path=path, delimiter=delimiter, following=numbered, number=number, line=line)
                cells = cursor.cells()
                yield cursor.number, cells
            else:
                yield number, _without_end(line).split(delimiter)


@dataclass(kw_only=True)
class _Cursor:
    """Where the reading of a record with quote marks stands: ``position`` in ``line``, which is line ``number``."""

    path: Path
    delimiter: str
    following: Iterator[tuple[int, str]]
    number: int
    line: str
    position: int = 0

    def cells(self) -> list[str]:
        """The cells from here to the end of the record."""
        cells: list[str] = []
        while True:
            if not self.line.startswith('"', self.position):
                end = self.line.find(self.delimiter, self.position)
                if end < 0:
                    return [*cells, _without_end(self.line[self.position :])]
                cells.append(self.line[self.position : end])
                self.position = end + 1
                continue
            cells.append(self._quoted())
            if not _without_end(self.line[self.position :]):
                return cells
            if self.line[self.position] != self.delimiter:
                raise DataError(
                    f"{self.path}: line {self.number}: text follows a closing quote mark in column {len(cells)}; "
                    "double the quote marks inside a quoted cell, or read with --quoting none"
                )
            self.position += 1

    def _quoted(self) -> str:
        opened, parts, length = self.number, [], 0
        self.position += 1
        while True:
            mark = self.line.find('"', self.position)
            if mark >= 0:
                doubled = self.line.startswith('"', mark + 1)
                parts.append(self.line[self.position : mark + doubled])
                self.position = mark + 1 + doubled
                if not doubled:
                    return "".join(parts)
                continue
            parts.append(self.line[self.position :])
            length += len(parts[-1])
            self.number, self.line = next(self.following, (self.number, ""))
            self.position = 0
            if not self.line or length > LONGEST_CELL:
                raise DataError(
                    f"{self.path}: line {opened}: a quote mark opens a cell and is never closed; "
                    "close it, or read with --quoting none if quote marks are ordinary characters"
                )


def _without_end(line: str) -> str:
    if line.endswith("\r\n"):
        return line[:-2]
    return line[:-1] if line.endswith(("\n", "\r")) else line


def _checked_names(path: Path, cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"{path}: the column name {repeated[0]!r} stands twice in the header; rename one")
    return names


def _ragged(path: Path, line: int, cells: list[str], names: list[str], *, delimiter: str, quotes: bool) -> str:
    advice = (
        "put cells that hold the delimiter between quote marks"
        if quotes
        else "read with --quoting csv if cells are between quote marks"
    )
    return f"{path}: line {line} has {len(cells)} cells and the header {len(names)} (delimiter {delimiter!r}); {advice}"
