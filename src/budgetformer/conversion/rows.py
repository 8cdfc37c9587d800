"""Labelled rows for ranking heads, with the classes of the classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..configuration import IGNORED
from ..data.columns import Columns
from ..data.encoding import Encoded, TextEncoder
from ..data.errors import DataError
from ..data.labels import encode_labels, model_markers
from ..data.sources import RowSource, read_rows


@dataclass(frozen=True, kw_only=True)
class LabelledRows:
    """Encoded texts, their class indices, and what the columns are called."""

    encoded: Encoded
    labels: list[int]
    columns: Columns


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
