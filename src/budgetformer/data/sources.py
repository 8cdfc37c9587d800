"""Rows for a model that exists: from a file, or a split of a set by name, with columns called as in its training."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets

from ..configuration import BudgetFormerConfig
from .columns import Columns, resolve_columns
from .errors import DataError
from .files import Reading, column_names
from .loading import load
from .registry import SOURCES, is_named, load_named


@dataclass(frozen=True, kw_only=True)
class RowSource:
    """Where rows are: a file, or one split of a data set by name; columns as the user said."""

    data: str
    columns: Columns = field(default_factory=Columns)
    reading: Reading = field(default_factory=Reading)
    unlabelled: Any = None
    data_folder: Path | None = None
    split: str = "train"

    def __str__(self) -> str:
        """For messages: the file, or the set and its split."""
        return f"{self.data} {self.split}" if is_named(self.data) else self.data


def remembered_columns(config: BudgetFormerConfig) -> Columns | None:
    """What the columns were called in the training file."""
    if not config.text_columns:
        return None
    return Columns(text=tuple(config.text_columns), pair=config.pair_column, label=config.label_column)


def check_pairs(columns: Columns, config: BudgetFormerConfig, source: object) -> None:
    """Refuse pairs for a model of single texts and the reverse."""
    if config.text_columns and bool(columns.pair) != bool(config.pair_column):
        takes = "pairs" if config.pair_column else "single texts"
        raise DataError(f"{source}: the model was trained on {takes} and these rows are not; choose other columns")


def read_rows(
    source: RowSource, config: BudgetFormerConfig | None = None, *, need_label: bool, progress: bool = False
) -> tuple[datasets.Dataset, Columns]:
    """Texts of a file or of a named set's split, and its columns.

    Columns are called as the user said or else as in the training of a model with this ``config``, which takes pairs
    or single texts alone. ``progress``: of a download, and of a file. Raises DataError for what is not there and for
    no rows.
    """
    if is_named(source.data):
        named = load_named(source.data, source.split, folder=source.data_folder, progress=progress)
        if named is None:
            raise DataError(f"{source.data} has no {source.split} split; choose another split, or give a file")
        rows, columns = named.dataset, named.columns
    elif Path(source.data).exists():
        columns = resolve_columns(
            column_names(source.data, source.reading),
            source.columns,
            None if config is None else remembered_columns(config),
            need_label=need_label,
            path=source.data,
            header=source.reading.header,
        )
        rows = load(source.data, columns, source.reading, progress=progress)
    else:
        raise DataError(f"{source.data}: there is no such file, nor a data set of that name ({', '.join(SOURCES)})")
    if config is not None:
        check_pairs(columns, config, source)
    if not len(rows):
        raise DataError(f"{source} has no rows")
    return rows, columns
