"""A whole data set as token ids on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets

from .encoding import TextEncoder
from .storage import BATCH_ROWS, with_progress, write_dataset


@dataclass(frozen=True, kw_only=True)
class EncodedDataset:
    """``dataset`` holds input_ids, perhaps token_type_ids, length (tokens), label and row; counts of rows beside it."""

    dataset: datasets.Dataset
    truncated: int
    empty: int


def encode_dataset(
    dataset: datasets.Dataset,
    encoder: TextEncoder,
    *,
    folder: str | Path | None = None,
    progress: bool = True,
) -> EncodedDataset:
    """Encode every row of a data set with text, perhaps pair, label and row; memory stays bounded.

    ``label`` is carried over as it is. The result lies in ``folder`` (default: a temporary one).
    """
    columns = {"input_ids": datasets.List(datasets.Value("int32"))}
    if encoder.uses_segments:
        columns["token_type_ids"] = datasets.List(datasets.Value("int8"))
    columns |= {"length": datasets.Value("int32")}
    columns |= {name: dataset.features[name] for name in ("label", "row") if name in dataset.features}
    counts = {"truncated": 0, "empty": 0}
    written = write_dataset(_batches(dataset, encoder, counts, progress), datasets.Features(columns), folder=folder)
    return EncodedDataset(dataset=written, **counts)


def _batches(
    dataset: datasets.Dataset, encoder: TextEncoder, counts: dict[str, int], progress: bool
) -> Iterator[dict[str, list[Any]]]:
    batches = dataset.iter(batch_size=BATCH_ROWS)
    total = -(-len(dataset) // BATCH_ROWS)
    for batch in with_progress(batches, "Tokenising", show=progress, total=total, unit=f" × {BATCH_ROWS} rows"):
        encoded = encoder.encode(batch["text"], batch.get("pair"))
        counts["truncated"] += sum(encoded.truncated)
        counts["empty"] += sum(encoded.empty)
        columns: dict[str, list[Any]] = {"input_ids": encoded.input_ids}
        if encoded.token_type_ids is not None:
            columns["token_type_ids"] = encoded.token_type_ids
        columns["length"] = [len(ids) for ids in encoded.input_ids]
        yield columns | {name: batch[name] for name in ("label", "row") if name in batch}
