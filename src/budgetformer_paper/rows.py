"""The rows that a recipe uses, drawn from its data set once and kept as files beside the runs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np

from budgetformer.data.columns import Columns
from budgetformer.data.errors import DataError
from budgetformer.data.loading import load
from budgetformer.data.registry import FOLDER_VARIABLE, SOURCES, NamedData, load_named
from budgetformer.locking import alone_in

from .recipe import DataPart, digest
from .work_files import read_json, write_json

SUMMARY = "rows.json"
PATIENCE = 600.0
"""Seconds to wait while another run draws rows."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Files of the drawn rows; ``summary`` has the counts, where they come from, and what validation is measured on."""

    train: Path
    validation: Path
    test: Path
    columns: Columns
    summary: dict[str, Any]

    def read(self, split: str) -> datasets.Dataset:
        """One of the files as a data set, labels as class names."""
        return load(getattr(self, split), self.columns, progress=False)

    @property
    def trained_on(self) -> str:
        """Names the rows of training and validation, whose model belongs to them."""
        return digest({split: self.summary["sha256"][split] for split in (self.train.stem, self.validation.stem)})


def missing_data(names: Iterable[str], data_folder: Path | None) -> dict[str, list[str]]:
    """Files that the folder does not have, by data set; empty where all is there or the hub is asked."""
    place = data_folder or (Path(os.environ[FOLDER_VARIABLE]) if os.environ.get(FOLDER_VARIABLE) else None)
    if place is None:
        return {}
    missing: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        here = place / name
        for file in ("labels.txt", "train.jsonl", "test.jsonl"):
            if not (here / file).is_file() and not (here / f"{file}.gz").is_file():
                missing.setdefault(name, []).append(str(here / (file if file == "labels.txt" else f"{file}.gz")))
    return missing


def said_missing(missing: dict[str, list[str]]) -> str:
    """One line that says where to put which files."""
    files = ", ".join(file for files in missing.values() for file in files)
    return (
        f"these files are missing: {files}; put them there, name another folder with --data-folder, "
        "or choose sets with --data"
    )


def draw(
    part: DataPart, *, work: Path, data_folder: Path | None, quiet: bool = True, revision: str | None = None
) -> Drawn:
    """The rows of ``part``, written to a folder in ``work`` on the first call and taken from there afterwards.

    ``revision``: a commit of the hub in place of the pinned one.

    Raises DataError when the set cannot be had or has fewer rows than the scale needs.
    """
    folder = work / "rows" / f"{part.name}-{digest(asdict(part))}"
    place = data_folder or os.environ.get(FOLDER_VARIABLE)
    origin = str(Path(place).resolve()) if place else f"hub at {revision or SOURCES[part.name].revision}"
    made = [place for place in (folder.parent, work) if not place.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with alone_in(folder.parent, patience=PATIENCE):  # two runs that share a work folder draw the same rows
            if not _is_current(folder, part.name, origin):
                _write(part, folder, data_folder, origin, quiet, revision)
    except BaseException:
        for place in made:  # nothing stays of what was refused
            with suppress(OSError):
                place.rmdir()
        raise
    summary = read_json(folder / SUMMARY)
    pair = SOURCES[part.name].columns.pair is not None
    validation = "test" if summary["validated_on"].startswith("the test rows") else "validation"
    return Drawn(
        train=folder / "train.jsonl",
        validation=folder / f"{validation}.jsonl",
        test=folder / "test.jsonl",
        columns=Columns(text=("text",), pair="pair" if pair else None, label="label"),
        summary=summary,
    )


def _is_current(folder: Path, name: str, origin: str) -> bool:
    """Whether the rows are there, as they were drawn, from the source as it is now.

    Raises DataError for rows from another folder or commit, and for files that were changed.
    """
    if not (folder / SUMMARY).is_file():
        return False
    summary = read_json(folder / SUMMARY, "asked", "rows", "validated_on")
    if summary["asked"] != origin:
        raise DataError(f"{folder} holds rows from {summary['asked']}, not from {origin}: give another --work folder")
    if summary.get("files") != _files(origin, name) or "sha256" not in summary:
        return False
    for split, known in summary["sha256"].items():
        file = folder / f"{split}.jsonl"
        if not file.is_file() or _sha256(file) != known:
            raise DataError(f"{file} was changed since it was drawn: delete the folder {folder} to draw its rows anew")
    return True


def _files(origin: str, name: str) -> list[list[Any]] | None:
    """Name, bytes and time of a set's files in a folder, by which a changed source is noticed; None for the hub."""
    here = Path(origin) / name
    if not here.is_dir():
        return None
    found = sorted(file for file in here.iterdir() if file.is_file())
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in found]


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _without_place(origin: str) -> str:
    """Of a file, its folder's name and its own: rows are published, and where a machine keeps its data is its own."""
    return "/".join(Path(origin).parts[-2:]) if Path(origin).exists() else origin


