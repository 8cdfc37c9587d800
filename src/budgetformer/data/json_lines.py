"""Records as lines of JSON, whatever their cells are."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any


def json_line(row: dict[str, Any], *, ascii_only: bool = False) -> str:
    """One line of JSON."""
    return json.dumps(plain(row), ensure_ascii=ascii_only, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """The value as JSON knows it: dates and decimals as text, bytes in hexadecimal, NaN and infinity as null."""
    match value:
        case dict():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.hex()
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
    return str(value)
