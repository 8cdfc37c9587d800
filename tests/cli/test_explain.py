"""``explain``: page, picture and numbers of any model folder, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from .commands import Here

TEXT = "money back please, great thanks"


def test_a_page_and_the_numbers_are_written(here: Here, model: Path, tmp_path: Path) -> None:
    output, figures = tmp_path / "heads.html", tmp_path / "heads.json"
    outcome = here("explain", model, TEXT, "--output", output, "--json", figures, "--heads", 2, "--budget", 0.25)
    assert outcome.code == 0, outcome.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["heads.html", "heads.json"]
    found = json.loads(figures.read_text(encoding="utf-8"))
    answer = here("predict", model, TEXT, "--json", "--budget", 0.25).rows[0]
    assert found["label"] == answer["label"]
    assert [layer["heads_kept"] for layer in found["layers"]] == answer["heads"] == [2] * 4
    assert all(sum("map" in head for head in layer["heads"]) == 2 for layer in found["layers"])
    page = output.read_text(encoding="utf-8")
    assert page.count("<img ") == 5
    assert TEXT in page
    assert "Heads that ran" in outcome.out
    assert f"explanation: {output}" in outcome.out
    assert "tokens of the text are shown" in outcome.out


def test_without_output_the_table_is_all(
    here: Here, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = here("explain", model, TEXT)
    assert outcome.code == 0, outcome.err
    assert "Heads that ran" in outcome.out
    assert "in the pictures" not in outcome.out
    assert list(tmp_path.iterdir()) == []


def test_a_pair_is_explained_as_a_picture(here: Here, pair_model: Path, tmp_path: Path) -> None:
    output = tmp_path / "heads.PNG"
    outcome = here("explain", pair_model, "great thanks", "--pair", "close the door", "--output", output, "--heads", 2)
    assert outcome.code == 0, outcome.err
    with Image.open(output) as image:
        assert image.format == "PNG"


def test_full_attention_can_be_explained(here: Here, dense_model: Path, tmp_path: Path) -> None:
    output = tmp_path / "heads.html"
    outcome = here("explain", dense_model, TEXT, "--output", output, "--max-budget", 0.5, "--heads", 1)
    assert outcome.code == 0, outcome.err
    assert "--max-budget has no effect" in outcome.err
    assert "full attention" in output.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["", "👩‍👩‍👧 你好 שלום نص", "a <img src=x onerror=alert(1)> b \udce9"])
@pytest.mark.parametrize("name", ["heads.html", "heads.png"])
def test_any_text_gives_a_whole_file(here: Here, model: Path, tmp_path: Path, text: str, name: str) -> None:
    figures = tmp_path / "heads.json"
    outcome = here("explain", model, "--output", tmp_path / name, "--json", figures, "--heads", 1, "--", text)
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    assert b"<img src=x" not in (tmp_path / name).read_bytes()
    assert json.loads(figures.read_text(encoding="utf-8"))["tokens"]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_text_that_was_cut_says_so(here: Here, model: Path, tmp_path: Path) -> None:
    outcome = here("explain", model, "money " * 90, "--output", tmp_path / "heads.html", "--heads", 1)
    assert "cut to 32 tokens" in outcome.out
    assert "8 are left out" in outcome.out
    assert "it was cut to 32 tokens" in (tmp_path / "heads.html").read_text(encoding="utf-8")
    outcome = here("explain", model, "money " * 90, "--output", tmp_path / "h.png", "--heads", 1, "--tokens", 32)
    assert "all 32 tokens" in outcome.out


def test_mistakes_are_one_line_and_write_nothing(here: Here, model: Path, pair_model: Path, tmp_path: Path) -> None:
    output = tmp_path / "heads.html"
    wrong = {
        "choose one of these": (model, TEXT, "--output", tmp_path / "heads.pdf"),
        "--heads must be at least 1": (model, TEXT, "--output", output, "--heads", 0),
        "--heads must be at most 8": (model, TEXT, "--output", output, "--heads", 9),
        "--tokens must lie between": (model, TEXT, "--output", output, "--tokens", 500),
        "--budget must lie in": (model, TEXT, "--output", output, "--budget", 0),
        "leave --pair out": (model, TEXT, "--output", output, "--pair", "b"),
        "give the second text with --pair": (pair_model, TEXT, "--output", output),
        "there is no folder": (model, TEXT, "--output", tmp_path / "no" / "heads.html"),
        "written twice": (model, TEXT, "--output", output, "--json", output),
        "--tokens has no effect without --output": (model, TEXT, "--tokens", 8),
    }
    for said, arguments in wrong.items():
        assert said in here.mistake("explain", *arguments)
    assert "nowhere" in here.mistake("explain", tmp_path / "nowhere", TEXT, "--output", output)
    assert list(tmp_path.iterdir()) == []


def test_no_output_replaces_a_part_of_the_model(here: Here, model: Path) -> None:
    assert "written twice" in here.mistake(
        "explain", model, TEXT, "--output", model.parent / "h.html", "--json", model / "config.json"
    )
