"""Opens files on purpose: checks what they are, decodes them by name and says where decoding fails."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from .errors import DataError
from .unicode import require_writable_name

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_GZIP = b"\x1f\x8b"
_FOREIGN = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a zip archive (or a spreadsheet such as xlsx: save it as csv)",
    b"\xd0\xcf\x11\xe0": "an old Office document (save it as csv)",
    _GZIP: "gzip data (add .gz to its name)",
    b"BZh": "bzip2 data (unpack it first)",
    b"\xfd7zXZ": "xz data (unpack it first)",
    b"\x28\xb5\x2f\xfd": "zstd data (unpack it first)",
    b"PAR1": "a parquet file (name it .parquet)",
    b"SQLite format 3": "a SQLite database",
    b"\x7fELF": "a program",
    b"ARROW1": "an Arrow file (save it as parquet)",
}
_CHUNK = 1 << 16


def check_regular(path: Path) -> None:
    """Refuse a path that is missing, a folder, not an ordinary file, unreadable or empty."""
    require_writable_name(path)
    try:
        if not path.exists():
            raise DataError(f"{path}: there is no such file")
        if path.is_dir():
            raise DataError(f"{path}: this is a folder; give a file")
        if not path.is_file():
            raise DataError(f"{path}: this is not an ordinary file; write its content to a file first")
        if not os.access(path, os.R_OK):
            raise DataError(f"{path}: no permission to read the file")
        if path.stat().st_size == 0:
            raise DataError(f"{path}: the file is empty")
    except (OSError, ValueError) as problem:
        if isinstance(problem, DataError):
            raise
        raise DataError(f"{str(path)!r}: cannot be used as a file name ({problem})") from problem


def refuse_foreign_content(path: Path, kind: str) -> None:
    """Refuse a file whose first bytes say that it is something else than text of the format ``kind``."""
    with _binary(path) as file, _named_problems(path):
        start = file.read(16)
    if not start:
        raise DataError(f"{path}: the file is empty")
    own = b"PAR1" if kind == "parquet" else None
    if own and not start.startswith(own):
        raise DataError(f"{path}: this is not a parquet file")
    for magic, what in _FOREIGN.items():
        if magic != own and start.startswith(magic):
            raise DataError(f"{path}: this is not {kind} but {what}")


@contextmanager
def open_lines(path: Path, encoding: str, *, start_at: int = 0) -> Iterator[Iterator[str]]:
    """The lines of a text file, line ends included, without the Unicode mark at its start.

    Lines end where the file's first line ends: at LF (CR LF included), or at CR in a file without any LF.
    ``start_at`` is the byte at which a line begins, in a file that ``not_in_pieces`` has nothing against.
    """
    with _binary(path) as file:
        with _named_problems(path):
            start = file.read(_CHUNK)
        mark, encoding = _mark(start, encoding)
        _refuse_wide(path, start[len(mark) :], encoding)
        with _named_problems(path):
            newline = _newline(start[len(mark) :], file, encoding)
        file.seek(max(len(mark), start_at))
        with io.TextIOWrapper(file, encoding=encoding, newline=newline) as text:
            yield _decoded(path, text, encoding)


def not_in_pieces(path: Path, encoding: str) -> str | None:
    """Why no line of a text file can be read without all lines before it; None when each can."""
    if path.suffix.lower() == ".gz":
        return "it is compressed as a whole; gunzip it first"
    with _binary(path) as file, _named_problems(path):
        start = file.read(_CHUNK)
        mark, encoding = _mark(start, encoding)
        newline = _newline(start[len(mark) :], file, encoding)
    if "\n".encode(encoding) != b"\n":
        return f"it is written in {encoding}; save it as UTF-8 first"
    if newline != "\n":
        return "its lines end with CR alone; write them with LF first"
    return None


def _decoded(path: Path, text: io.TextIOWrapper, encoding: str) -> Iterator[str]:
    try:
        with _named_problems(path):
            yield from text
    except UnicodeError as problem:
        raise DataError(_undecodable(path, encoding)) from problem


@contextmanager
def _binary(path: Path) -> Iterator[BinaryIO]:
    with open(path, "rb") as plain:
        if path.suffix.lower() == ".gz":
            with gzip.open(plain) as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            yield plain


@contextmanager
def _named_problems(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        with open(path, "rb") as file:
            if file.read(len(_GZIP)) != _GZIP:
                raise DataError(f"{path}: this is not gzip data though its name ends in .gz ({problem})") from problem
        raise DataError(f"{path}: the gzip data end too early or are damaged ({problem})") from problem
    except OSError as problem:
        raise DataError(f"{path}: cannot be read ({problem.strerror or problem})") from problem


def _mark(start: bytes, encoding: str) -> tuple[bytes, str]:
    for mark, name in _MARKS:
        if start.startswith(mark):
            return mark, name
    name = codecs.lookup(encoding).name
    return b"", "utf-8" if name == "utf-8-sig" else name


def _refuse_wide(path: Path, start: bytes, encoding: str) -> None:
    """UTF-16 without a mark reads as UTF-8 without complaint, with a NUL beside every Latin letter."""
    if encoding.startswith(("utf-16", "utf-32")) or not start:
        return
    first, second = (start[i::2].count(0) / max(len(start[i::2]), 1) for i in (0, 1))
    if max(first, second) > 0.5 and min(first, second) < 0.1:
        raise DataError(
            f"{path}: looks like UTF-16 and not {encoding}: save it as UTF-8 or give "
            f"--encoding {'utf-16-be' if first > second else 'utf-16-le'}"
        )


def _newline(start: bytes, rest: BinaryIO, encoding: str) -> str:
    """Where lines end: at CRs in a file without any LF. ``rest`` is what follows ``start``, read up to its first LF."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    text, returns = decoder.decode(start), False
    while text and "\n" not in text:
        more = decoder.decode(rest.read(_CHUNK))
        returns = returns or "\r" in (text if more else text.rstrip("\r"))
        text = more
    return "\r" if returns and not text else "\n"


def _undecodable(path: Path, encoding: str) -> str:
    """Read again from the start to say where the first undecodable byte is."""
    decoder = codecs.getincrementaldecoder(encoding)()
    with _binary(path) as file:
        start = file.read(16)
        mark, _ = _mark(start, encoding)
        chunk, position, line = start[len(mark) :], len(mark), 1
        while True:
            final = not chunk
            try:
                line += decoder.decode(chunk, final).count("\n")
            except UnicodeDecodeError as problem:
                pending = len(problem.object) - len(chunk)
                line += problem.object[: problem.start].decode(encoding, errors="replace").count("\n")
                offset = position - pending + problem.start
                found = problem.object[problem.start : problem.start + 1].hex().upper()
                return (
                    f"{path}: line {line}, byte {offset}: 0x{found} cannot be read as {encoding}; "
                    "save the file as UTF-8 or name its encoding, e.g. --encoding cp1252"
                )
            except UnicodeError as problem:
                return f"{path}: line {line}: cannot be read as {encoding} ({problem}); name its encoding (--encoding)"
            assert not final, "the second reading must fail where the first one did"
            position += len(chunk)
            chunk = file.read(_CHUNK)
