"""Writes a small file, reads it, or reads what is said about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetformer.data.errors import DataError
from budgetformer.data.files import Reading, column_names, iter_rows


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def cells(path: Path, **options: Any) -> list[dict[str, Any]]:
    return [row.cells for row in iter_rows(path, Reading(**options))]


def complaint(path: Path, **options: Any) -> str:
    """The one line that is said when the file is looked at and read."""
    with pytest.raises(DataError) as caught:
        _look_at(path, Reading(**options))
    message = str(caught.value)
    assert path.name in message
    assert "\n" not in message
    return message


def _look_at(path: Path, reading: Reading) -> None:
    column_names(path, reading)
    list(iter_rows(path, reading))
