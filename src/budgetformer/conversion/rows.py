"""Labelled rows for ranking heads: from a file or a data set by name, with the classes of the classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..configuration import IGNORED
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


def labelled_rows(source: RowSource, *, names: Sequence[str], encoder: TextEncoder, most: int) -> LabelledRows:
    """At most ``most`` labelled rows, taken evenly from the whole. Raises DataError for labels that are no classes."""
    if is_named(source.data):
        named = load_named(source.data, "train", folder=source.data_folder)
        if named is None:
            raise DataError(f"{source.data} has no train split")
        dataset, columns = named.dataset, named.columns
    elif Path(source.data).exists():
        found = column_names(source.data, source.reading)
        columns = resolve_columns(
            found, source.columns, None, need_label=True, path=source.data, header=source.reading.header
        )
        dataset = load(source.data, columns, source.reading, progress=False)
    else:
        raise DataError(f"{source.data}: there is no such file, nor a data set of that name ({', '.join(SOURCES)})")
    marked = encode_labels(dataset, names, model_markers(names, source.unlabelled), source=source.data)
    kept = [i for i, label in enumerate(marked["label"]) if label != IGNORED]
    if not kept:
        raise DataError(f"{source.data} has no labelled rows, and heads are ranked on labelled rows")
    picked = kept[:: max(1, len(kept) // most)][:most]
    some = marked.select(picked).to_dict()
    pairs = [text or "" for text in some["pair"]] if "pair" in some else None
    encoded = encoder.encode([text or "" for text in some["text"]], pairs)
    return LabelledRows(encoded=encoded, labels=[int(label) for label in some["label"]], columns=columns)
