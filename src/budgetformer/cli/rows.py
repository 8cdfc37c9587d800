"""Rows of output: as JSON lines or as a table, by the file's extension."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..data.json_lines import json_line, plain
from .writing import written_aside

if TYPE_CHECKING:
    from ..evaluation import Mistake

KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv"}
DELIMITERS = {"csv": ",", "tsv": "\t"}


def kind_of(path: Path) -> str:
    """jsonl, csv or tsv, by the extension."""
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"{path}: rows are written as {', '.join(KINDS)}; choose one of these extensions")
    return kind


class TableWriter:
    """csv or tsv with a header; cells that hold the delimiter, quote marks or line ends are between quote marks.

    Lists and objects are written as JSON, null as an empty cell.
    """

    def __init__(self, file: TextIO, columns: Sequence[str], *, kind: str) -> None:
        self.columns = list(columns)
        self._writer = csv.writer(file, delimiter=DELIMITERS[kind], lineterminator="\n")

    def header(self) -> None:
        """Write the column names."""
        self._writer.writerow(self.columns)

    def write(self, row: dict[str, Any]) -> None:
        """Write one row; its names are the columns."""
        self._writer.writerow([_cell(row.get(name)) for name in self.columns])


def _cell(value: Any) -> str:
    value = plain(value)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@contextmanager
def error_writer(path: Path | None, *, pairs: bool) -> Iterator[Callable[[Mistake], None] | None]:
    """Writes every mistake: row, text, perhaps pair, label, predicted, score, scores, heads. None without a path."""
    if path is None:
        yield None
        return
    kind = kind_of(path)
    columns = ["row", "text", *(["pair"] if pairs else []), "label", "predicted", "score", "scores", "heads"]
    with written_aside(path) as file:
        table = None if kind == "jsonl" else TableWriter(file, columns, kind=kind)
        if table is not None:
            table.header()

        def write(mistake: Mistake) -> None:
            answer = mistake.prediction
            row = {
                "row": mistake.row,
                "text": mistake.text,
                **({"pair": mistake.pair} if pairs else {}),
                "label": mistake.label,
                "predicted": answer.label,
                "score": answer.score,
                "scores": answer.scores,
                "heads": answer.heads,
            }
            if table is None:
                file.write(json_line(row))
            else:
                table.write(row)

        yield write
