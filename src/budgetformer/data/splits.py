"""Splits a data set by class and counts texts that stand in it more than once."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import datasets
import numpy as np

from ..configuration import IGNORED
from .errors import DataError
from .labels import is_unlabelled

_ITERATION_ROWS = 10_000


@dataclass(frozen=True, kw_only=True)
class Split:
    """Two parts of a data set; every row is in exactly one."""

    train: datasets.Dataset
    validation: datasets.Dataset


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """Rows whose text (of a pair: both texts) equals that of another row, character by character.

    within: for each part, rows that repeat an earlier one. across: for two parts, rows of the second whose text
    stands in the first. conflicting: repeated texts that have more than one label.
    """

    within: Mapping[str, int]
    across: Mapping[tuple[str, str], int]
    conflicting: int

    def sentences(self) -> list[str]:
        """What was found, in words; nothing when there are no repeats."""
        found = [f"{n} rows of {part} repeat an earlier row" for part, n in self.within.items() if n]
        found += [f"{n} rows of {b} have a text that is also in {a}" for (a, b), n in self.across.items() if n]
        if self.conflicting:
            found.append(f"{self.conflicting} repeated texts have more than one label")
        return found


def split_validation(
    dataset: datasets.Dataset, *, fraction: float = 0.1, seed: int = 0, markers: Sequence[str] = ("-",)
) -> Split:
    """Set aside ``fraction`` of every class, chosen by ``seed``, at least one row of a class that has two.

    A class with one row and rows without a label stay in the training part. Labels may be names or indices.
    Raises DataError when no row can be set aside.
    """
    if not 0 < fraction < 1:
        raise DataError(f"the validation fraction must lie between 0 and 1, got {fraction}")
    aside = []
    generator = np.random.default_rng(seed)
    for rows in _rows_by_class(dataset, frozenset(markers)):
        n = min(max(int(len(rows) * fraction + 0.5), 1), len(rows) - 1)
        aside.append(generator.permutation(rows)[:n])
    chosen = np.sort(np.concatenate(aside)) if aside else np.empty(0, dtype=np.int64)
    if not len(chosen):
        raise DataError("too few labelled rows to set some aside for validation: give a validation file")
    rest = np.setdiff1d(np.arange(len(dataset)), chosen, assume_unique=True)
    return Split(train=dataset.select(rest), validation=dataset.select(chosen))


def stratified_parts(dataset: datasets.Dataset, sizes: Sequence[int], *, seed: int) -> list[datasets.Dataset]:
    """Parts with exactly ``sizes`` rows and, as nearly as possible, the same shares of classes; the rest is left out.

    Rows are permuted by ``seed`` and keep the data set's order within a part.
    """
    assert sum(sizes) <= len(dataset)
    generator = np.random.default_rng(seed)
    # A place in (0, 1) for every row, evenly spread within its class: cutting the sorted places cuts every class.
    places = np.ones(len(dataset))
    for rows in _rows_by_class(dataset, frozenset()):
        places[generator.permutation(rows)] = (np.arange(len(rows)) + 0.5) / len(rows)
    order = np.argsort(places, kind="stable")
    bounds = [0, *itertools.accumulate(sizes)]
    return [dataset.select(np.sort(order[start:end])) for start, end in itertools.pairwise(bounds)]


def count_repeats(parts: Mapping[str, datasets.Dataset]) -> Repeats:
    """Count repeated texts within and across named parts. Keeps 16 bytes a row, not the texts."""
    keys = {name: _keys(dataset) for name, dataset in parts.items()}
    within = {name: len(key) - len(np.unique(key["text"])) for name, key in keys.items()}
    across = {(a, b): int(np.isin(keys[b]["text"], keys[a]["text"]).sum()) for a, b in itertools.combinations(keys, 2)}
    everything = np.unique(np.concatenate([*keys.values()])) if keys else np.empty(0, dtype=_KEY)
    labels_per_text = np.unique(everything["text"], return_counts=True)[1]
    return Repeats(within=within, across=across, conflicting=int((labels_per_text > 1).sum()))


def deduplicate(dataset: datasets.Dataset) -> datasets.Dataset:
    """The data set without rows that repeat an earlier one's text (of a pair: both texts), in the same order."""
    first = np.unique(_keys(dataset)["text"], return_index=True)[1]
    return dataset.select(np.sort(first))


_KEY = np.dtype([("text", np.uint64), ("label", np.uint64)])


def _keys(dataset: datasets.Dataset) -> np.ndarray:
    keys = np.empty(len(dataset), dtype=_KEY)
    place = 0
    for batch in dataset.iter(batch_size=_ITERATION_ROWS):
        seconds = batch["pair"] if "pair" in batch else itertools.repeat("")
        for text, second, label in zip(batch["text"], seconds, batch["label"], strict=False):
            keys[place] = (_hash(f"{len(text)} {text}{second}"), _hash(str(label)))
            place += 1
    return keys


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "little")


def _rows_by_class(dataset: datasets.Dataset, markers: frozenset[str]) -> list[np.ndarray]:
    """The row numbers of every class, classes in the order of their first row; unlabelled rows left out."""
    codes: dict[str | int, int] = {}
    found = np.full(len(dataset), -1, dtype=np.int64)
    place = 0
    for batch in dataset.select_columns("label").iter(batch_size=_ITERATION_ROWS):
        for label in batch["label"]:
            known = label != IGNORED if isinstance(label, int) else not is_unlabelled(label, markers)
            if known:
                found[place] = codes.setdefault(label, len(codes))
            place += 1
    order = np.argsort(found, kind="stable")
    starts = np.searchsorted(found[order], np.arange(len(codes) + 1))
    return [order[start:end] for start, end in itertools.pairwise(starts)]
