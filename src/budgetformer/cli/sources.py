"""Rows that a command was given: labelled ones to score, or texts alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.columns import Columns
from ..data.files import Reading
from ..data.labels import encode_labels, model_markers
from ..data.sources import RowSource, read_rows
from .early import check_source
from .options import refuse

if TYPE_CHECKING:
    import datasets

    from ..answers import Pair
    from ..configuration import BudgetFormerConfig


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows with class indices as ``label``, and where they are from."""

    dataset: datasets.Dataset
    source: str


def labelled_rows(
    name: str,
    *,
    config: BudgetFormerConfig,
    asked: Columns,
    reading: Reading,
    split: str | None,
    unlabelled: Any,
    data_folder: Path | None,
) -> Rows:
    """The rows of a file or of a named set's split, with labels as the model numbers them."""
    source = _source(name, asked=asked, reading=reading, split=split, data_folder=data_folder)
    rows, _ = read_rows(source, config, need_label=True, progress=True)
    names = [config.id2label[i] for i in range(config.num_labels)]
    marked = encode_labels(rows, names, model_markers(names, unlabelled), source=str(source))
    return Rows(dataset=marked, source=str(source))


def texts_of(
    name: str,
    *,
    config: BudgetFormerConfig,
    asked: Columns,
    reading: Reading,
    split: str | None,
    data_folder: Path | None,
    rows: int,
) -> list[str | Pair]:
    """At most ``rows`` texts or pairs, taken evenly from a file or a named set's split; labels are not needed."""
    from ..answers import Pair

    source = _source(name, asked=asked, reading=reading, split=split, data_folder=data_folder)
    found, _ = read_rows(source, config, need_label=False, progress=True)
    read, count = len(found), min(rows, len(found))
    some = found.select([place * read // count for place in range(count)]).to_dict()
    if "pair" not in some:
        return [text or "" for text in some["text"]]
    return [Pair(a or "", b or "") for a, b in zip(some["text"], some["pair"], strict=True)]


def _source(name: str, *, asked: Columns, reading: Reading, split: str | None, data_folder: Path | None) -> RowSource:
    """Where the rows are, once the options fit a file or a named set."""
    if check_source(name):
        refuse(
            {"column options": bool(asked.names()) or None, "a file format": reading != Reading() or None},
            f"with the data set {name}, which is known",
        )
    else:
        refuse({"--split": split, "--data-folder": data_folder}, "with a file, it is for the data sets by name")
    return RowSource(data=name, columns=asked, reading=reading, data_folder=data_folder, split=split or "test")
