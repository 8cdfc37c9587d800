"""``budgetformer convert``: from a model folder to one that evaluate and predict take."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..conversion.sources import LABELS, change_config, write_source
from .commands import Here, texts, write_csv


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("convert") / "source", "roberta")


def test_a_classifier_is_converted_and_used(here: Here, source: Path, tmp_path: Path) -> None:
    done = here("convert", source, "--output", tmp_path / "out")
    assert done.code == 0, done.err
    for said in (
        "RoBERTa classifier: 3 layers of 4 heads, width 32, at most 48 tokens",
        "labels: refund, praise, Übrig / other",
        "heads: all are kept, so the answers are those of the source",
        f"budgetformer evaluate {tmp_path / 'out'}",
    ):
        assert said in done.out
    answer = here("predict", tmp_path / "out", "some text")
    assert answer.out.startswith(LABELS)
    assert "(heads 4 4 4 of 4, " in answer.out


def test_zero_shot_ranks_and_keeps_a_share(here: Here, source: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "train.csv", texts(30))
    done = here(
        "convert", source, "--output", tmp_path / "out", "--zero-shot", "--data", data, "--budget", 0.5, "--rows", 12
    )
    assert done.code == 0, done.err
    assert "heads: ranked on 12 rows; every layer keeps 2 of 4 (budget 0.5)" in done.out
    measured = here("evaluate", tmp_path / "out", "--data", data)
    assert measured.code == 0, measured.err
    assert "2.00 of 4" in measured.out


def test_with_data_the_budgets_are_trained_and_the_run_can_be_gone_on_with(
    here: Here, source: Path, tmp_path: Path
) -> None:
    data = write_csv(tmp_path / "train.csv", texts(48))
    command = ["convert", source, "--data", data, "--output", tmp_path / "out", "--batch-size", 8, "--device", "cpu"]
    done = here(*command, "--max-steps", 4, "--eval-steps", 2)
    assert done.code == 0, done.err
    assert "validation rows" in done.out
    assert "lies above the wanted 0.35: train longer" in done.out
    assert "--resume" in here.mistake(*command, "--max-steps", 6)
    assert "going on from" in here(*command, "--max-steps", 6, "--eval-steps", 2, "--resume").err
    measured = here("evaluate", tmp_path / "out", "--data", data)
    assert measured.code == 0, measured.err


def test_mistakes_end_in_one_line_and_nothing_is_written(here: Here, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    data = write_csv(tmp_path / "train.csv", [("a text", "other"), ("b text", "refund")])
    less = write_csv(tmp_path / "less.csv", [("a text", "praise"), ("b text", "refund")] * 8)
    encoder = write_source(tmp_path / "encoder", "bert", "Model")
    bare = write_source(tmp_path / "bare", "bert", with_tokenizer=False)
    other = change_config(write_source(tmp_path / "albert", "bert"), model_type="albert")
    for arguments, said in (
        ([other], "a model of type 'albert' cannot be converted"),
        ([tmp_path], "holds no model: it has no config.json"),
        ([source, "--zero-shot"], "give them with --data FILE"),
        ([source, "--data", data], "label 'other' (1 row) is none of the classes"),
        ([source, "--data", less], "rows of 2 of the classifier's 3 classes, none of 'Übrig / other'"),
        ([source, "--data", less, "--max-length", 99], "max_length must be at most 48"),
        ([encoder, "--data", less], "is an encoder without labels"),
        ([bare, "--data", less], "has no tokenizer"),
        ([source, "--device", "cpu"], "--device has no effect without --data"),
        ([source, "--zero-shot", "--data", less, "--device", "nonsense"], "device must be auto, cpu, cuda"),
        ([source, "--zero-shot", "--data", less, "--device", "cuda:99"], "device 'cuda:99' is not there"),
        ([source, "--epochs", 2], "--epochs has no effect without --data"),
        ([source, "--zero-shot", "--data", less, "--epochs", 2], "--epochs has no effect with --zero-shot"),
        ([source, "--budget", 0.5], "--budget has no effect without --zero-shot"),
        ([source, "--zero-shot", "--data", data, "--budget", 2], "--budget must lie in"),
        ([source, "--zero-shot", "--data", data, "--rows", 0], "rows must be at least 1"),
        ([source, "--zero-shot", "--data", data], "label 'other' (1 row) is none of the classes"),
        ([source, "--zero-shot", "--data", tmp_path / "no.csv"], "there is no such file"),
        ([source, "--zero-shot", "--data", data, "--text-column", "body"], "body"),
        ([source, "--zero-shot", "--data", "ag_news", "--text-column", "x"], "--text-column has no effect"),
    ):
        assert said in here.mistake("convert", *arguments, "--output", out)
        assert not out.exists()
    out.mkdir()
    (out / "mine").write_text("x", encoding="utf-8")
    assert "is not empty (mine, …)" in here.mistake("convert", source, "--output", out)
    assert [p.name for p in out.iterdir()] == ["mine"]
