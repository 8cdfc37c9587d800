"""Other runs, locales, names, signals and closed streams around a command."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from budgetformer.locking import alone_in

from .commands import ENTRY, Here, read_jsonl, start, texts, there, write_csv, write_jsonl


def test_a_file_that_another_run_writes_is_left_alone(here: Here, model: Path, tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", [{"text": "nice"}] * 3)
    arguments = ["predict", model, "--input", file, "--output", tmp_path / "o.jsonl"]
    partial = tmp_path / "o.jsonl.partial"
    partial.write_text("its rows")
    with alone_in(partial):
        assert "another run is writing" in here.mistake(*arguments, "--overwrite")
    assert partial.read_text() == "its rows"
    assert here(*arguments, "--overwrite").code == 0
    assert len(read_jsonl(tmp_path / "o.jsonl")) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_texts_are_utf_8_in_any_locale_and_names_must_be(here: Here, model: Path, tmp_path: Path) -> None:
    text = "hours ü ☃"
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert there("predict", model, text, "--json", **plain).rows == there("predict", model, text, "--json").rows
    odd = tmp_path / os.fsdecode(b"caf\xe9.csv")
    fine = tmp_path / "fine.csv"
    for file in (odd, fine):
        write_csv(file, texts(6))
    for arguments in (
        ["predict", model, "--input", odd],
        ["evaluate", model, "--data", odd],
        ["train", "--train", odd, "--output", tmp_path / "run"],
        ["train", "--train", fine, "--output", odd],
        ["cost", "--preset", "tiny", "--length", "9", "--rows", "9", "--json", odd],
    ):
        assert "not valid UTF-8" in here.mistake(*arguments)


def test_a_terminated_run_says_what_is_kept_and_goes_on(here: Here, model: Path, tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text, _ in texts(30_000)])
    arguments = ["predict", model, "--input", file, "--output", tmp_path / "o.jsonl"]
    process = start(*arguments, TMPDIR=str(tmp_path))
    partial = tmp_path / "o.jsonl.partial"
    while process.poll() is None and not (partial.exists() and partial.stat().st_size):
        time.sleep(0.02)
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "stopped after" in err
    assert "--resume" in err


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_streams_that_are_closed_do_not_matter(model: Path, data: Path, closed: str) -> None:
    for command in (["predict", model, "nice"], ["evaluate", model, "--data", data]):
        outcome = there(*command, entry=["bash", "-c", f'exec "$@" {closed}', "bash", *ENTRY])
        assert outcome.code == 0, outcome.err
