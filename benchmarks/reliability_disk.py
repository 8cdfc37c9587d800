"""The part ``disk`` of ``reliability.py``: the disk is full while ``budgetformer predict`` writes its answers."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from reliability_parts import Row, Setting
from reliability_servers import ENTRY

ROOM = 262_144
"""Bytes that there is room for."""
WAYS = ("disk", "limit")
INSIDE = """
mount -t tmpfs -o size={room} none {disk} || exit 90
"$@" --output {disk}/answers.jsonl; echo "code $?" > {place}/codes
mount -o remount,size=1g {disk} || exit 91
"$@" --output {disk}/answers.jsonl --resume; echo "code $?" >> {place}/codes
cp {disk}/* {place}
"""
"""Run where the mount is seen by nobody else: a disk of that size, which has more room after the first run."""


def disk(setting: Setting) -> Iterator[Row]:
    """Is it said, is what was written kept, and is the resumed output the one of a run that was not disturbed?

    Twice: with a file system that is full (in a name space of its own, so no rights are needed; left out, with a row
    that says so, where the system allows none), and with a limit on the size of a file.
    """
    records = setting.place / "records.csv"
    texts = (setting.texts * (setting.requests // len(setting.texts) + 1))[: setting.requests]
    records.write_text("\n".join(["text", *texts]) + "\n", encoding="utf-8")
    command = [*ENTRY, "predict", str(setting.models[0].folder), "--input", str(records), "--device", "cpu"]
    whole = setting.place / "whole.jsonl"
    done = subprocess.run([*command, "--output", str(whole)], capture_output=True, text=True, check=True)
    for way in WAYS:
        place = setting.place / way
        (place / "disk").mkdir(parents=True)
        codes, said, kept = (_on_a_disk if way == "disk" else _with_a_limit)(command, place)
        answers = place / "answers.jsonl"
        yield {
            "way": way,
            "records": len(texts),
            "bytes": whole.stat().st_size,
            "room": ROOM,
            "possible": bool(codes),
            "exit_codes": codes,
            "said": said.replace(str(place), "DIR"),
            "kept_records": kept,
            "equal": answers.is_file() and answers.read_bytes() == whole.read_bytes(),
            "left_over": sorted(f.name for f in place.iterdir() if f.name.startswith("answers.jsonl.")),
        }
        shutil.rmtree(place)
    assert done.returncode == 0


def _on_a_disk(command: list[str], place: Path) -> tuple[list[int], str, int]:
    script = INSIDE.format(room=ROOM, disk=place / "disk", place=place)
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command]
    try:
        done = subprocess.run(shell, capture_output=True, text=True)
    except FileNotFoundError:
        return [], "there is no unshare", 0
    if not (place / "codes").is_file():
        return [], done.stderr.strip(), 0
    codes = [int(line.split()[1]) for line in (place / "codes").read_text(encoding="utf-8").splitlines()]
    return codes, _reason(done.stderr), _kept(done.stderr)


def _with_a_limit(command: list[str], place: Path) -> tuple[list[int], str, int]:
    command = [*command, "--output", str(place / "answers.jsonl")]
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (ROOM, resource.RLIM_INFINITY))
    first = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)
    second = subprocess.run([*command, "--resume"], capture_output=True, text=True)
    return [first.returncode, second.returncode], _reason(first.stderr), _kept(second.stderr)


def _reason(said: str) -> str:
    return next((line for line in said.splitlines() if line.startswith("error: ")), "")


def _kept(said: str) -> int:
    """Records that the resumed run found complete."""
    lines = [line for line in said.splitlines() if line.startswith("going on after ")]
    return int(lines[0].split()[3].replace(",", "")) if lines else 0
