"""Files that appear under their name when they are complete."""

from __future__ import annotations

import io
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..data.unicode import require_writable_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_target(path: Path, *, inputs: Sequence[Path] = ()) -> None:
    """Refuse a file that cannot be written, or that is one of ``inputs``, before any work."""
    require_writable_name(path)
    if path.is_dir():
        raise ValueError(f"{path}: this is a folder; give a file name")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: this is not an ordinary file, and would be replaced by one; give another name")
    if path.exists() and _is_screen(path):
        raise ValueError(f"{path}: the command's own words go there; give another name")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path}: no permission to write in {path.parent}")
    for other in inputs:
        if path.resolve() == other.resolve():
            raise ValueError(f"{path} would be read and written, or written twice; give every file its own name")


def _is_screen(path: Path) -> bool:
    """Whether it is where standard output or standard error go, such as /dev/stdout."""
    for number in (1, 2):
        try:
            if os.path.samestat(path.stat(), os.fstat(number)):
                return True
        except OSError:  # closed
            continue
    return False


def partial_name(path: Path) -> Path:
    """Where a file that can be gone on with lies while it is written."""
    return path.with_name(f"{path.name}.partial")


@contextmanager
def written_aside(path: Path) -> Iterator[TextIO]:
    """A text file that gets its name at the end of the block, and is removed when the block fails."""
    with _aside(path) as aside, open(aside, "w", encoding="utf-8", newline="") as file:
        yield file


def write_bytes(path: Path, data: bytes) -> None:
    """The bytes, whole or not at all."""
    with _aside(path) as aside:
        aside.write_bytes(data)


def write_figure(path: Path, figure: Figure) -> None:
    """The figure in the format of the extension, whole or not at all."""
    sink = io.BytesIO()
    figure.savefig(sink, format=path.suffix.lower().removeprefix("."), dpi=150)
    write_bytes(path, sink.getvalue())


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """Where to write; it gets its name when the block, and what was opened in it, ends well."""
    # a name of its own, so that two writers do not meet and what a stopped `predict` left to go on with stays
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        yield aside
        os.replace(aside, path)
    except OSError as problem:
        raise OSError(f"cannot write {path} ({problem.strerror or problem})") from problem
    finally:
        aside.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """The value, readable, whole or not at all."""
    with written_aside(path) as file:
        file.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
