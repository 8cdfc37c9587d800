"""``cost`` and ``doctor``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ..model_folders import make_folder
from .commands import Here


def cost(here: Here, tmp_path: Path, *options: object) -> list[dict[str, Any]]:
    outcome = here("cost", *options, "--json", tmp_path / "cost.json")
    assert outcome.code == 0, outcome.err
    return json.loads((tmp_path / "cost.json").read_text())["results"]


def test_the_papers_figures_come_out(here: Here, tmp_path: Path) -> None:
    options = ["--preset", "paper", "--length", "512", "--rows", "25000", "--budget", "0.601", "--accounting", "paper"]
    full, budgeted = cost(here, tmp_path, *options)
    assert f"{full['macs']:.2e}" == "1.61e+14"
    assert f"{budgeted['macs']:.2e}" == "1.45e+14"
    assert full["grams"] == pytest.approx(0.5376, abs=1e-4)
    assert budgeted["ratio"] == pytest.approx(budgeted["macs"] / full["macs"])


def test_both_accountings_are_shown_and_the_fit_is_called_one(here: Here) -> None:
    out = here("cost", "--preset", "tiny", "--length", "64", "--rows", "10", "--budget", "0.25").out
    assert "executed:" in out
    assert "paper:" in out
    assert "a fit" in out


def test_the_screen_has_one_notation_of_multiply_adds_and_no_more_digits_than_are_known(here: Here) -> None:
    out = here("cost", "--preset", "paper", "--length", "512", "--rows", "25000", "--budget", "0.601").out
    assert "145.18 T" in out
    assert "0.484" in out
    assert "0.4839" not in out
    assert "e+" not in out


def test_without_a_budget_every_head_count_has_a_row(here: Here, tmp_path: Path, model: Path) -> None:
    rows = cost(here, tmp_path, "--model", model, "--length", "32", "--rows", "10", "--accounting", "executed")
    assert [row["heads"] for row in rows] == [8, *range(1, 9)]
    assert [row["macs"] for row in rows[1:]] == sorted(row["macs"] for row in rows[1:])


def test_full_attention_has_one_row(here: Here, tmp_path: Path, dense_model: Path) -> None:
    rows = cost(here, tmp_path, "--model", dense_model, "--length", "32", "--rows", "1", "--accounting", "paper")
    assert [row["attention"] for row in rows] == ["full"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--preset", "huge"], "tiny, small"),
        (["--preset", "tiny", "--budget", "2"], "(0, 1]"),
        (["--preset", "tiny", "--accounting", "mine"], "executed, paper"),
        (["--preset", "tiny", "--classes", "0"], "--classes"),
        (["--preset", "tiny", "--classes", "9" * 30], "num_labels must be at most"),
        (["--preset", "tiny", "--length", "100000000"], "--length must be at most 10,000,000"),
        (["--preset", "tiny", "--model", "x"], "one of them"),
        (["--model", "x", "--classes", "3"], "--classes has no effect"),
        (["--model", "nowhere"], "nowhere does not exist"),
    ],
)
def test_options_that_cannot_work_are_refused(here: Here, options: list[str], words: str) -> None:
    assert words in here.mistake("cost", "--length", "64", "--rows", "5", *options)


def test_a_length_beyond_the_models_limit_is_refused(here: Here, model: Path) -> None:
    assert "at most 32" in here.mistake("cost", "--model", model, "--length", "33", "--rows", "5")


def test_the_limit_is_where_texts_are_cut_however_many_positions_there_are(here: Here, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "model", max_position_embeddings=128, model_max_length=24)
    assert "at most 24" in here.mistake("cost", "--model", folder, "--length", "25", "--rows", "5")
    assert cost(here, tmp_path, "--model", folder, "--length", "24", "--rows", "5")


def test_the_doctor_names_versions_and_what_is_missing(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("budgetformer.cli.doctor.EXTRAS", (("demo", "no-such-package", "a test"),))
    monkeypatch.setenv("BUDGETFORMER_DATA", "/nowhere")
    outcome = here("doctor")
    assert outcome.code == 0
    assert "transformers" in outcome.out
    assert "pip install '.[demo]' in a checkout" in outcome.out
    assert "missing: /nowhere/imdb" in outcome.out
