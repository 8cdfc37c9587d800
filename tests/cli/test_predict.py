"""``predict``: one answer for each record, in order, whatever it holds; outputs that are whole or resumable."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import time
from pathlib import Path

import pytest

from budgetformer.cli import prediction_job
from budgetformer.data.files import iter_rows

from .commands import ENTRY, Here, read_jsonl, start, texts, there, write_csv, write_jsonl

WEIRD = ["good", "", "   ", "​​", "😀", "\0x", "bad"]
FIELDS = ["id", "label", "score", "scores", "heads", "macs", "truncated", "reason"]


def table(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def weird(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "weird.jsonl", [{"text": text} for text in WEIRD])


@pytest.mark.parametrize("window", [2, 3, 4, 7, 512])
def test_every_record_is_answered_once_in_order(
    here: Here, model: Path, weird: Path, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction_job, "WINDOW", window)
    rows = here("predict", model, "--input", weird).rows
    assert [row["id"] for row in rows] == list(range(7))
    assert all(list(row) == FIELDS for row in rows)
    for row in rows:
        assert math.isclose(sum(row["scores"].values()), 1, abs_tol=1e-6)
        assert row["scores"][row["label"]] == row["score"]
    assert [row["reason"] is not None for row in rows] == [False, True, True, True, False, False, False]


def test_what_is_no_text_gets_its_line_with_the_reason(here: Here, model: Path, tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", [{"text": "nice"}, {"text": 7}, {"other": 1}, {"text": None}])
    rows = here("predict", model, "--input", file).rows
    assert [row["label"] is None for row in rows] == [False, True, True, False]
    assert "the number 7" in rows[1]["reason"]
    assert "missing" in rows[2]["reason"]


def test_texts_on_the_command_line_get_a_line_each(here: Here, model: Path) -> None:
    outcome = here("predict", model, "great\nnice", "", "--", "-5 money back")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert len(lines) == 3
    assert all("multiply-adds" in line for line in lines)
    assert "no tokens" in lines[1]
    rows = here("predict", model, "great", "money", "--json", "--budget", "0.125").rows
    assert [row["id"] for row in rows] == [0, 1]
    assert rows[0]["heads"] == [1, 1, 1, 1]


def test_a_pair_is_given_with_its_own_option(here: Here, pair_model: Path, model: Path) -> None:
    rows = here("predict", pair_model, "where door", "--pair", "great nice", "--json").rows
    assert len(rows) == 1
    assert rows[0]["label"] in ("10", "20", "30")
    other = here("predict", pair_model, "where door", "--pair", "money bill", "--json").rows
    assert other[0]["scores"] != rows[0]["scores"]
    assert "--pair" in here.mistake("predict", pair_model, "where door")
    assert "single texts" in here.mistake("predict", model, "where door", "--pair", "a")
    assert "for 2 texts" in here.mistake("predict", pair_model, "a", "b", "--pair", "c")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "give texts to classify, or --input"),
        (["a", "--input", "x.csv"], "not both"),
        (["a", "--keep-columns"], "--keep-columns has no effect without --input"),
        (["a", "--output", "x.csv"], "--output has no effect without --input"),
        (["a", "--text-column", "t"], "--text-column has no effect without --input"),
        (["--input", "x.csv", "--pair", "b"], "--pair has no effect with --input"),
        (["--input", "x.csv", "--json"], "--json has no effect with --input"),
        (["--input", "x.csv", "--resume"], "--resume has no effect without an --output file"),
        (["--input", "x.csv"], "x.csv: there is no such file"),
        (["a", "--budget", "0.5", "--max-budget", "0.5"], "not both"),
        (["a", "--budget", "0"], "--budget must lie in (0, 1]"),
        (["a", "--device", "tpu9"], "tpu9"),
    ],
)
def test_options_without_effect_or_against_each_other_are_refused(
    here: Here, model: Path, options: list[str], words: str
) -> None:
    assert words in here.mistake("predict", model, *options)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04" + bytes(50), b"stars,body\n1,nice\n"])
def test_an_input_that_cannot_be_used_is_named_and_leaves_nothing(
    here: Here, model: Path, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "odd.csv"
    file.write_bytes(content)
    message = here.mistake("predict", model, "--input", file, "--output", tmp_path / "o.jsonl")
    assert "odd.csv" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["odd.csv"]


def test_columns_and_ids_can_be_named(here: Here, model: Path, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "a.csv", [("k7", "nice"), ("k9", "money")], ("key", "body"))
    outcome = here("predict", model, "--input", file, "--text-column", "body", "--id-column", "key")
    assert [row["id"] for row in outcome.rows] == ["k7", "k9"]
    assert "'kee'" in here.mistake("predict", model, "--input", file, "--text-column", "body", "--id-column", "kee")


def test_kept_columns_never_replace_ours(here: Here, model: Path, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "a.csv", [("nice", "gold", "x"), ("money", "", "y")], ("text", "label", "input_label"))
    arguments = ["predict", model, "--input", file, "--keep-columns"]
    assert [row["input"] for row in here(*arguments).rows] == [
        {"text": "nice", "label": "gold", "input_label": "x"},
        {"text": "money", "label": "", "input_label": "y"},
    ]
    for name in ("o.csv", "o.tsv"):
        assert here(*arguments, "--output", tmp_path / name).code == 0
    rows = table(tmp_path / "o.csv")
    assert list(rows[0]) == [*FIELDS, "text", "input_input_label", "input_label"]
    assert [row["input_input_label"] for row in rows] == ["gold", ""]
    assert [row["input_label"] for row in rows] == ["x", "y"]
    assert json.loads(rows[0]["scores"])[rows[0]["label"]] == float(rows[0]["score"])


def test_cells_with_line_ends_and_quote_marks_arrive_in_a_table(here: Here, model: Path, tmp_path: Path) -> None:
    cells = ['two\nlines, and "quotes"', "a\ttab", '"starts with a mark']
    file = write_jsonl(tmp_path / "a.jsonl", [{"text": cell} for cell in cells])
    assert here("predict", model, "--input", file, "--keep-columns", "--output", tmp_path / "o.csv").code == 0
    assert [row.cells["text"] for row in iter_rows(tmp_path / "o.csv")] == cells


def test_a_field_that_comes_late_is_not_dropped_from_a_table(here: Here, model: Path, tmp_path: Path) -> None:
    rows = [{"text": "nice"}] * 1000 + [{"text": "money", "note": "x"}]
    file = write_jsonl(tmp_path / "a.jsonl", rows)
    arguments = ["predict", model, "--input", file, "--keep-columns", "--output"]
    assert "'note'" in here.mistake(*arguments, tmp_path / "o.csv")


def test_an_existing_output_is_kept_unless_told(here: Here, model: Path, weird: Path, tmp_path: Path) -> None:
    output = tmp_path / "o.jsonl"
    output.write_text("precious")
    arguments = ["predict", model, "--input", weird, "--output", output]
    assert "--overwrite" in here.mistake(*arguments)
    assert output.read_text() == "precious"
    outcome = here(*arguments, "--overwrite")
    assert outcome.code == 0
    assert "7 records answered" in outcome.err
    assert len(read_jsonl(output)) == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.jsonl", "weird.jsonl"]
    assert "read and written" in here.mistake("predict", model, "--input", weird, "--output", weird, "--overwrite")
    assert ".csv" in here.mistake("predict", model, "--input", weird, "--output", tmp_path / "o.xlsx")
    os.mkfifo(tmp_path / "pipe.csv")
    message = here.mistake("predict", model, "--input", weird, "--output", tmp_path / "pipe.csv", "--overwrite")
    assert "not an ordinary file" in message
    assert (tmp_path / "pipe.csv").is_fifo()
    (tmp_path / "pipe.csv").unlink()
    for length in (251, 243):  # too long with .partial, too long with .partial.json
        message = here.mistake("predict", model, "--input", weird, "--output", tmp_path / f"{'a' * (length - 4)}.csv")
        assert "too long" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.jsonl", "weird.jsonl"]
    assert "folder" in here.mistake("predict", model, "--input", weird, "--output", tmp_path / "no" / "o.csv")


def wait_for_rows(path: Path) -> None:
    limit = time.monotonic() + 120
    while not (path.exists() and path.stat().st_size > 1000):
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_a_run_stopped_before_its_first_answer_leaves_nothing_and_promises_nothing(
    here: Here, model: Path, tmp_path: Path, weird: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("budgetformer.cli.prediction_job.answered_rows", stop)
    before = sorted(tmp_path.iterdir())
    stopped = here("predict", model, "--input", weird, "--output", tmp_path / "o.csv")
    assert stopped.code == 130
    assert "stopped before the first record was answered, so nothing is kept" in stopped.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("extension", ["jsonl", "csv"])
def test_a_stopped_run_goes_on_where_it_was(here: Here, model: Path, tmp_path: Path, extension: str) -> None:
    rows = [{"text": f"{text}\nline, {i}", "n": i} for i, (text, _) in enumerate(texts(10_000))]
    file = write_jsonl(tmp_path / "a.jsonl", rows)
    output, partial = tmp_path / f"o.{extension}", tmp_path / f"o.{extension}.partial"
    arguments = ["predict", model, "--input", file, "--keep-columns", "--output", output]
    process = start(*arguments)
    wait_for_rows(partial)
    if extension == "csv":
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=120)[1]
        assert process.returncode == 130, err
        assert "--resume" in err
        assert "Traceback" not in err
    else:
        process.kill()
        process.communicate(timeout=120)
    assert not output.exists()
    assert "--resume" in here.mistake(*arguments)
    with open(partial, "a", encoding="utf-8") as half:
        half.write('9999,"half a' if extension == "csv" else '{"id": 9999, "label": "Ü')
    assert "budget (none before, 0.5 now)" in here.mistake(*arguments, "--resume", "--budget", "0.5")
    outcome = here(*arguments, "--resume")
    assert outcome.code == 0, outcome.err
    assert "going on after" in outcome.err
    whole = tmp_path / f"whole.{extension}"
    assert here(*arguments[:-1], whole).code == 0
    read = read_jsonl if extension == "jsonl" else table
    assert [int(row["id"]) for row in read(output)] == list(range(len(rows)))
    assert output.read_bytes() == whole.read_bytes()
    assert "is complete: there is nothing to resume" in here.mistake(*arguments, "--resume")
    assert not list(tmp_path.glob("*.partial*"))


def test_resume_refuses_another_input_and_nothing_at_all(here: Here, model: Path, tmp_path: Path, weird: Path) -> None:
    output = tmp_path / "o.jsonl"
    arguments = ["predict", model, "--input", weird, "--output", output]
    assert "nothing to resume" in here.mistake(*arguments, "--resume")
    (tmp_path / "o.jsonl.partial").write_text('{"id": 0}\n')
    assert "cannot be read" in here.mistake(*arguments, "--resume")
    for content in ("[]", "null", "[" * 100_000):
        (tmp_path / "o.jsonl.partial.json").write_text(content)
        assert "o.jsonl.partial.json cannot be read" in here.mistake(*arguments, "--resume")
    (tmp_path / "o.jsonl.partial.json").write_text('{"input": "another"}')
    message = here.mistake(*arguments, "--resume")
    assert "input" in message
    assert "--overwrite" in message
    assert "one of them" in here.mistake(*arguments, "--resume", "--overwrite")
    assert here(*arguments, "--overwrite").code == 0
    assert len(read_jsonl(output)) == 7


def test_resume_refuses_more_answers_than_there_are_records(here: Here, model: Path, tmp_path: Path) -> None:
    file, partial = tmp_path / "late.jsonl", tmp_path / "o.csv.partial"
    file.write_text('{"text": "hi"}\n' * 1024 + '{"text": "hi", "late": 1}\n')
    arguments = ["predict", model, "--input", file, "--output", tmp_path / "o.csv", "--keep-columns"]
    assert "'late'" in here.mistake(*arguments)  # after two windows, which stay to be gone on with
    with open(partial, "a") as more:
        more.write("1024,a\n1025,b\n")
    message = here.mistake(*arguments, "--resume")
    assert "o.csv.partial holds 1,026 answers" in message
    assert "late.jsonl has only 1,025 records" in message


def test_a_full_disk_is_named_and_what_is_complete_goes_on(here: Here, model: Path, tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text, _ in texts(1500)])
    output = tmp_path / "o.jsonl"
    arguments = ["predict", model, "--input", file, "--output", output]
    limited = ["bash", "-c", 'ulimit -f 200; exec "$@"', "bash", *ENTRY]
    outcome = there(*arguments, entry=limited)
    assert outcome.code == 1
    assert outcome.err.startswith(f"error: cannot write {output}.partial")
    assert outcome.err.count("\n") == 1
    assert here(*arguments, "--resume").code == 0
    assert [row["id"] for row in read_jsonl(output)] == list(range(1500))


def test_a_reader_that_leaves_early_is_no_error_with_traceback(model: Path, tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", [{"text": "nice"}] * 2000)
    process = start("predict", model, "--input", file)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(timeout=120)


def test_json_lines_are_whole_on_a_terminal_that_knows_no_unicode(model: Path) -> None:
    outcome = there("predict", model, "nice", "--json", PYTHONIOENCODING="ascii")
    assert outcome.code == 0, outcome.err
    assert "Übrig / other" in outcome.rows[0]["scores"]
