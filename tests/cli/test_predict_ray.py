"""Mistakes with ``predict --engine ray`` are said before anything is started or written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .commands import Here, texts, write_csv, write_jsonl


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "rows.jsonl", [{"text": text} for text, _ in texts(4)])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--engine", "spark"], "--engine must be here or ray, got 'spark'"),
        (["--workers", "2"], "--workers has no effect without --engine ray"),
        (["--engine", "ray"], "name it with --output"),
        (["--engine", "ray", "--output", "o.jsonl"], "give a name without .jsonl"),
        (["--engine", "ray", "--output", "o", "--workers", "0"], "--workers must be at least 1, got 0"),
        (["--engine", "ray", "--output", "o", "--precision", "auto"], "one precision for all workers"),
        (["--engine", "ray", "--output", "o", "--device", "cuda"], "--device cuda"),
        (["--engine", "ray", "--output", "o", "--resume"], "there is nothing to resume"),
        (["--engine", "ray", "--output", "o", "--text-column", "body"], "there is no column 'body'"),
        (["--engine", "ray", "--output", "o", "--part-records", "9", "--resume"], "--part-records has no effect"),
        (["--engine", "ray", "--output", "o", "--ray-address", "127.0.0.1:1"], "127.0.0.1:1: no cluster listens there"),
        (["--engine", "ray", "--output", "o", "--ray-address", "head"], "HOST:PORT, such as 10.0.0.1:6379"),
    ],
)
def test_options_that_cannot_be_are_refused_and_nothing_is_written(
    here: Here, model: Path, rows: Path, options: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(rows.parent)
    assert words in here.mistake("predict", model, "--input", rows, *options)
    assert list(rows.parent.iterdir()) == [rows]


def test_texts_on_the_command_line_need_no_cluster(here: Here, model: Path) -> None:
    assert "--engine has no effect without --input" in here.mistake("predict", model, "nice", "--engine", "ray")


def test_answers_among_the_records_are_refused(here: Here, model: Path, rows: Path) -> None:
    folder = rows.parent / "in"
    folder.mkdir()
    rows = rows.rename(folder / rows.name)
    command = ("predict", model, "--input", folder, "--output", folder / "o", "--engine", "ray")
    assert "lies in the input folder" in here.mistake(*command)
    assert list(folder.iterdir()) == [rows]


def test_csv_is_refused_with_what_to_do(here: Here, model: Path, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv", texts(4))
    command = ("predict", model, "--input", file, "--output", tmp_path / "o", "--engine", "ray")
    assert "write the file as parquet or jsonl first" in here.mistake(*command)


def test_without_ray_there_is_one_line_with_what_to_install(
    here: Here, model: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    command = ("predict", model, "--input", rows, "--output", rows.parent / "o", "--engine", "ray")
    message = here.mistake(*command)
    assert "pip install '.[scale]' in a checkout" in message
    assert list(rows.parent.iterdir()) == [rows]
