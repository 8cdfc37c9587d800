"""Where reproduce reads and writes: checked before any work."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

SETS = ("dbpedia14", "ag_news", "imdb", "snli", "yelp_full")
_REVISION = re.compile(r"\w[\w./-]*", re.ASCII)  # a commit, or a branch or tag of the hub


def check_places(results: Path, work: Path, budgets: Path | None) -> None:
    """Refuse places where nothing can be written, before any work."""
    if os.path.isdir(results):  # unlike Path.is_dir, False where nobody may look
        raise ValueError(f"--results {results} is a folder; give a file of rows")
    if os.path.exists(results) and not os.path.isfile(results):
        raise ValueError(f"--results {results} is not an ordinary file; give another name")
    if os.path.isfile(results):
        if not os.access(results, os.R_OK | os.W_OK):
            raise ValueError(f"--results: no permission to read and write {results}")
    else:
        _check_folder("--results", results.parent)
    _check_folder("--work", work)
    if budgets is not None:
        _check_folder("--budgets", budgets)


def _check_folder(option: str, folder: Path) -> None:
    """Refuse a folder in which no file can be made, or which cannot be made itself."""
    there = folder
    while not os.path.exists(there) and there != there.parent:
        there = there.parent
    if not os.path.isdir(there):
        raise ValueError(f"{option}: {there} is a file; give a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"{option}: no permission to write in {there}")


def chosen_revisions(given: Sequence[str] | None, data_folder: Path | None) -> dict[str, str]:
    """Commits by data set, from SET=COMMIT."""
    if given and (data_folder is not None or os.environ.get("BUDGETFORMER_DATA")):
        raise ValueError("--revision has no effect on a data folder: leave one of them out")
    found: dict[str, str] = {}
    for one in given or ():
        name, _, commit = one.partition("=")
        commit = commit.strip()
        if name not in SETS or not _REVISION.fullmatch(commit) or ".." in commit:
            raise ValueError(f"--revision takes SET=COMMIT with one of {', '.join(SETS)}, got {one!r}")
        if found.get(name, commit) != commit:
            raise ValueError(f"--revision names two commits of {name}, {found[name]} and {commit}; give one")
        found[name] = commit
    return found
