"""A file of records that can be gone on with when its writing was stopped at any point.

It is written as NAME.partial and gets its name when complete. NAME.partial.json beside it says what it is made from.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from ..locking import alone_in
from ..resuming import differences
from .writing import partial_name, write_json


@dataclass(frozen=True, kw_only=True)
class _End:
    """Bytes and records up to the end of the last complete record."""

    position: int
    records: int


class ResumableFile:
    """A file under its final ``path``.

    Args:
        settings: what a resumed run must share, as JSON values.
        header: the first record is one. quoted: cells may be between quote marks and so hold line ends.
    """

    def __init__(self, path: Path, *, settings: dict[str, Any], header: bool, quoted: bool) -> None:
        self.path, self.partial = path, partial_name(path)
        self.sidecar = self.partial.with_name(f"{self.partial.name}.json")
        self.settings = json.loads(json.dumps(settings))
        self.header, self.quoted = header, quoted
        self.records = 0
        self.is_new = True

    @staticmethod
    def check(path: Path, *, resume: bool, overwrite: bool) -> None:
        """Refuse to resume nothing, and to replace a stopped run without being told."""
        partial = partial_name(path)
        if resume and overwrite:
            raise ValueError("--resume goes on with a stopped run and --overwrite starts anew: give one of them")
        if resume and path.exists() and not partial.is_file():
            raise ValueError(f"{path} is complete: there is nothing to resume; --overwrite starts anew")
        if resume and not partial.is_file():
            raise ValueError(f"{partial}: there is nothing to resume; start without --resume")
        if path.exists() and not (resume or overwrite):
            raise ValueError(f"{path} exists; give --overwrite to replace it, or another name")
        if partial.exists() and not (resume or overwrite):
            raise ValueError(
                f"{partial} is left from a stopped run; give --resume to go on with it, or --overwrite to start anew"
            )

    @contextmanager
    def open(self, *, resume: bool, overwrite: bool = False) -> Iterator[TextIO]:
        """The file, behind its last complete record. ``records`` says how many there are.

        When the block ends the file gets its name; when it fails, what is there stays for ``--resume``.
        """
        if resume:
            self._check_settings()
        elif self.partial.exists():
            with alone_in(self.partial):
                self.partial.unlink()
                self.sidecar.unlink(missing_ok=True)
        self.partial.touch()
        with alone_in(self.partial):
            if self.path.exists() and not (resume or overwrite):  # another run may have ended in the meantime
                self.partial.unlink()
                raise ValueError(f"{self.path} exists; give --overwrite to replace it, or another name")
            if resume:
                end = self._last_complete()
                os.truncate(self.partial, end.position)
                self.records = max(0, end.records - self.header)
                self.is_new = end.records == 0
            yield from self._written(resume=resume)
            os.replace(self.partial, self.path)
            self.sidecar.unlink(missing_ok=True)

    def _written(self, *, resume: bool) -> Iterator[TextIO]:
        try:
            if not resume:
                write_json(self.sidecar, self.settings)
            with open(self.partial, "a", encoding="utf-8", newline="") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
        except OSError as problem:
            if not os.path.exists(self.sidecar):  # nor can it be, with too long a name
                self.partial.unlink(missing_ok=True)
                raise
            raise OSError(
                f"cannot write {self.partial} ({problem.strerror or problem}); what is complete is kept: make room and "
                "go on with the same command and --resume"
            ) from problem
        except Exception:
            if self._last_complete().records <= self.header:
                self.partial.unlink(missing_ok=True)
                self.sidecar.unlink(missing_ok=True)
            raise

    def _check_settings(self) -> None:
        try:
            before = json.loads(self.sidecar.read_text(encoding="utf-8"))
            if not isinstance(before, dict):
                raise ValueError("no JSON object")
        except (OSError, ValueError, RecursionError) as problem:
            raise ValueError(
                f"{self.sidecar} cannot be read, so it is not known what {self.partial} is made from; "
                "start anew with --overwrite"
            ) from problem
        changed = differences(before, self.settings)
        if changed:
            raise ValueError(
                f"--resume goes on with the same run, but other than in {self.sidecar} is now: {changed}; "
                "give the same input, model and options, or start anew with --overwrite"
            )

    def _last_complete(self) -> _End:
        position = complete = records = marks = 0
        with open(self.partial, "rb") as file:
            for line in file:
                position += len(line)
                marks += line.count(b'"') if self.quoted else 0
                if line.endswith(b"\n") and marks % 2 == 0:
                    complete, records = position, records + 1
        return _End(position=complete, records=records)
