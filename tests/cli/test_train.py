"""Options of ``train``: which go together, and that they arrive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .commands import TRAINING, Here, write_csv

PHONES = [("great phone", "pos"), ("weak battery", "neg"), ("ok", "pos")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--dense", "--s-max", "0.5"], "--s-max has no effect with --dense"),
        (["--dense", "--min-heads", "0"], "--min-heads has no effect with --dense"),
        (["--tokenizer", "x", "--vocab-size", "9"], "--vocab-size has no effect with --tokenizer"),
        (["--validation", "x.csv", "--validation-fraction", "0.2"], "--validation-fraction has no effect"),
        (["--data-folder", "x"], "--data-folder has no effect with a file"),
        (["--epochs", "1", "--max-steps", "1"], "not both"),
        (["--resume", "--overwrite"], "give one of them"),
        (["--s-min", "0.9", "--s-max", "0.2"], "s_max must"),
        (["--selection", "hard"], "straight_through, soft"),
        (["--preset", "huge"], "tiny, small, base, paper"),
        (["--precision", "fp8"], "bf16"),
        (["--class-weights", "heavy"], "--class-weights must be balanced or numbers"),
        (["--class-weights", "1,2"], "class_weights must be one number"),
        (["--label-smoothing", "1"], "label_smoothing must"),
        (["--word-dropout", "1"], "word_dropout must"),
        (["--device", "tpu9"], "tpu9"),
        (["--text-column", "body"], "'body'"),
        (["--example", " "], "an example must have 1 to 1000 characters"),
        (["--pair-column", "x", "--example", "good"], "this model takes pairs"),
        (["--encoding", "klingon"], "klingon"),
        (["--unlabelled", "keep", "--unlabelled", "n/a"], "'n/a' was to mean none"),
        (["--resume"], "no complete checkpoint"),
        (["--ceiling-until", "0.5"], "ceiling_until has no effect without s_max_start"),
        (["--fsdp"], "fsdp shares a model among several processes, and this is one"),
        (["--fsdp", "--from", "x"], "--fsdp has no effect with --from"),
    ],
)
def test_options_without_effect_or_against_each_other_are_refused(
    options: list[str], words: str, tmp_path: Path, data: Path, here: Here
) -> None:
    message = here.mistake("train", "--train", data, "--output", tmp_path / "run", *options)
    assert words in message
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_data_set_name_takes_no_column_options(tmp_path: Path, here: Here) -> None:
    message = here.mistake("train", "--train", "imdb", "--text-column", "a", "--output", tmp_path / "run")
    assert "--text-column has no effect with the data set imdb" in message
    message = here.mistake("train", "--train", "imdb", "--no-header", "--output", tmp_path / "run")
    assert "--no-header has no effect with the data set imdb" in message


def test_a_name_that_is_neither_file_nor_set_lists_the_sets(tmp_path: Path, here: Here) -> None:
    assert "ag_news" in here.mistake("train", "--train", "agnews", "--output", tmp_path / "run")


def test_no_header_has_no_meaning_for_jsonl(tmp_path: Path, here: Here) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "a", "label": "b"}\n')
    message = here.mistake("train", "--train", file, "--no-header", "--output", tmp_path / "run")
    assert "header" in message


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n" + bytes(50), b"text,label\n"])
def test_a_file_without_rows_or_of_another_kind_is_named(content: bytes, tmp_path: Path, here: Here) -> None:
    file = tmp_path / "odd.csv"
    file.write_bytes(content)
    assert "odd.csv" in here.mistake("train", "--train", file, "--output", tmp_path / "run")


def test_a_folder_is_no_file(tmp_path: Path, here: Here) -> None:
    assert "this is a folder" in here.mistake("train", "--train", tmp_path, "--output", tmp_path / "run")


def test_an_output_folder_with_other_things_is_left_alone(tmp_path: Path, data: Path, here: Here) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    message = here.mistake("train", "--train", data, "--output", tmp_path, "--overwrite")
    assert "thesis.txt" in message
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_file_without_header_is_asked_about_and_read_whole(tmp_path: Path, here: Here) -> None:
    file = write_csv(tmp_path / "phones.csv", PHONES * 5, None)
    assert "--no-header" in here.mistake("train", "--train", file, "--output", tmp_path / "run")
    outcome = here("train", "--train", file, "--no-header", "--output", tmp_path / "run", *TRAINING)
    assert outcome.code == 0
    assert "15 rows read for training, 2 classes" in outcome.err
    outcome = here("predict", tmp_path / "run", "--input", file, "--no-header")
    assert [row["id"] for row in outcome.rows] == list(range(15))


def test_settings_arrive_in_the_record_and_the_configuration(tmp_path: Path, data: Path, here: Here) -> None:
    options = ["--selection", "soft", "--s-min", "0.2", "--s-max", "0.6", "--min-heads", "2", "--budget-price", "0.01"]
    options += ["--alpha-max", "2", "--pooling", "first", "--batch-size", "8", "--gradient-accumulation", "2"]
    options += ["--class-weights", "1,2,3", "--seed", "5", "--weight-decay", "0.1", "--warmup", "0.2", "--quiet"]
    options += ["--example", "a good film", "--example", "it broke"]
    outcome = here("train", "--train", data, "--output", tmp_path / "run", *TRAINING, *options)
    assert outcome.code == 0, outcome.err
    assert outcome.out == ""
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    expected = {"selection": "soft", "s_min": 0.2, "s_max": 0.6, "min_heads": 2, "budget_price": 0.01, "alpha_max": 2}
    expected |= {"pooling": "first", "max_position_embeddings": 32}
    assert {name: config[name] for name in expected} == expected
    assert config["class_weights"][1] == pytest.approx(2 * config["class_weights"][0])
    settings = json.loads((tmp_path / "run" / "training.json").read_text())["settings"]
    expected = {"batch_size": 8, "gradient_accumulation": 2, "seed": 5, "weight_decay": 0.1, "warmup": 0.2}
    expected |= {"examples": ["a good film", "it broke"]}
    assert {name: settings[name] for name in expected} == expected


def test_a_tab_can_be_written_as_an_escape(tmp_path: Path, here: Here) -> None:
    file = tmp_path / "rows.txt"
    file.write_text("text\tlabel\n" + "".join(f"word{i}\t{'ab'[i % 2]}\n" for i in range(20)))
    options = ["--format", "csv", "--delimiter", r"\t", *TRAINING]
    outcome = here("train", "--train", file, "--output", tmp_path / "run", *options)
    assert outcome.code == 0, outcome.err
    assert "20 rows read" in outcome.err


def test_a_column_of_ids_is_not_taken_for_the_label(tmp_path: Path, here: Here) -> None:
    rows = [("some words", "pos", f"T{i}") for i in range(30)]
    data = write_csv(tmp_path / "tickets.csv", rows, ("text", "label", "ticket_id"))
    said = here.mistake("train", "--train", data, "--output", tmp_path / "run", "--label-column", "ticket_id")
    assert "30 classes in 30 rows: is 'ticket_id' the label?" in said
    said = here.mistake("train", "--train", data, "--output", tmp_path / "run", "--label-column", "id")
    assert "there is no column 'id'; the file has: text, label, ticket_id" in said
