"""Labelled rows for ranking heads: from a file or a data set by name, with the classes of the classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets

from ..configuration import IGNORED, BudgetFormerConfig
from ..data.columns import Columns, resolve_columns
from ..data.encoding import Encoded, TextEncoder
from ..data.errors import DataError
from ..data.files import Reading, column_names
from ..data.labels import encode_labels, model_markers
from ..data.loading import load
from ..data.registry import SOURCES, is_named, load_named


@dataclass(frozen=True, kw_only=True)
class RowSource:
    """Where labelled rows are: a file, or the training split of a data set by name; columns as the user said."""

    data: str
    columns: Columns = field(default_factory=Columns)
    reading: Reading = field(default_factory=Reading)
    unlabelled: Any = None
    data_folder: Path | None = None


@dataclass(frozen=True, kw_only=True)
class LabelledRows:
    """Encoded texts, their class indices, and what the columns are called."""

    encoded: Encoded
    labels: list[int]
    columns: Columns


def read_rows(
    source: RowSource, config: BudgetFormerConfig | None = None, *, need_label: bool, progress: bool = False
) -> tuple[datasets.Dataset, Columns]:
    """Texts of a file or of a named set's training split, and its columns.

    Columns are called as the user said or else as in the training of a model with this ``config``, which takes pairs
    or single texts alone. ``progress``: of a download. Raises DataError for what is not there and for no rows.
    """
    if is_named(source.data):
        named = load_named(source.data, "train", folder=source.data_folder, progress=progress)
        if named is None:
            raise DataError(f"{source.data} has no train split")
        rows, columns = named.dataset, named.columns
    elif Path(source.data).exists():
        remembered = None
        if config is not None and config.text_columns:
            remembered = Columns(text=tuple(config.text_columns), pair=config.pair_column, label=config.label_column)
        columns = resolve_columns(
            column_names(source.data, source.reading),
            source.columns,
            remembered,
            need_label=need_label,
            path=source.data,
            header=source.reading.header,
        )
        rows = load(source.data, columns, source.reading, progress=False)
    else:
        raise DataError(f"{source.data}: there is no such file, nor a data set of that name ({', '.join(SOURCES)})")
    if config is not None and config.text_columns and bool(columns.pair) != bool(config.pair_column):
        takes = "pairs" if config.pair_column else "single texts"
        raise DataError(f"{source.data}: the model was trained on {takes} and these rows are not; choose other columns")
    if not len(rows):
        raise DataError(f"{source.data} has no rows")
    return rows, columns


def labelled_rows(source: RowSource, *, names: Sequence[str], encoder: TextEncoder, most: int) -> LabelledRows:
    """At most ``most`` labelled rows, taken evenly from the whole. Raises DataError for labels that are no classes."""
    dataset, columns = read_rows(source, need_label=True, progress=True)
    marked = encode_labels(dataset, names, model_markers(names, source.unlabelled), source=source.data)
    kept = [i for i, label in enumerate(marked["label"]) if label != IGNORED]
    if not kept:
        raise DataError(f"{source.data} has no labelled rows, and heads are ranked on labelled rows")
    picked = kept[:: max(1, len(kept) // most)][:most]
    some = marked.select(picked).to_dict()
    pairs = [text or "" for text in some["pair"]] if "pair" in some else None
    encoded = encoder.encode([text or "" for text in some["text"]], pairs)
    return LabelledRows(encoded=encoded, labels=[int(label) for label in some["label"]], columns=columns)