def _write(
    part: DataPart, folder: Path, data_folder: Path | None, origin: str, quiet: bool, revision: str | None
) -> None:
    train, test = (_labelled(_load(part.name, split, data_folder, quiet, revision)) for split in ("train", "test"))
    for split, rows, least in (("train", train, part.least_train), ("test", test, part.least_test)):
        if part.whole and len(rows.places) > least:
            raise DataError(
                f"{part.name} {split} has {len(rows.places):,} labelled rows and the official split {least:,}: this is "
                "another set than the paper's (paper-shape takes the rows that there are)"
            )
        if len(rows.places) < least:
            raise DataError(
                f"{part.name} {split} has {len(rows.places):,} labelled rows and this scale needs {least:,}: "
                "get the whole set, or choose a smaller scale (paper-shape takes the rows that there are)"
            )
    named = load_named(part.name, "validation", folder=data_folder, progress=not quiet, revision=revision)
    order = np.random.default_rng(0).permutation(train.places)
    if named is not None:
        validation = _labelled(named)
        held_out, validated_on = validation.sample(part.validation_rows), "the set's own validation rows"
    elif part.validation_on_test:
        validation, held_out, validated_on = test, np.array([], dtype=int), "the test rows, as in the paper"
    else:
        count = min(part.validation_rows or len(order) // 10, len(order) // 5)
        validation, held_out, order = train, order[:count], order[count:]
        validated_on = "rows set aside from the training rows"
    pool = order[: part.train_rows]
    chosen = train.with_every_class(pool[: max(1, round(len(pool) * part.train_share))], order)
    tested = test.sample(part.test_rows)
    known = train.classes(chosen)
    for split, rows, places in (("validation", validation, held_out), ("test", test, tested)):
        if unknown := rows.classes(places) - known:
            raise DataError(
                f"{train.named.origin}: no row of training has the class {min(unknown)!r}, which rows of the "
                f"{split} part have"
            )
    aside = folder.with_name(folder.name + ".partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    counts = {
        "train": _save(aside / "train.jsonl", train, chosen),
        "test": _save(aside / "test.jsonl", test, tested),
    }
    own = not validated_on.startswith("the test rows")
    counts["validation"] = _save(aside / "validation.jsonl", validation, held_out) if own else counts["test"]
    summary = {
        "name": part.name,
        "rows": counts,
        "rows_there": {"train": len(train.places), "test": len(test.places)},
        "without_label": {"train": train.without_label, "test": test.without_label},
        "validated_on": validated_on,
        "classes": len(known),
        "origin": _without_place(train.named.origin),
        "revision": train.named.revision,
        "licence": train.named.licence,
        "sha256": {file.stem: _sha256(file) for file in sorted(aside.glob("*.jsonl"))},
        "asked": origin,
        "files": _files(origin, part.name),
    }
    write_json(aside / SUMMARY, summary)
    shutil.rmtree(folder, ignore_errors=True)
    aside.replace(folder)


@dataclass(frozen=True, kw_only=True)
class _Labelled:
    """A split, and where in it the rows with a label stand."""

    named: NamedData
    places: np.ndarray

    @property
    def without_label(self) -> int:
        return len(self.named.dataset) - len(self.places)

    def classes(self, places: np.ndarray) -> set[str]:
        """Those of the rows at ``places``."""
        return set(self.named.dataset.select(places)["label"])

    def with_every_class(self, chosen: np.ndarray, order: np.ndarray) -> np.ndarray:
        """``chosen``, and of every class that it lacks the first row in ``order`` (a few rows may lack some)."""
        missing = set(self.named.class_names) - self.classes(chosen)
        added = []
        for place in order[len(chosen) :] if missing else ():
            if (label := self.named.dataset[int(place)]["label"]) in missing:
                missing.remove(label)
                added.append(place)
            if not missing:
                break
        return np.concatenate([chosen, np.array(added, dtype=chosen.dtype)])

    def sample(self, most: int | None) -> np.ndarray:
        """At most so many rows, drawn with seed 0, in their order; None: all."""
        if most is None or most >= len(self.places):
            return self.places
        return np.sort(np.random.default_rng(0).permutation(self.places)[:most])


def _load(name: str, split: str, folder: Path | None, quiet: bool, revision: str | None) -> NamedData:
    named = load_named(name, split, folder=folder, progress=not quiet, revision=revision)
    assert named is not None, f"{name} has no {split} split"
    return named


def _labelled(named: NamedData) -> _Labelled:
    labels = [label is not None for batch in named.dataset.iter(batch_size=10_000) for label in batch["label"]]
    if not any(labels):
        raise DataError(f"{named.origin}: none of {len(labels):,} rows has a label (column {named.columns.label})")
    return _Labelled(named=named, places=np.flatnonzero(labels))


def _save(path: Path, rows: _Labelled, places: np.ndarray) -> int:
    with path.open("w", encoding="utf-8") as file:
        for record in rows.named.dataset.select(places):
            kept = {name: record[name] for name in ("text", "pair", "label") if record.get(name) is not None}
            file.write(json.dumps({"text": ""} | kept, ensure_ascii=False) + "\n")
    return len(places)
