"""Which files are read: one, or all of a folder."""

from __future__ import annotations

from pathlib import Path

from ..data.errors import DataError
from ..data.files import EXTENSIONS, Reading
from ..data.opening import check_regular, refuse_foreign_content
from ..data.stretches import SHARED, check_shared

_PASSED_OVER = (".", "_")
"""Names that begin so are notes of other programs (``_SUCCESS``, ``.part.crc``), not data."""


def input_files(path: Path, reading: Reading) -> list[Path]:
    """The files behind ``path``, by name, each of which can be read in stretches; all of one format.

    Nothing in a folder is left out without a word: what is no such file is refused, but for empty files and for
    names that begin with a dot or an underscore. Raises DataError that names the file and what to do.
    """
    if not path.is_dir():
        return [_checked(path, reading)]
    found = sorted(item for item in path.iterdir() if not item.name.startswith(_PASSED_OVER))
    for item in found:
        if item.is_dir():
            raise DataError(f"{item}: this is a folder in the input folder; give one folder of files, or one file")
        if not item.is_file():  # a link to nothing, or a pipe, whose size is 0
            check_regular(item)
        if reading.format is None and EXTENSIONS.get(item.suffix.lower()) not in (*SHARED, "csv", "tsv"):
            raise DataError(f"{item}: this is neither .parquet nor .jsonl; move it out of the input folder")
    files = [_checked(item, reading) for item in found if item.stat().st_size]
    if not files:
        raise DataError(f"{path}: there is no file with records in this folder")
    other = next((f for f in files if check_shared(f, reading) != check_shared(files[0], reading)), None)
    if other is not None:
        raise DataError(f"{path} holds {files[0].name} and {other.name}: give files of one format at a time")
    return files


def _checked(path: Path, reading: Reading) -> Path:
    check_regular(path)
    refuse_foreign_content(path, check_shared(path, reading))
    return path
