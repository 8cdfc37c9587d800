"""Where labelled data come from: a file, or a data set by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.columns import Columns, resolve_columns
from ..data.errors import DataError
from ..data.files import Reading, column_names
from ..data.labels import encode_labels, model_markers
from ..data.loading import load
from ..data.registry import load_named
from .early import check_source
from .options import refuse

if TYPE_CHECKING:
    import datasets

    from ..answers import Pair
    from ..configuration import BudgetFormerConfig


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows and where they are from; to be scored, they have class indices as ``label``."""

    dataset: datasets.Dataset
    source: str


def remembered_columns(config: BudgetFormerConfig) -> Columns | None:
    """What the columns were called in the training file."""
    if not config.text_columns:
        return None
    return Columns(text=tuple(config.text_columns), pair=config.pair_column, label=config.label_column)


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
    rows = _rows(
        name, config=config, asked=asked, reading=reading, split=split, data_folder=data_folder, need_label=True
    )
    names = [config.id2label[i] for i in range(config.num_labels)]
    marked = encode_labels(rows.dataset, names, model_markers(names, unlabelled), source=rows.source)
    return Rows(dataset=marked, source=rows.source)


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

    found = _rows(
        name, config=config, asked=asked, reading=reading, split=split, data_folder=data_folder, need_label=False
    )
    if not len(found.dataset):
        raise DataError(f"{found.source} has no rows")
    read, count = len(found.dataset), min(rows, len(found.dataset))
    some = found.dataset.select([place * read // count for place in range(count)]).to_dict()
    if "pair" not in some:
        return [text or "" for text in some["text"]]
    return [Pair(a or "", b or "") for a, b in zip(some["text"], some["pair"], strict=True)]


def _rows(
    name: str,
    *,
    config: BudgetFormerConfig,
    asked: Columns,
    reading: Reading,
    split: str | None,
    data_folder: Path | None,
    need_label: bool,
) -> Rows:
    if check_source(name):
        split = split or "test"
        refuse(
            {"column options": bool(asked.names()) or None, "a file format": reading != Reading() or None},
            f"with the data set {name}, which is known",
        )
        named = load_named(name, split, folder=data_folder)
        if named is None:
            raise DataError(f"{name} has no {split} split; choose another with --split, or give a file")
        rows, columns, source = named.dataset, named.columns, f"{name} {split}"
    else:
        refuse({"--split": split, "--data-folder": data_folder}, "with a file, it is for the data sets by name")
        columns = resolve_columns(
            column_names(name, reading),
            asked,
            remembered_columns(config),
            need_label=need_label,
            path=name,
            header=reading.header,
        )
        rows, source = load(name, columns, reading), name
    check_pairs(columns, config, source)
    return Rows(dataset=rows, source=source)


def check_pairs(columns: Columns, config: BudgetFormerConfig, source: str | Path) -> None:
    """Refuse pairs for a model of single texts and the reverse."""
    if config.text_columns and bool(columns.pair) != bool(config.pair_column):
        takes = "pairs" if config.pair_column else "single texts"
        raise DataError(f"{source}: the model was trained on {takes} and these rows are not; choose other columns")
