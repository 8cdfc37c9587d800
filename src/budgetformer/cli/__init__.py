"""The command line: one small file per command; torch is imported when a command needs it."""

from __future__ import annotations

import sys

from .outcome import run

__all__ = ["main", "run"]


def main() -> None:
    """Run the command of this process and leave with its exit code."""
    sys.exit(run(sys.argv[1:]))
