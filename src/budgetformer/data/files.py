"""Reads tables of text row by row: csv, tsv, jsonl and parquet, whatever their size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import delimited, jsonl, parquet
from .errors import DataError
from .opening import check_regular, refuse_foreign_content

EXTENSIONS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
FORMATS = ("csv", "tsv", "jsonl", "parquet")
QUOTINGS = ("csv", "none")
_COLUMNS_FROM = 1000


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a file is to be read; the defaults suit a file with the usual extension.

    format: csv, tsv, jsonl or parquet; None goes by the extension (``.gz`` may follow, but for parquet).
    header: the first line of a csv or tsv holds the column names; otherwise columns are called "0", "1", ...
    quoting: "csv" (RFC 4180) or "none" (a quote mark is an ordinary character); None is "csv" for csv, "none" for tsv.
    delimiter: one character; None is a comma for csv and a tab for tsv.
    encoding: of csv, tsv and jsonl; a Unicode mark at the start of the file has the last word.
    """

    format: str | None = None
    header: bool = True
    quoting: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise DataError(f"format must be one of {', '.join(FORMATS)}, got {self.format!r}")
        if self.quoting is not None and self.quoting not in QUOTINGS:
            raise DataError(f"quoting must be one of {', '.join(QUOTINGS)}, got {self.quoting!r}")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise DataError(f"delimiter must be one character, not a quote or line end, got {self.delimiter!r}")
        try:
            "".encode(self.encoding)
            b"a".decode(self.encoding, errors="replace")
        except (LookupError, ValueError, TypeError) as problem:
            raise DataError(f"encoding {self.encoding!r} is not known: try utf-8, cp1252 or utf-16") from problem


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One record: ``number`` from 0, ``line`` where it ends in a text file, ``cells`` by column name.

    Cells of csv and tsv are strings as written; those of jsonl and parquet keep their type.
    """

    number: int
    line: int | None
    cells: dict[str, Any]

    @property
    def where(self) -> str:
        """The place of the row in words, for messages."""
        return f"record {self.number}" if self.line is None else f"line {self.line} (record {self.number})"


def format_of(path: str | Path, reading: Reading) -> str:
    """The format of ``path``: as asked, or by its extension. Refuses options that the format does not have."""
    path = Path(path)
    extension = path.suffix.lower()
    if extension == ".gz":
        extension = Path(path.stem).suffix.lower()
        if extension == ".parquet":
            raise DataError(f"{path}: parquet is compressed inside; gunzip the file first")
    kind = reading.format or EXTENSIONS.get(extension)
    if kind is None and extension in SPREADSHEETS:
        raise DataError(f"{path}: this is a spreadsheet; save it as csv and give that file")
    if kind is None:
        known = ", ".join(EXTENSIONS)
        raise DataError(
            f"{path}: the extension {extension or '(none)'} is not known; use {known} (also with .gz), "
            "or name the format (csv, tsv, jsonl, parquet)"
        )
    if kind not in ("csv", "tsv"):
        for option, given in (
            ("header", not reading.header),
            ("quoting", reading.quoting is not None),
            ("delimiter", reading.delimiter is not None),
        ):
            if given:
                raise DataError(f"{path}: the option {option} has no meaning for {kind}; leave it out")
    if kind == "parquet" and reading.encoding != Reading().encoding:
        raise DataError(f"{path}: the option encoding has no meaning for parquet; leave it out")
    return kind


def iter_rows(path: str | Path, reading: Reading | None = None, *, only: Sequence[str] | None = None) -> Iterator[Row]:
    """The records of a file in order, one at a time and in constant memory; none is left out.

    ``only`` names the columns that are wanted, which spares reading the others of a parquet file.
    Raises DataError for whatever cannot be read, naming file and line.
    """
    reading = reading or Reading()
    path = Path(path)
    kind = _check(path, reading)
    if kind == "parquet":
        return (Row(number=n, line=None, cells=cells) for n, cells in enumerate(parquet.records(path, only)))
    if kind == "jsonl":
        lines = jsonl.records(path, reading.encoding)
    else:
        lines = delimited.records(path, **_delimited_options(kind, reading))
    return (Row(number=n, line=line, cells=cells) for n, (line, cells) in enumerate(lines))


def column_names(path: str | Path, reading: Reading | None = None) -> list[str]:
    """The columns of a file. For jsonl: the names in the first 1000 objects. Refuses a file without records."""
    reading = reading or Reading()
    path = Path(path)
    kind = _check(path, reading)
    if kind == "parquet":
        names = parquet.names(path)
    elif kind == "jsonl":
        first = itertools.islice(jsonl.records(path, reading.encoding), _COLUMNS_FROM)
        names = list(dict.fromkeys(name for _, cells in first for name in cells))
    else:
        names = delimited.names(path, **_delimited_options(kind, reading))
    if next(iter_rows(path, reading), None) is None:
        if kind in ("csv", "tsv") and reading.header:
            raise DataError(f"{path}: there is no record after the header (--no-header if the first line is a record)")
        raise DataError(f"{path}: there is no record in the file")
    return names


def _check(path: Path, reading: Reading) -> str:
    check_regular(path)
    kind = format_of(path, reading)
    refuse_foreign_content(path, kind)
    return kind


def _delimited_options(kind: str, reading: Reading) -> dict[str, Any]:
    return {
        "delimiter": reading.delimiter or {"csv": ",", "tsv": "\t"}[kind],
        "quotes": (reading.quoting or {"csv": "csv", "tsv": "none"}[kind]) == "csv",
        "header": reading.header,
        "encoding": reading.encoding,
    }
