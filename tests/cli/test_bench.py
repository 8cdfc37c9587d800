"""``bench``: a table, all figures as JSON, a picture; wrong options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from budgetformer import BudgetFormerConfig
from budgetformer.cli.sources import texts_of
from budgetformer.data.columns import Columns
from budgetformer.data.files import Reading

from .commands import Here, write_csv


def test_a_bench_prints_a_table_and_writes_figures_and_a_picture(
    here: Here, model: Path, data: Path, tmp_path: Path
) -> None:
    figures, picture = tmp_path / "bench.json", tmp_path / "speed.png"
    options = ("--rows", 12, "--rounds", 2, "--against", "dense,hf", "--latency-texts", 2)
    outcome = here("bench", model, "--data", data, *options, "--json", figures, "--figure", picture)
    assert outcome.code == 0, outcome.err
    assert "own budgets" in outcome.out
    assert "dense BERT, transformers pipeline" in outcome.out
    found = json.loads(figures.read_text(encoding="utf-8"))
    assert found["texts"] == 12
    assert {row["kind"] for row in found["rows"]} == {"ours", "reference", "peer"}
    assert found["threads"] >= 1
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_narrow_terminal_gets_the_figures_that_fit(
    here: Here, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("budgetformer.cli.tables._WIDTH_OF_A_FILE", 80)
    outcome = here(
        "bench", model, "--data", data, "--rows", 4, "--rounds", 1, "--against", "dense", "--latency-texts", 0
    )
    assert outcome.code == 0, outcome.err
    assert "quartiles" not in outcome.out
    assert "A wider terminal shows more figures" in outcome.out
    assert any(line.split()[:2] == ["own", "budgets"] and "%" in line for line in outcome.out.splitlines())


def test_what_cannot_be_measured_is_refused(here: Here, model: Path, data: Path) -> None:
    for options, said in (
        (("--against", "tgi"), "against must name some of dense, hf, onnxruntime"),
        (("--precision", "auto"), "name the formats"),
        (("--rows", 0), "--rows must be at least 1"),
        (("--figure", "speed.txt"), "a picture is written as .png, .svg, .pdf"),
        (("--rounds", 0), "rounds must be at least 1"),
        (("--latency-texts", -5), "latency_texts must be 0 or above"),
    ):
        outcome = here("bench", model, "--data", data, *options)
        assert outcome.code == 2
        assert said in outcome.err


def test_figures_and_picture_are_two_files(here: Here, model: Path, data: Path, tmp_path: Path) -> None:
    both = tmp_path / "both.png"
    assert "both.png" in here.mistake("bench", model, "--data", data, "--json", both, "--figure", both)
    assert not both.exists()


def test_texts_are_taken_evenly_from_the_whole(model: Path, tmp_path: Path) -> None:
    """Where the rows are not a multiple of the texts too: the last stretch is not left out."""
    data = write_csv(tmp_path / "rows.csv", [(str(i), "refund") for i in range(19)])
    asked = {"asked": Columns(text=()), "reading": Reading(), "split": None, "data_folder": None}
    config = BudgetFormerConfig.from_pretrained(model)
    taken = {rows: texts_of(str(data), config=config, rows=rows, **asked) for rows in (10, 19, 30, 1)}
    assert taken[10] == ["0", "1", "3", "5", "7", "9", "11", "13", "15", "17"]
    assert taken[19] == taken[30] == [str(i) for i in range(19)]
    assert taken[1] == ["0"]
