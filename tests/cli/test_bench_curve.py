"""``bench --curve``: table, figures, picture, card, the smallest budget within a target; and wrong options."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from budgetformer import Classifier

from ..model_folders import make_folder
from .commands import Here, texts, write_csv
from .conftest import trained


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return shutil.copytree(model, tmp_path / "copy")


@pytest.fixture(scope="session")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled rows that nothing was trained on."""
    return write_csv(tmp_path_factory.mktemp("others") / "validation.csv", texts(24, seed=7))


def test_the_curve_is_printed_written_drawn_and_kept_in_the_card(
    here: Here, folder: Path, others: Path, tmp_path: Path
) -> None:
    figures, picture = tmp_path / "curve.json", tmp_path / "curve.svg"
    before = (folder / "README.md").read_text(encoding="utf-8")
    config = (folder / "config.json").read_bytes()
    command = ("bench", folder, "--data", others, "--curve", "--card")
    done = here(*command, "--json", figures, "--figure", picture)
    assert done.code == 0, done.err
    assert "random heads" in done.out
    assert "its own budgets" in done.out
    assert "8 of 8 heads" in done.out
    found = json.loads(figures.read_text(encoding="utf-8"))
    assert [p["asked"] for p in found["curve"] if p["choice"] == "learned"] == list(range(1, 9))
    assert [p["asked"] for p in found["curve"] if p["choice"] == "random"] == list(range(1, 9))
    assert found["choice"] is None
    assert found["curve"][0]["rows"] == 24
    assert "<svg" in picture.read_text(encoding="utf-8")
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "## At other budgets" in card
    assert "24 labelled rows: validation.csv." in card  # the name, not where it lies
    assert (folder / "budget-curve.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "config.json").read_bytes() == config
    assert here(*command, "--rows", 12).code == 0
    again = (folder / "README.md").read_text(encoding="utf-8")
    assert again.count("## At other budgets") == 1
    assert "12 labelled rows" in again
    for line in before.splitlines():
        assert line in again
    assert not list(folder.glob("*.partial"))


def test_without_card_the_folder_stays_as_it_is(here: Here, folder: Path, others: Path) -> None:
    before = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    done = here("bench", folder, "--data", others, "--curve", "--target-accuracy-drop", 5)
    assert done.code == 0, done.err
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before


def test_the_smallest_budget_within_the_target_becomes_the_default(
    here: Here, folder: Path, others: Path, tmp_path: Path
) -> None:
    figures = tmp_path / "curve.json"
    command = ("bench", folder, "--data", others, "--curve", "--target-accuracy-drop")
    done = here(*command, 99, "--set-default", "--card", "--json", figures)
    assert done.code == 0, done.err
    assert "Smallest budget within 99 percentage points: 1 of 8 heads for every text (budget 0.125)" in done.out
    choice = json.loads(figures.read_text(encoding="utf-8"))["choice"]
    assert (choice["budget"], choice["target_accuracy_drop"], choice["rows"]) == (0.125, 99, 24)
    assert "### Default budget" in (folder / "README.md").read_text(encoding="utf-8")
    classifier = Classifier.from_pretrained(folder, device="cpu")
    assert {h for a in classifier(["money", "super nice"]) for h in a.heads} == {1}
    measured = here("evaluate", folder, "--data", others)
    assert "1.00 of 8 (the folder's default: 0.125)" in measured.out
    assert "8.00 of 8 (asked: budget 1)" in here("evaluate", folder, "--data", others, "--budget", 1).out
    assert "(heads 1 1 1 1 of 8, " in here("predict", folder, "money back").out
    assert "(heads 8 8 8 8 of 8, " in here("predict", folder, "money back", "--budget", 1).out
    assert "the folder takes 0.125" in here("bench", folder, "--data", others, "--curve").out


def test_own_budgets_take_a_default_back(here: Here, others: Path, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "model", fixed_budget=0.25, default_budget=1.0)
    done = here("bench", folder, "--data", others, "--curve", "--target-accuracy-drop", 99, "--set-default")
    assert done.code == 0, done.err
    assert "its own budgets, 1.00 heads per layer" in done.out
    assert "default_budget" not in json.loads((folder / "config.json").read_text(encoding="utf-8"))


def test_rows_of_the_training_are_called_so(here: Here, model: Path, data: Path) -> None:
    done = here("bench", model, "--data", data, "--curve", "--rows", 6)
    assert "holds the rows that the model was trained on" in done.out


def test_what_has_no_effect_or_cannot_be_is_refused_and_nothing_is_written(
    here: Here, folder: Path, dense_model: Path, others: Path, tmp_path: Path
) -> None:
    strange = write_csv(tmp_path / "strange.csv", [("a text", "no such label")])
    pickled = shutil.copytree(folder, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    bare = shutil.copytree(folder, tmp_path / "bare")
    (bare / "tokenizer.json").unlink()
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    for wrong, said in (
        ((folder, "--card"), "--card has no effect without --curve"),
        ((folder, "--target-accuracy-drop", 1), "--target-accuracy-drop has no effect without --curve"),
        ((folder, "--set-default"), "--set-default has no effect without --curve"),
        ((folder, "--label-column", "label"), "--label-column has no effect without --curve"),
        ((folder, "--curve", "--set-default"), "--set-default has no effect without --target-accuracy-drop"),
        ((folder, "--curve", "--rounds", 3), "--rounds has no effect with --curve"),
        ((folder, "--curve", "--against", "hf"), "--against has no effect with --curve"),
        ((folder, "--curve", "--latency-texts", 0), "--latency-texts has no effect with --curve"),
        ((folder, "--curve", "--precision", "int8", "--precision", "bf16"), "--curve takes one --precision"),
        ((folder, "--curve", "--target-accuracy-drop", -1), "in percentage points, from 0 to below 100"),
        ((folder, "--curve", "--target-accuracy-drop", "nan"), "in percentage points, from 0 to below 100"),
        ((folder, "--curve", "--target-accuracy-drop", "0.5%"), "is no number of percentage points; give 0.5"),
        ((folder, "--curve", "--label-column", "topic"), "topic"),
        ((dense_model, "--curve", "--card"), "has no curve of budgets"),
        ((pickled, "--curve", "--card"), "has no model.safetensors"),
        ((bare, "--curve", "--card"), "has no tokenizer.json"),
    ):
        assert said in here.mistake("bench", *wrong, "--data", others)
    assert "no such label" in here.mistake("bench", folder, "--data", strange, "--curve", "--card")
    refused = here.mistake(
        "bench", folder, "--data", "ag_news", "--split", "test", "--curve", "--target-accuracy-drop", 1
    )
    assert "ag_news test would flatter" in refused
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("kind", ["bytes", "folder"])
def test_a_card_that_cannot_be_read_is_named_before_the_work(here: Here, folder: Path, others: Path, kind: str) -> None:
    card = folder / "README.md"
    card.unlink()
    if kind == "bytes":
        card.write_bytes(b"\xff\xfe")
    else:
        card.mkdir()
    config = (folder / "config.json").read_bytes()
    command = ("bench", folder, "--data", others, "--curve", "--target-accuracy-drop", 99, "--set-default", "--card")
    assert f"{card}: the model card cannot be read" in here.mistake(*command)
    assert (folder / "config.json").read_bytes() == config


def test_a_card_with_an_earlier_default_is_not_left_without_a_word(here: Here, others: Path, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "model")
    command = ("bench", folder, "--data", others, "--curve", "--target-accuracy-drop", 99, "--set-default")
    assert "README.md" not in here(*command).err
    assert here(*command, "--card").err == ""
    assert "README.md still shows an earlier curve and default; --card replaces them" in here(*command).err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(here: Here, folder: Path, others: Path) -> None:
    folder.chmod(0o555)
    try:
        for option in (("--card",), ("--set-default", "--target-accuracy-drop", 1)):
            assert "no permission to write in" in here.mistake("bench", folder, "--data", others, "--curve", *option)
    finally:
        folder.chmod(0o755)


def test_training_with_a_target_ends_with_a_default_and_a_curve(
    here: Here, data: Path, others: Path, tmp_path: Path
) -> None:
    out = trained(tmp_path / "run", "--train", data, "--validation", others, "--target-accuracy-drop", 99)
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    record = json.loads((out / "training.json").read_text(encoding="utf-8"))
    assert config["default_budget"] == record["default_budget"]["budget"] == 0.125
    assert [p["choice"] for p in record["curve"]] == ["own", *["learned"] * 8]
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "24 labelled rows: the validation part" in card
    assert (out / "budget-curve.png").is_file()
    command = ("train", "--train", data, "--output", tmp_path / "other", "--target-accuracy-drop")
    assert "in percentage points" in here.mistake(*command, 100)
    assert "--target-accuracy-drop has no effect with --dense" in here.mistake(*command, 1, "--dense")
    assert not (tmp_path / "other").exists()
