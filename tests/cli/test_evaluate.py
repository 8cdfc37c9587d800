"""``evaluate``: figures, mistakes, budgets, and data that do not fit."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from budgetformer import BudgetFormerConfig
from budgetformer.cli.evaluate import class_rows
from budgetformer.cli.seen import seen_in_training
from budgetformer.metering.macs import paper_macs

from ..model_folders import make_folder
from .commands import TRAINING, Here, read_jsonl, texts, write_csv

FIELDS = {"accuracy", "macro_f1", "rows", "rows_without_label", "truncated", "mean_budget", "mean_heads"}
FIELDS |= {"heads_per_layer", "macs", "macs_dense", "seconds", "texts_per_second", "labels", "confusion"}


def figures(here: Here, folder: Path, data: Path, *options: object) -> dict[str, Any]:
    file = folder.parent / "figures.json"
    outcome = here("evaluate", folder, "--data", data, "--json", file, *options)
    assert outcome.code == 0, outcome.err
    assert not list(folder.parent.glob("*.partial"))
    return json.loads(file.read_text(encoding="utf-8"))


def test_the_figures_agree_with_each_other(here: Here, model: Path, data: Path) -> None:
    found = figures(here, model, data)
    assert set(found) >= FIELDS
    assert found["labels"] == ["praise", "refund", "Übrig / other"]
    assert [sum(row) for row in found["confusion"]] == [20, 20, 20]
    right = sum(found["confusion"][i][i] for i in range(3))
    assert found["accuracy"] == pytest.approx(right / found["rows"])
    assert len(found["heads_per_layer"]) == 4
    assert found["mean_heads"] == pytest.approx(sum(found["heads_per_layer"]) / 4)
    assert found["macs"] < found["macs_dense"]


def test_the_table_names_both_accountings(here: Here, model: Path, data: Path) -> None:
    out = here("evaluate", model, "--data", data).out
    assert "executed" in out
    assert "the paper's accounting" in out
    assert "texts per second" in out


def test_the_papers_accounting_is_at_the_length_that_texts_are_cut_to(here: Here, data: Path, tmp_path: Path) -> None:
    """A converted model has more positions than its tokenizer lets through."""
    folder = make_folder(tmp_path / "model", max_position_embeddings=128, model_max_length=24)
    found = figures(here, folder, data, "--budget", 0.5)
    config = BudgetFormerConfig.from_pretrained(folder)
    assert found["paper_macs_dense"] == paper_macs(config, length=24, rows=1)
    assert found["paper_macs"] == paper_macs(config, length=24, rows=1, budget=0.5)
    assert "padded to 24)" in here("evaluate", folder, "--data", data).out


def test_a_budget_changes_heads_and_cost(here: Here, model: Path, data: Path) -> None:
    one, two = (figures(here, model, data, "--budget", budget) for budget in (0.125, 0.25))
    assert one["heads_per_layer"] == [1] * 4
    assert two["heads_per_layer"] == [2] * 4
    assert two["mean_budget"] == 0.25
    assert one["macs"] < two["macs"] < two["macs_dense"]
    capped = figures(here, model, data, "--max-budget", 0.25)
    assert max(capped["heads_per_layer"]) <= 2
    assert capped["mean_budget"] <= 0.25


def test_the_reference_gives_the_same_answers_at_full_cost(here: Here, model: Path, data: Path) -> None:
    packed = figures(here, model, data, "--execution", "packed")
    reference = figures(here, model, data, "--execution", "reference")
    assert packed["confusion"] == reference["confusion"]
    assert reference["macs"] == reference["macs_dense"]


def test_a_budget_on_full_attention_warns_that_it_has_no_effect(here: Here, dense_model: Path, data: Path) -> None:
    outcome = here("evaluate", dense_model, "--data", data, "--max-budget", "0.5")
    assert outcome.code == 0
    assert "warning: --max-budget has no effect" in outcome.err
    found = figures(here, dense_model, data, "--budget", "0.5")
    assert found["mean_heads"] == 8
    assert found["mean_budget"] == 1


@pytest.mark.parametrize("options", [["--budget", "0"], ["--budget", "1.1"], ["--max-budget", "nan"]])
def test_budgets_outside_their_range_are_refused(here: Here, model: Path, data: Path, options: list[str]) -> None:
    assert "must lie in (0, 1]" in here.mistake("evaluate", model, "--data", data, *options)


def test_budget_and_cap_exclude_each_other(here: Here, model: Path, data: Path) -> None:
    message = here.mistake("evaluate", model, "--data", data, "--budget", "0.5", "--max-budget", "0.5")
    assert "not both" in message


def test_mistakes_are_written_with_what_the_model_thought(here: Here, model: Path, tmp_path: Path, data: Path) -> None:
    wrong = [(text, "refund" if label == "praise" else "praise") for text, label in texts(30)]
    file = write_csv(tmp_path / "wrong.csv", wrong)
    found = figures(here, model, file, "--errors", tmp_path / "errors.jsonl")
    rows = read_jsonl(tmp_path / "errors.jsonl")
    assert len(rows) == round((1 - found["accuracy"]) * 30) > 0
    for row in rows:
        assert (row["text"], row["label"]) == wrong[row["row"]]
        assert row["predicted"] != row["label"]
        assert row["scores"][row["predicted"]] == row["score"]
        assert len(row["heads"]) == 4
    assert here("evaluate", model, "--data", file, "--errors", tmp_path / "errors.csv").code == 0
    with open(tmp_path / "errors.csv", encoding="utf-8", newline="") as table:
        assert [row["text"] for row in csv.DictReader(table)] == [row["text"] for row in rows]


def test_files_of_the_model_are_no_place_for_figures(here: Here, model: Path, data: Path) -> None:
    before = (model / "config.json").read_bytes()
    for command in (["evaluate", model, "--data", data], ["cost", "--model", model, "--length", "9", "--rows", "9"]):
        assert "would be read and written" in here.mistake(*command, "--json", model / "config.json")
    assert (model / "config.json").read_bytes() == before


def test_an_unknown_label_is_named_with_rows_and_file(here: Here, model: Path, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "test.csv", [*texts(6), ("nice money", "mixed")])
    message = here.mistake("evaluate", model, "--data", file)
    assert "'mixed' (1 row)" in message
    assert "test.csv" in message


def test_rows_without_label_are_counted_and_left_out(here: Here, model: Path, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "test.csv", [*texts(6), ("nice", ""), ("money", "-")])
    found = figures(here, model, file)
    assert (found["rows"], found["rows_without_label"]) == (6, 2)


def test_remembered_columns_are_used_and_others_can_be_named(here: Here, pair_model: Path, tmp_path: Path) -> None:
    rows = [("10", "where door", "great nice"), ("20", "money", "lovely"), ("30", "bill", "phone")]
    file = write_csv(tmp_path / "test.csv", rows, ("mark", "two", "one"))
    found = figures(here, pair_model, file)
    assert found["labels"] == ["10", "20", "30"]
    other = write_csv(tmp_path / "other.csv", rows, ("m", "b", "a"))
    columns = ["--text-column", "a", "--pair-column", "b", "--label-column", "m"]
    assert figures(here, pair_model, other, *columns)["confusion"] == found["confusion"]
    message = here.mistake("evaluate", pair_model, "--data", other)
    assert "'two'" in message or "'one'" in message
    assert "m, b, a" in message


def test_pairs_for_a_model_of_single_texts_are_refused(here: Here, model: Path, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "test.csv", [("a", "b", "refund")], ("text", "second", "label"))
    assert "single texts" in here.mistake("evaluate", model, "--data", file, "--pair-column", "second")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--split", "test"], "--split has no effect with a file"),
        (["--json", "nowhere/f.json"], "there is no folder nowhere"),
        (["--errors", "e.xlsx"], ".jsonl"),
        (["--precision", "fp8"], "bf16"),
        (["--execution", "fast"], "packed"),
        (["--execution", "cuda", "--device", "cpu"], "runs on NVIDIA GPUs"),
        (["--label-column", "gold"], "'gold'"),
        (["--unlabelled", "refund"], "'refund' is a class of the model"),
    ],
)
def test_options_that_cannot_work_are_refused(
    here: Here, model: Path, data: Path, options: list[str], words: str
) -> None:
    assert words in here.mistake("evaluate", model, "--data", data, *options)


def test_the_data_are_never_written_over(here: Here, model: Path, data: Path) -> None:
    before = data.read_bytes()
    assert "read and written" in here.mistake("evaluate", model, "--data", data, "--errors", data)
    assert data.read_bytes() == before


@pytest.mark.parametrize("kind", ["missing", "file", "empty", "other", "damaged"])
def test_what_is_no_model_folder_is_named(here: Here, model: Path, data: Path, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "folder"
    if kind == "file":
        folder.write_text("x")
    elif kind != "missing":
        folder.mkdir()
    if kind == "other":
        (folder / "config.json").write_text('{"model_type": "bert"}')
    if kind == "damaged":
        for file in model.iterdir():
            if file.is_file():
                (folder / file.name).write_bytes(file.read_bytes())
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:1000])
    assert str(folder) in here.mistake("evaluate", folder, "--data", data)


def test_labels_that_are_numbers_keep_their_spelling(here: Here, tmp_path: Path) -> None:
    rows = [(text, str(10 * 2 ** (i % 3))) for i, (text, _) in enumerate(texts(30))]
    file = write_csv(tmp_path / "stars.csv", rows)
    assert here("train", "--train", file, "--output", tmp_path / "run", *TRAINING, "--quiet").code == 0
    assert figures(here, tmp_path / "run", file)["labels"] == ["10", "20", "40"]
    assert {row["label"] for row in here("predict", tmp_path / "run", "--input", file).rows} <= {"10", "20", "40"}


def test_a_named_set_is_read_from_the_data_folder(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sets" / "imdb"
    folder.mkdir(parents=True)
    (folder / "labels.txt").write_text("neg\npos\n")
    for split, number in (("train", 40), ("test", 10)):
        rows = [json.dumps({"text": text, "label": i % 2}) for i, (text, _) in enumerate(texts(number))]
        (folder / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    run = tmp_path / "run"
    options = ["--data-folder", tmp_path / "sets"]
    assert here("train", "--train", "imdb", "--output", run, *TRAINING, *options).code == 0
    monkeypatch.setenv("BUDGETFORMER_DATA", str(tmp_path / "sets"))
    found = figures(here, run, Path("imdb"))
    assert (found["rows"], found["labels"]) == (10, ["neg", "pos"])
    assert figures(here, run, Path("imdb"), "--split", "train")["rows"] == 40
    assert "validation" in here.mistake("evaluate", run, "--data", "imdb", "--split", "validation")
    assert "column options" in here.mistake("evaluate", run, "--data", "imdb", "--text-column", "text")


def test_another_format_is_held_against_float32(here: Here, model: Path, data: Path) -> None:
    small = figures(here, model, data, "--precision", "int8")
    assert small["precision"] == "int8"
    assert small["agreement"]["labels"] >= 0.9
    plain = figures(here, model, data)
    assert plain["agreement"] is None
    assert plain["accuracy_float32"] == plain["accuracy"] == small["accuracy_float32"]
    out = here("evaluate", model, "--data", data, "--precision", "int8").out
    assert "same heads as float32" in out
    assert re.search(rf"accuracy in float32\W+{plain['accuracy']:.4f}", out)
    alone = figures(here, model, data, "--precision", "int8", "--no-agreement")
    assert (alone["agreement"], alone["accuracy_float32"]) == (None, None)


def test_full_attention_chooses_no_heads_that_could_agree(here: Here, dense_model: Path, data: Path) -> None:
    out = here("evaluate", dense_model, "--data", data, "--precision", "bf16").out
    assert "same labels as float32" in out
    assert "same heads" not in out


def test_precision_auto_says_what_it_took(here: Here, model: Path, data: Path) -> None:
    outcome = here("evaluate", model, "--data", data, "--precision", "auto", "--no-agreement")
    assert outcome.code == 0, outcome.err
    assert "in multiples of float32" in outcome.err


def test_int8_is_refused_where_all_heads_are_computed(here: Here, model: Path, data: Path) -> None:
    outcome = here("evaluate", model, "--data", data, "--precision", "int8", "--execution", "reference")
    assert outcome.code != 0
    assert "int8 has no reference execution" in outcome.err


def test_energy_is_marked_for_what_it_is_and_changes_nothing_else(here: Here, model: Path, data: Path) -> None:
    plain, metered = figures(here, model, data), figures(here, model, data, "--energy")
    energy = metered.pop("energy")
    assert "energy" not in plain
    for found in (plain, metered):
        del found["seconds"], found["texts_per_second"]
    assert metered == plain
    assert energy["kind"] in ("measured", "estimated")
    assert energy["joules_per_1000_texts"] == pytest.approx(energy["joules"] * 1000 / 60)
    assert energy["grams"] == pytest.approx(energy["joules"] / 3.6e6 * 475)
    assert energy["how"]


@pytest.mark.parametrize("installed", [True, False], ids=["as installed", "without codecarbon"])
def test_energy_is_one_line_on_the_screen(
    here: Here, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    if not installed:
        monkeypatch.setitem(sys.modules, "codecarbon", None)
    outcome = here("evaluate", model, "--data", data, "--energy")
    assert outcome.code == 0
    lines = [line for line in outcome.out.splitlines() if line.startswith("energy: ")]
    assert len(lines) == 1
    assert "g CO2e per 1,000 texts, " in lines[0]
    assert ("CodeCarbon is not installed" in lines[0]) or installed
    assert "codecarbon" not in outcome.err


def test_stated_watts_and_grid_are_used(here: Here, model: Path, data: Path) -> None:
    energy = figures(here, model, data, "--energy", "--watts", 65, "--grid-intensity", 56)["energy"]
    assert energy["kind"] == "estimated"
    assert energy["joules"] == pytest.approx(65 * energy["seconds"])
    assert energy["grams"] == pytest.approx(energy["joules"] / 3.6e6 * 56)
    assert "65 W (stated)" in energy["how"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--watts", "65"], "--watts has no effect without --energy"),
        (["--region", "FRA"], "--region has no effect without --energy"),
        (["--energy", "--watts", "0"], "--watts must be above 0, got 0.0"),
        (["--energy", "--watts", "nan"], "--watts must be above 0, got nan"),
        (["--energy", "--grid-intensity", "-1"], "--grid-intensity must be 0 or above, got -1.0"),
        (["--energy", "--grid-intensity", "1", "--region", "FRA"], "not both"),
        (["--energy", "--region", "Atlantis"], "region"),
    ],
)
def test_energy_options_that_cannot_work_are_refused_before_the_work(
    here: Here, tmp_path: Path, data: Path, options: list[str], words: str
) -> None:
    assert words in here.mistake("evaluate", tmp_path, "--data", data, *options)


def test_rows_that_the_model_was_trained_on_are_noticed(here: Here, model: Path, data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.csv"
    copy.write_bytes(data.read_bytes())
    for file in (data, copy):
        assert "holds the rows that the model was trained on" in figures(here, model, file)["seen_in_training"]
        assert "note: " in here("evaluate", model, "--data", file).out
    same_size = write_csv(tmp_path / "other.csv", list(reversed(texts(60))))
    assert same_size.stat().st_size == data.stat().st_size
    assert figures(here, model, same_size)["seen_in_training"] is None


def test_what_a_folder_tells_of_its_training_is_said_as_surely_as_it_is_known(
    model: Path, data: Path, tmp_path: Path
) -> None:
    record = json.loads((model / "training.json").read_text(encoding="utf-8"))
    folder, changed = tmp_path / "model", tmp_path / "rows.csv"
    folder.mkdir()
    changed.write_text("text,label\nother,refund\n", encoding="utf-8")

    def said(data: Path | str, split: str | None = None) -> str:
        (folder / "training.json").write_text(json.dumps(record), encoding="utf-8")
        return seen_in_training(folder, str(data), split=split) or ""

    record["settings"]["train"] = [str(changed)]
    assert "has changed since" in said(changed)
    record["data"]["files"][0]["role"] = "validation"
    assert "chosen on" in said(data)
    del record["data"]["files"]  # as earlier versions wrote it
    assert "may have changed since" in said(changed)
    assert said(data) == ""
    record["settings"]["train"] = "ag_news"
    assert "trained on ag_news train" in said("ag_news", "train")
    assert said("ag_news") == said("imdb", "train") == ""
    (folder / "training.json").write_text("[]", encoding="utf-8")
    assert seen_in_training(folder, str(data), split=None) is None


def test_each_class_has_its_line_and_errors_are_counted(here: Here, model: Path, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "test.csv", [row for row in texts(9) if row[1] != "praise"])
    outcome = here("evaluate", model, "--data", file, "--errors", tmp_path / "wrong.jsonl")
    wrong = len(read_jsonl(tmp_path / "wrong.jsonl"))
    assert f"({wrong} of 6 rows)" in outcome.out
    table = outcome.out[outcome.out.index("By class") :]
    for name, rows in (("praise", "0"), ("refund", "3"), ("Übrig / other", "3")):
        assert any(name in line and f" {rows} " in line for line in table.splitlines()), table


def test_precision_and_recall_of_a_class_follow_from_the_confusion_matrix() -> None:
    rows = class_rows(["a", "b\nb", "c", "d"], [[3, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 2, 0, 0]])
    assert rows == [
        ("a", "0.750", "0.750", "4"),
        ("b b", "0.250", "0.500", "2"),
        ("c", "–", "–", "0"),
        ("d", "–", "0.000", "2"),
    ]
