"""The comparison with strong baselines on a small random encoder: stopped once, gone on with, and its report."""

from __future__ import annotations

import json
import runpy
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from budgetformer.reporting.results import read_rows

from .cli.commands import WORDS, environment, start, texts
from .conversion.sources import write_source

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
ROWS = [
    ("tfidf", None),
    ("dense", None),
    ("zero-shot", 2),
    ("budgeted", None),
    ("random", None),
    ("fixed", 1),
    ("fixed", 4),
    ("static", None),
]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """The names of the benchmark, those that it takes from its other files included."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return runpy.run_path(str(BENCHMARKS / "pretrained.py"))
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_the_command_of_a_table_asks_for_what_its_rows_say(script: dict[str, Any]) -> None:
    """Of the project's own rows: read again by the benchmark, the command has the settings that stand in them."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        report = runpy.run_path(str(BENCHMARKS / "pretrained_report.py"))
    finally:
        sys.path.remove(str(BENCHMARKS))
    rows = read_rows(BENCHMARKS.parent / "results" / "pretrained.jsonl")
    found: list[dict[str, Any]] = report["chosen"](rows, "ag_news")
    words = shlex.split(report["command"](found).replace("\\\n", " "))
    given = script["options_of"](script["parser"](None, script["STAGES"]), words[2:])
    for name in ("data", "train_rows", "max_length", "epochs", "dense_epochs", "share_dense", "curve_rows"):
        assert getattr(given, name) == found[0][name], name
    assert given.set == found[0]["warm_start_asked"]
    assert given.precision == found[0].get("training_precision", "float32")
    assert sorted(given.heads) == [row["heads_asked"] for row in found if row["variant"] == "fixed"]
    assert sorted(given.zero_shot) == [row["heads_asked"] for row in found if row["variant"] == "zero-shot"]
    (trained,) = {report["_batch_size"](row) for row in found} - {None}
    assert (given.batch_size or 32) == trained
    assert report["_settings"]({"warm_start_asked": {}}) == report["_settings"](
        {"warm_start_asked": {}, "training_precision": "float32"}
    )


def test_the_most_important_heads_of_all_layers_with_one_in_each(script: dict[str, Any]) -> None:
    importance_LH = torch.tensor([[4.0, 3.0, 0.0], [0.01, 0.02, 0.03], [9.0, 0.1, 0.1]])
    most_important = script["most_important"]
    assert most_important(importance_LH, 3) == [1, 1, 1]
    assert most_important(importance_LH, 4) == [2, 1, 1]  # .6 of the first layer; the second's next has .53
    assert most_important(importance_LH, 5) == [2, 2, 1]
    assert most_important(importance_LH, 9) == [3, 3, 3]


def test_the_difference_of_paired_answers_and_its_error(script: dict[str, Any]) -> None:
    found = script["paired"]({"mistakes": [0, 1, 9]}, {"mistakes": [1, 2, 3, 4, 12]}, range(10))
    assert (found["lost"], found["gained"], found["difference"]) == (3, 2, -0.1)
    per_row = torch.tensor([1.0, 0, -1, -1, -1, 0, 0, 0, 0, 1])
    assert found["standard_error"] == pytest.approx(float(per_row.std(correction=0)) / 10**0.5)
    assert found["mcnemar"] == pytest.approx(1 / 5)


