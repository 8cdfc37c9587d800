"""Whether the rows that a model is measured on are those it was trained on, as far as its folder tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..data.identity import file_identity
from ..data.registry import is_named

ADVICE = "so its figures are better than those on new rows; measure on others"


def seen_in_training(folder: Path, data: str, *, split: str | None) -> str | None:
    """A sentence when ``data`` (a file, or the name of a set and its split) was trained on; None when nothing says so.

    A file is known by its content, else by its path. A file of some of the training rows is not recognised.
    """
    try:
        record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        settings, files = record["settings"], record["data"].get("files", [])
        trained = settings["train"] if isinstance(settings["train"], list) else [settings["train"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # another program made the folder, or a person: it says nothing
    if is_named(data):
        return f"the model was trained on {data} train, {ADVICE}" if data in trained and split == "train" else None
    return _of_a_file(Path(data), trained, files)


def _of_a_file(path: Path, trained: list[str], files: list[dict[str, Any]]) -> str | None:
    if any(file["bytes"] == path.stat().st_size for file in files):
        digest = file_identity(path)["sha256"]
        for file in files:
            if file["sha256"] == digest and file["role"] == "validation":
                return f"{path} is the file that the state of the model was chosen on: its figures may flatter"
            if file["sha256"] == digest:
                return f"{path} holds the rows that the model was trained on (the same content), {ADVICE}"
    if path.resolve() in (Path(name).resolve() for name in trained):
        what = "has changed since" if files else "may have changed since"
        return f"the model was trained on a file {path}, which {what}; rows that it has seen flatter the figures"
    return None
