"""``bench``: a table, all figures as JSON, a picture; wrong options."""

from __future__ import annotations

import json
from pathlib import Path

from .commands import Here


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


def test_what_cannot_be_measured_is_refused(here: Here, model: Path, data: Path) -> None:
    for options, said in (
        (("--against", "tgi"), "against must name some of dense, hf, onnxruntime"),
        (("--precision", "auto"), "name the formats"),
        (("--rows", 0), "--rows must be at least 1"),
        (("--figure", "speed.txt"), "a picture is written as .png, .svg, .pdf"),
        (("--rounds", 0), "rounds must be at least 1"),
    ):
        outcome = here("bench", model, "--data", data, *options)
        assert outcome.code == 2
        assert said in outcome.err
