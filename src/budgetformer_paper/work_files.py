"""Small JSON files in the work folder: whole or not at all, and named when they are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_json(file: Path, value: Any) -> None:
    """Written aside, then renamed."""
    aside = file.with_name(f"{file.name}.partial")
    aside.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")
    aside.replace(file)


def read_json(file: Path, *names: str) -> dict[str, Any]:
    """The object in ``file``. Raises ValueError that says what to delete when it is none, or lacks one of ``names``."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or any(name not in value for name in names):
        raise ValueError(f"{file} is damaged: delete the folder {file.parent}, and the same command makes it anew")
    return value
