"""The command line: one small file per command; torch is imported when a command needs it."""

from __future__ import annotations

import signal
import sys

from .outcome import run

__all__ = ["main", "run"]


def main() -> None:
    """Run the command of this process and leave with its exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leave as after Ctrl-C, tidied up
    sys.exit(run(sys.argv[1:]))