@pytest.mark.slow
def test_a_stopped_comparison_goes_on_and_writes_every_row_once(tmp_path: Path) -> None:
    encoder = write_source(tmp_path / "encoder", "bert", "Model")
    data = tmp_path / "data" / "imdb"
    data.mkdir(parents=True)
    (data / "labels.txt").write_text("neg\npos\n")
    names = list(WORDS)[:2]
    rows = [{"text": text, "label": names.index(label)} for text, label in texts(900) if label in names]
    for split, some in (("train", rows[:400]), ("test", rows[400:])):
        (data / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    results = tmp_path / "rows.jsonl"
    command = ["--data", "imdb", "--work", tmp_path / "work", "--results", results, "--encoder", encoder]
    command += ["--epochs", 6, "--dense-epochs", 1, "--share-dense", "--threads", 1, "--batch-size", 16]
    command += ["--learning-rate", 2e-3, "--max-length", 32, "--heads", 1, 4, "--zero-shot", 2, "--set", "s_max=0.4"]
    entry = [sys.executable, str(BENCHMARKS / "pretrained.py")]
    place = {"BUDGETFORMER_DATA": str(data.parent)}

    first = start(*command, entry=entry, **place)
    budgeted = tmp_path / "work" / "models"
    while first.poll() is None and not list(budgeted.glob("budgeted-*/checkpoints/checkpoint-*")):
        time.sleep(0.02)
    first.send_signal(signal.SIGINT)
    said = first.communicate(timeout=120)[1]
    assert first.returncode == 130, said
    assert "the same command goes on" in said
    assert [(row["variant"], row["heads_asked"]) for row in read_rows(results)] == ROWS[:3]

    for _ in range(2):  # the second start has nothing left to do
        again = start(*command, entry=entry, **place)
        out, said = again.communicate(timeout=300)
        assert again.returncode == 0, said
        assert "budgetformer bench" in out
        found = read_rows(results)
        assert [(row["variant"], row["heads_asked"]) for row in found] == ROWS
    by_name = {row["variant"]: row for row in found}
    own, static, dense = (by_name[name] for name in ("budgeted", "static", "dense"))
    assert own["training"]["sessions"] == 2
    assert own["training"]["settings"]["config"]["s_max"] == 0.4
    assert by_name["random"]["heads_per_layer"] == pytest.approx(own["heads_per_layer"])
    assert own["mean_heads"] <= static["mean_heads"] < own["mean_heads"] + 1 / 3
    assert static["heads_per_layer"] == [round(k) for k in static["heads_per_layer"]]
    assert static["macs"] < static["macs_dense"]
    assert dense["mean_heads"] == 4
    assert dense["accuracy"] > 0.9
    assert own["against_dense"]["difference"] == pytest.approx(own["accuracy"] - dense["accuracy"])
    assert str(tmp_path) not in results.read_text()

    page, images = tmp_path / "docs" / "results.md", tmp_path / "docs" / "img"
    page.parent.mkdir()
    page.write_text("# Before\n\n<!-- from rows: begin -->\nold\n<!-- from rows: end -->\n\nAfter\n")
    report = [sys.executable, BENCHMARKS / "pretrained_report.py", results, "--images", images, "--page", page]
    for _ in range(2):
        subprocess.run(report, check=True, env=environment())
    text = page.read_text()
    assert text.startswith("# Before\n")
    assert text.endswith("\n\nAfter\n")
    assert "old" not in text
    assert text.count("| BudgetFormer, own budgets |") == 1
    assert f"{own['accuracy']:.4f}" in text
    assert "(img/pretrained-imdb.png)" in text
    assert "warm start with s\\_max 0.4; trained in float32" in text
    made_by = text.split("```")[1].replace("\\\n", " ").split()
    assert made_by[:2] == ["python", "benchmarks/pretrained.py"]
    for option in ("--learning-rate", "--max-length", "--heads", "--zero-shot", "--set"):
        place, asked = made_by.index(option), [str(word) for word in command]
        assert made_by[place + 1] == asked[asked.index(option) + 1], option
    assert (images / "pretrained-imdb.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dense-epochs", "3"], "--dense-epochs must lie between 0 and --epochs (3.0), got 3.0"),
        (["--set", "s_maximum=0.3"], "--set s_maximum=0.3: give NAME=VALUE"),
        (["--set", "s_min=0.9"], "s_max must be above 0 and at least s_min (0.9)"),
        (["--set", "gate_learning_rate=0"], "gate_learning_rate must be above 0, got 0"),
        (["--heads", "1", "13"], "--heads must be at most 12, the heads that a layer of the encoder has, got 13"),
        (["--zero-shot", "24"], "--zero-shot must be at most 12, the heads that a layer of the encoder has, got 24"),
        (["--train-rows", "0"], "must be at least 1, got 0"),
        ([], "imdb: there is no such folder"),
    ],
)
def test_wrong_options_are_told_in_one_line_before_any_work(
    script: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: list[str],
    said: str,
) -> None:
    monkeypatch.setenv("BUDGETFORMER_DATA", str(tmp_path))
    command = ["pretrained.py", "--data", "imdb", "--work", str(tmp_path / "work"), "--threads", "1", *options]
    monkeypatch.setattr("sys.argv", command)
    try:
        code = script["main"]()
    except SystemExit as left:
        code = left.code
    assert code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "work").exists()
