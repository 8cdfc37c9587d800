"""The folder of answers: one file for each part of the records, and a manifest that says what they are made from.

A part appears under its name when it is whole, so whatever has a name is done. The manifest is there before the first
part, so parts of another model, input or setting are never mixed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data.stretches import Stretch
from ..data.unicode import require_writable_name
from ..resuming import differences

MANIFEST, ASIDE = "_manifest.json", ".partial"
FORMAT = 1
_UNFINISHED = re.compile(rf"part-\d{{7,}}\.jsonl\.[0-9a-f]+{re.escape(ASIDE)}")
_OURS = re.compile(rf"part-\d{{7,}}\.jsonl|{_UNFINISHED.pattern}")
"""Only what a run wrote itself is ever removed."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The records of ``stretch``, whose answers go into the file with this ``number``."""

    number: int
    stretch: Stretch

    @property
    def name(self) -> str:
        """The file of the answers; sorted by name, the files are in the order of the records."""
        return f"part-{self.number:07d}.jsonl"


@dataclass(frozen=True, kw_only=True)
class PartFolder:
    """Where the parts of a run lie."""

    path: Path

    @property
    def manifest(self) -> Path:
        """What the parts are made from."""
        return self.path / MANIFEST

    def check(self, *, resume: bool, overwrite: bool) -> None:
        """Refuse, before any work, a folder that this run may not write to. Raises ValueError that says what to do."""
        path = self.path
        require_writable_name(path)
        if resume and overwrite:
            raise ValueError("--resume goes on with a stopped run and --overwrite starts anew: give one of them")
        if path.suffix.lower() in (".jsonl", ".ndjson", ".csv", ".tsv"):
            raise ValueError(f"{path}: --engine ray writes a folder of parts; give a name without {path.suffix}")
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file; --engine ray writes a folder of parts")
        if not path.parent.is_dir():
            raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
        if not os.access(path if path.is_dir() else path.parent, os.W_OK):
            raise ValueError(f"{path}: no permission to write there")
        if resume:
            if self.read()["complete"]:
                raise ValueError(f"{path} is complete: there is nothing to resume; --overwrite starts anew")
            return
        content = sorted(item.name for item in path.iterdir()) if path.is_dir() else []
        if not content:
            return
        if not self.manifest.is_file():
            raise ValueError(f"{path} holds something else ({content[0]}, …); give a new or empty folder")
        complete = self.read()["complete"]  # a manifest of another program says that the folder is not ours
        if not overwrite:
            done = "holds the answers of a run" if complete else "is left from a stopped run"
            advice = "" if complete else "--resume to go on with it, or "
            raise ValueError(f"{path} {done}; give {advice}--overwrite to start anew, or another name")

    def begin(self, settings: dict[str, Any], stretches: Iterable[Stretch]) -> list[Part]:
        """The parts of a new run; what an earlier one left is removed."""
        self.path.mkdir(exist_ok=True)
        parts = [Part(number=number, stretch=stretch) for number, stretch in enumerate(stretches)]
        if self.manifest.exists():
            self._write_manifest({}, [], complete=False)  # fits no run, should this one be broken off right here
        self._remove(_OURS)
        self._write_manifest(settings, parts, complete=False)
        return parts

    def resumed(self, settings: dict[str, Any]) -> list[Part]:
        """The parts of the run that is gone on with. Raises ValueError when it was another one."""
        before = self.read()
        changed = differences(before["settings"], settings)
        if changed:
            raise ValueError(
                f"--resume goes on with the same run, but other than in {self.manifest} is now: {changed}; "
                "give the same input, model and options, or start anew with --overwrite"
            )
        self._remove(_UNFINISHED)
        return _parts_of(before)

    def missing(self, parts: Sequence[Part]) -> list[Part]:
        """Those that have no file yet."""
        there = {entry.name for entry in os.scandir(self.path)}
        return [part for part in parts if part.name not in there]

    def finish(self, settings: dict[str, Any], parts: Sequence[Part]) -> None:
        """Say in the manifest that the run is complete. Raises RuntimeError when a part has no file."""
        missing = self.missing(parts)
        if missing:
            raise RuntimeError(f"{self.path}: {missing[0].name} and {len(missing) - 1} other parts are missing")
        self._remove(_UNFINISHED)
        self._write_manifest(settings, parts, complete=True)

    def _remove(self, names: re.Pattern[str]) -> None:
        for left in self.path.iterdir():
            if names.fullmatch(left.name):
                left.unlink()

    def read(self) -> dict[str, Any]:
        """The manifest. Raises ValueError when there is none, or none that can be used."""
        if not self.manifest.is_file():
            raise ValueError(f"{self.path}: there is nothing to resume; start without --resume")
        try:
            content = json.loads(self.manifest.read_text(encoding="utf-8"))
            known = content["format"] == FORMAT and isinstance(content["settings"], dict)
            content["complete"], _parts_of(content)
        except (ValueError, KeyError, TypeError, IndexError) as problem:
            raise ValueError(f"{self.manifest} cannot be read ({problem}); start anew in another folder") from problem
        if not known:
            raise ValueError(f"{self.manifest} was written by another version; start anew in another folder")
        return content

    def _write_manifest(self, settings: dict[str, Any], parts: Sequence[Part], *, complete: bool) -> None:
        files = list(dict.fromkeys(part.stretch.path for part in parts))
        places = {name: place for place, name in enumerate(files)}
        rows = [[places[s.path], s.first, s.records, s.start_at, s.line] for s in (part.stretch for part in parts)]
        content = {
            "format": FORMAT,
            "complete": complete,
            "records": sum(part.stretch.records for part in parts),
            "settings": _plain(settings),
            "files": files,
            "parts": rows,
        }
        write_whole(self.manifest, [json.dumps(content, ensure_ascii=False) + "\n"])


def write_whole(path: Path, lines: Iterable[str]) -> None:
    """A text file that is there whole or not at all, also after a power cut; the last of several writers wins.

    Raises OSError that names the file.
    """
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}{ASIDE}")
    try:
        with open(aside, "x", encoding="utf-8", newline="") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as problem:
        raise OSError(problem.errno, f"cannot write {path} ({problem.strerror or problem})") from problem
    finally:
        aside.unlink(missing_ok=True)


def _parts_of(manifest: dict[str, Any]) -> list[Part]:
    files = manifest["files"]
    return [
        Part(
            number=number,
            stretch=Stretch(path=files[place], first=first, records=records, start_at=start_at, line=line),
        )
        for number, (place, first, records, start_at, line) in enumerate(manifest["parts"])
    ]


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(settings))
