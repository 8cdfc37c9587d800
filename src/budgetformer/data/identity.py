"""Which file it was: path, size and digest of its bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any


def file_identity(path: str | Path) -> dict[str, Any]:
    """``path`` as given, ``bytes`` and ``sha256`` of the content, as JSON values."""
    path = Path(path)
    with open(path, "rb") as file:
        return {
            "path": str(path),
            "bytes": path.stat().st_size,
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
        }


def file_stamp(path: Path) -> dict[str, Any]:
    """Size and time of the last change: what tells one input from another without reading it."""
    status = path.stat()
    return {"name": path.name, "bytes": status.st_size, "changed": status.st_mtime_ns}
