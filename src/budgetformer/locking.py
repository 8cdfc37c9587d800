"""One writer at a time: a lock that ends with the process, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def alone_in(path: Path) -> Iterator[None]:
    """Hold a file or folder for the block. Raises ValueError when another process holds it.

    Where the system or its file system knows no such locks, nothing is held and nothing refused.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise ValueError(f"{path}: another run is writing there; wait for it, or give another place") from problem
        except OSError:
            pass
        yield
    finally:
        os.close(handle)
