"""One writer at a time: a lock that ends with the process, however it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


class HeldError(ValueError):
    """Another process writes there."""


STEP = 0.2
"""Seconds between two tries."""


@contextmanager
def alone_in(path: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold a file or folder for the block. Raises HeldError when another process holds it for ``patience`` seconds on.

    Where the system or its file system knows no such locks, nothing is held and nothing refused.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        until = time.monotonic() + patience
        while not _held(handle):
            if time.monotonic() >= until:
                raise HeldError(f"{path}: another run is writing there; wait for it, or give another place")
            time.sleep(STEP)
        yield
    finally:
        os.close(handle)


def _held(handle: int) -> bool:
    """Whether the lock is ours now, or there are none."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
