"""jsonl: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import DataError
from .opening import open_lines
from .unicode import well_formed

DEEPEST = 100
"""Lists and objects inside one another in a record; what lies deeper could not be written again."""


def records(path: Path, encoding: str, *, start_at: int = 0, line: int = 1) -> Iterator[tuple[int, dict[str, Any]]]:
    """Pairs of line number and object; a blank line is no record. ``line`` begins at the byte ``start_at``."""
    with open_lines(path, encoding, start_at=start_at) as lines:
        yield from _objects(path, enumerate(lines, start=line))


def starts(path: Path, encoding: str) -> Iterator[tuple[int, int]]:
    """Line number and first byte of every record, for a file that ``not_in_pieces`` has nothing against.

    Nothing is parsed, so that what is no JSON object has its place too.
    """
    position = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            first = line.lstrip()[:1]
            if first == b"{" or line.decode(encoding, errors="replace").lstrip("\ufeff" if number == 1 else "").strip():
                yield number, position
            position += len(line)


def _objects(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            value = json.loads(line, object_pairs_hook=_unique)
            value = _repaired(value) if "\\u" in line else value
        except json.JSONDecodeError as problem:
            raise DataError(
                f"{path}: line {number} is not JSON ({problem.msg} at character {problem.pos}); "
                "jsonl holds one JSON object on each line"
            ) from problem
        except (ValueError, RecursionError) as problem:
            raise DataError(f"{path}: line {number} cannot be read ({problem})") from problem
        if not isinstance(value, dict):
            raise DataError(
                f"{path}: line {number} is a JSON {_kind(value)}, not an object; jsonl has one object on each line"
            )
        if line.count("[") + line.count("{") > DEEPEST and _is_deeper(value, DEEPEST):
            raise DataError(f"{path}: line {number} cannot be read (more than {DEEPEST} levels of lists and objects)")
        yield number, value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {repeated!r} stands twice in one object")
    return value


def _repaired(value: Any) -> Any:
    """JSON can name half a surrogate pair, which is no character."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [_repaired(item) for item in value]
    if isinstance(value, dict):
        return _unique([(well_formed(name), _repaired(item)) for name, item in value.items()])
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in items)


def _kind(value: object) -> str:
    return {list: "list", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")
