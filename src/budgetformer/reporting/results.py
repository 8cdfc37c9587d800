"""Results as JSON rows, one a line, and the environment that they were measured in."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ..version import __version__


def append_row(path: str | Path, row: Mapping[str, Any]) -> None:
    """Append ``row`` as one line of JSON and wait until it is on the disk.

    The line is written in one call at the end of the file, so that several processes can share it. A line that was
    cut off before stays a line of its own, which ``read_rows`` names. NumPy numbers and arrays become JSON.

    Raises ValueError for a value that JSON does not have (NaN, infinity, other objects), naming its field; OSError
    when the line did not fit on the disk.
    """
    path = Path(path)
    line = json.dumps(_plain(row, ""), ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(handle).st_size
        if size:
            os.lseek(handle, size - 1, os.SEEK_SET)
            line = line if os.read(handle, 1) == b"\n" else b"\n" + line
        written = os.write(handle, line)
        if written < len(line):
            raise OSError(f"{path}: only {written} of {len(line)} bytes of the new row were written; make room")
        os.fsync(handle)
    finally:
        os.close(handle)


def read_rows(path: str | Path, *, check: Callable[[dict[str, Any]], str | None] | None = None) -> list[dict[str, Any]]:
    """All rows in order. Raises ValueError that names file and line for a line that is not a whole JSON object, or of
    which ``check`` says what is wrong."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"results {path} {'is a folder' if path.is_dir() else 'does not exist'}")
    rows = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except RecursionError as error:
            raise ValueError(f"{path}, line {number} is nested too deeply: {_start(line)}; delete this line") from error
        except ValueError as error:
            cut = number == len(lines)
            reason = "was cut off while it was written" if cut else f"is not JSON ({error})"
            raise ValueError(f"{path}, line {number} {reason}: {_start(line)}; delete this line") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number} is not a JSON object: {_start(line)}; delete this line")
        if check is not None and (wrong := check(row)):
            raise ValueError(f"{path}, line {number}: {wrong}; mend or delete this line")
        rows.append(row)
    return rows


def environment() -> dict[str, Any]:
    """Where and with what a result is measured, as JSON values.

    ``commit`` and ``dirty`` (tracked files outside ``results/`` were changed) are None outside a checkout of this
    project. ``cores`` are those that this process may use, ``load`` how many were wanted by all programs in the last
    minute: above ``cores``, times are not to be trusted. ``memory`` is that of the machine in bytes. Of torch, None
    before it is imported: ``threads`` that one operation uses, ``interop_threads``, the ``vector`` instructions that
    it uses (such as AVX512), ``dtype`` of numbers where a row names no precision, ``cuda`` that it was built for.
    """
    torch = sys.modules.get("torch")
    gpu = torch is not None and torch.cuda.is_available()
    root = _checkout()
    changes = None if root is None else _git(root, "status", "--porcelain", "-uno", "--", ".", ":(exclude)results")
    return {
        "commit": None if root is None else _git(root, "rev-parse", "HEAD"),
        "dirty": None if changes is None else bool(changes),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "budgetformer": __version__,
        "python": platform.python_version(),
        "torch": _version("torch"),
        "transformers": _version("transformers"),
        "system": platform.platform(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": _asked(lambda: os.getloadavg()[0]),
        "memory": _asked(lambda: os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")),
        "threads": None if torch is None else torch.get_num_threads(),
        "interop_threads": None if torch is None else torch.get_num_interop_threads(),
        "vector": None if torch is None else torch.backends.cpu.get_cpu_capability(),
        "dtype": None if torch is None else str(torch.get_default_dtype()).removeprefix("torch."),
        "cuda": None if torch is None else torch.version.cuda,
        "gpu": torch.cuda.get_device_name() if torch is not None and gpu else None,
        "gpu_memory": torch.cuda.mem_get_info()[1] if torch is not None and gpu else None,
    }


def _asked(question: Callable[[], float]) -> float | None:
    """The answer of the system, None where it has none."""
    try:
        return question()
    except (OSError, ValueError, AttributeError):
        return None


def _plain(value: Any, field: str) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(item, f"{field}.{name}" if field else str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{field}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"field {field} of the row is {value}, which JSON does not have; give None")
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise ValueError(
        f"field {field} of the row is a {type(value).__name__}, which JSON does not have; give a number or text"
    )


def _start(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", errors="replace"))


def _checkout() -> Path | None:
    """The root of the checkout that tracks this very file; another project's checkout around it does not count."""
    here = Path(__file__).resolve()
    root = _git(here.parent, "rev-parse", "--show-toplevel")
    if root is None or _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None
    return Path(root)


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=20, check=True, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
