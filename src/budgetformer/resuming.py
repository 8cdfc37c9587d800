"""What differs between a run that was stopped and the one that is to go on with it, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_LONGEST = 60


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The settings of ``now`` that ``before`` had otherwise, with both values where they are short; None without any.

    Fields that hold fields, such as a request, are compared one by one.
    """
    return ", ".join(_differences(before, json.loads(json.dumps(now)))) or None


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    found = []
    for name, value in now.items():
        old = before.get(name)
        if old == value:
            continue
        if isinstance(value, dict) and isinstance(old, dict):
            found += _differences({key: old.get(key) for key in {*old, *value}}, dict.fromkeys(old) | value)
            continue
        values = _said(old), _said(value)
        short = name not in ("model", "input") and max(map(len, values)) <= _LONGEST
        found.append(f"{name} ({values[0]} before, {values[1]} now)" if short else name)
    return found


def _said(value: Any) -> str:
    if value is None:
        return "none"
    return ", ".join(_said(part) for part in value) if isinstance(value, list) else str(value)
