"""``budgetformer convert … --prune-unused``: a BudgetFormer folder, a classifier in one run, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..conversion.sources import write_source
from ..conversion.test_pruning import ROWS, close
from ..model_folders import make_folder
from .commands import Here, texts, write_csv


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return close(make_folder(tmp_path_factory.mktemp("cli") / "whole"), {0: [1], 1: [0, 3]}, least=0.55)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "train.csv", ROWS)


def test_a_folder_loses_unused_heads_and_is_used(here: Here, folder: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = here("convert", folder, "--prune-unused", "--data", data, "--validation", data, "--output", out)
    assert done.code == 0, done.err
    kept = json.loads((out / "config.json").read_text(encoding="utf-8"))["kept_heads"]
    assert kept[1] == [1, 2]
    gone, left = 8 - sum(map(len, kept)), ", ".join(str(len(own)) for own in kept)
    assert f"heads: {gone} of 8 were chosen by none of the 60 rows and are dropped; left by layer: {left}" in done.out
    assert "check: 100.00% of the first 60 of these rows choose the same heads as before" in done.out
    assert "on 60 other rows: same heads 100.00%, same label 100.00%, accuracy" in done.out
    assert "% less)" in done.out
    assert here("evaluate", out, "--data", data).code == 0
    assert f"(heads {len(kept[0])} 2 of 4" in here("predict", out, "some text", "--budget", 1.0).out
    assert here("explain", out, "some text", "--output", tmp_path / "heads.html").code == 0
    assert here("cost", "--model", out, "--length", 20, "--rows", 1).code == 0
    again = here("convert", folder, "--prune-unused", "--data", data, "--output", tmp_path / "quiet", "--quiet")
    assert (again.code, again.out) == (0, "")
    assert "nothing to drop" in here.mistake(
        "convert", out, "--prune-unused", "--data", data, "--output", tmp_path / "x"
    )
    assert not (tmp_path / "x").exists()


def test_zero_shot_and_training_drop_heads_too(here: Here, tmp_path: Path) -> None:
    source, data = write_source(tmp_path / "source", "bert"), write_csv(tmp_path / "train.csv", texts(48))
    asked = ["convert", source, "--data", data, "--prune-unused", "--output"]
    done = here(*asked, tmp_path / "floor", "--zero-shot", "--budget", 0.5, "--rows", 8)
    assert done.code == 0, done.err
    assert "keeps 2 of 4 (budget 0.5); the others are dropped for good" in done.out
    done = here(*asked, tmp_path / "out", "--batch-size", 16, "--max-steps", 2, "--device", "cpu")
    assert done.code == 0, done.err
    assert "was chosen by some of the" in done.out or "were chosen by none of the" in done.out


def test_mistakes_end_in_one_line_and_nothing_is_written(here: Here, folder: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    other = write_csv(tmp_path / "other.csv", ROWS[:4], ("words", "kind"))
    broken = make_folder(tmp_path / "broken")
    (broken / "tokenizer.json").unlink()
    for name, content in (("README.md", b"\xff\xfe"), ("training.json", b"[]")):
        edited = make_folder(tmp_path / f"edited-{name}")
        (edited / name).write_bytes(content)
        said = here.mistake("convert", edited, "--prune-unused", "--data", data, "--output", out)
        assert f"{edited / name}" in said
        assert "move it away" in said
        assert not out.exists()
    for arguments, said in (
        ([folder, "--prune-unused", "--data", data, "--seed", 7], "--seed has no effect with a BudgetFormer"),
        ([folder, "--prune-unused", "--data", data, "--precision", "bf16"], "--precision has no effect with a Budget"),
        ([folder, "--prune-unused"], "give them with --data FILE"),
        ([folder, "--data", data], "it is a BudgetFormer already"),
        ([folder, "--prune-unused", "--data", tmp_path / "no.csv"], "there is no such file"),
        ([folder, "--prune-unused", "--data", other, "--text-column", "texts"], "texts"),
        ([folder, "--prune-unused", "--data", data, "--validation", tmp_path / "no.csv"], "no such file of held-out"),
        (
            [folder, "--prune-unused", "--data", data, "--epochs", 2],
            "--epochs has no effect with a BudgetFormer folder",
        ),
        ([folder, "--prune-unused", "--data", data, "--zero-shot"], "--zero-shot has no effect with a BudgetFormer"),
        ([folder, "--prune-unused", "--data", data, "--rows", 3], "--rows has no effect without --zero-shot"),
        ([broken, "--prune-unused", "--data", data], "has no tokenizer.json"),
        ([make_folder(tmp_path / "dense", budgeted=False), "--prune-unused", "--data", data], "full attention"),
    ):
        assert said in here.mistake("convert", *arguments, "--output", out)
        assert not out.exists()
    assert len(here("convert", folder, "--prune-unused", "--data", other, "--output", out).err.splitlines()) == 1
