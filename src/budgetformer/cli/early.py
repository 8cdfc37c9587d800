"""Mistakes that can be seen before torch is imported, so that they are said at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.errors import DataError
from ..data.names import NAMES, is_named
from ..model_folder import check_folder
from .options import refuse

if TYPE_CHECKING:
    from ..data.files import Reading

PRESETS = ("tiny", "small", "base", "paper")


def check_preset(name: str) -> None:
    """Refuse a preset that is not there."""
    if name not in PRESETS:
        raise ValueError(f"--preset must be one of {', '.join(PRESETS)}, got {name!r}")


def check_source(name: str) -> bool:
    """Whether it is a named data set; ValueError when it is neither that nor an existing path."""
    if is_named(name):
        return True
    if not Path(name).exists():
        raise DataError(f"{name}: there is no such file, nor a data set of that name ({', '.join(NAMES)})")
    return False


def check_file(path: str | Path, reading: Reading) -> None:
    """Refuse what is no file of rows, by its name and first bytes."""
    from ..data.files import format_of
    from ..data.opening import check_regular, refuse_foreign_content

    check_regular(Path(path))
    refuse_foreign_content(Path(path), format_of(path, reading))


def check_inputs(folder: Path, data: str | None, reading: Reading) -> list[Path]:
    """Refuse a model folder and data that cannot be used; all files that are read, so that no output replaces one."""
    if data is None or check_source(data):
        return model_files(check_folder(folder))
    check_file(data, reading)
    return [*model_files(check_folder(folder)), Path(data)]


def check_training_source(
    names: Sequence[str],
    *,
    reading: dict[str, Any],
    columns: dict[str, Any],
    validation: bool,
    data_folder: Path | None,
) -> bool:
    """Whether training uses a named set; options (by name) that then have no effect are refused."""
    named = [name for name in names if check_source(name)]
    if named and len(names) > 1:
        raise DataError(f"--train takes several files or one data set: {named[0]} cannot be joined with others")
    if named:
        refuse(columns, f"with the data set {named[0]}, whose columns are known")
        if not validation:
            refuse(reading, f"with the data set {named[0]}, whose format is known")
    else:
        refuse({"--data-folder": data_folder}, "with a file, it is for the data sets by name")
    return bool(named)


def model_files(folder: Path) -> list[Path]:
    """What lies in a model folder, so that no output replaces it."""
    return list(folder.iterdir()) if folder.is_dir() else []
