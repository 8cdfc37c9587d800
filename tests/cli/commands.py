"""Runs the command line: in this process, or as a user starts it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import budgetformer_command
from budgetformer.cli import run

ENTRY = [sys.executable, "-c", "from budgetformer_command import main; main()"]
WORDS = {
    "refund": "money back return charge cancel bill",
    "praise": "great lovely thanks super happy nice",
    "Übrig / other": "hours where open address door phone",
}
TRAINING = ["--preset", "tiny", "--max-steps", "4", "--max-length", "32", "--vocab-size", "200", "--device", "cpu"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Exit code and what was said where."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class Here:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> Outcome:
        self.capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        said = self.capsys.readouterr()
        return Outcome(code=code, out=said.out, err=said.err)

    def mistake(self, *arguments: object) -> str:
        """The one line that a user's mistake is answered with."""
        outcome = self(*arguments)
        assert outcome.code == 2, outcome
        *before, last = outcome.err.splitlines()
        assert last.startswith("error: "), outcome.err
        assert not any(line.startswith(("error", "Traceback")) for line in before), outcome.err
        return last


def environment(**changes: str) -> dict[str, str]:
    """This process's environment with the package's source first."""
    source = str(Path(budgetformer_command.__file__).parent)
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path} | changes


def start(*arguments: object, entry: list[str] = ENTRY, **changes: str) -> subprocess.Popen[str]:
    """A process of its own, which hears Ctrl-C even where the tests themselves run in the background."""
    command = [*entry, *(str(argument) for argument in arguments)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment(**changes),
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def there(*arguments: object, **options: Any) -> Outcome:
    """A process of its own, waited for."""
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=300)
    return Outcome(code=process.returncode, out=out, err=err)


def texts(number: int, *, seed: int = 0) -> list[tuple[str, str]]:
    """Texts of words that give their label away."""
    generator = random.Random(seed)
    labels = [list(WORDS)[i % len(WORDS)] for i in range(number)]
    return [(" ".join(generator.choices(WORDS[label].split(), k=generator.randint(3, 12))), label) for label in labels]


def write_csv(path: Path, rows: list[tuple[str, ...]], header: tuple[str, ...] | None = ("text", "label")) -> Path:
    """Cells are written as they are, so they must hold no comma."""
    lines = [",".join(row) for row in ([header] if header else []) + rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
