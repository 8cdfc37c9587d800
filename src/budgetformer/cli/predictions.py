"""Answers on standard output."""

from __future__ import annotations

import sys
from typing import Any

from ..data.json_lines import json_line


def print_json(row: dict[str, Any]) -> None:
    """One JSON line on standard output, in ASCII where that is not UTF-8."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    sys.stdout.write(json_line(row, ascii_only=not unicode))
