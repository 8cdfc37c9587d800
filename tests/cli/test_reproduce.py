"""``reproduce``: from the command to rows and tables, and what it refuses."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from budgetformer.cli import reproduce as command
from budgetformer.cli.reproduce_places import check_places
from budgetformer.data.registry import SOURCES
from budgetformer.reporting.results import append_row, read_rows
from budgetformer_paper import run as runs
from budgetformer_paper.recipes import experiments
from budgetformer_paper.scales import SCALES

from ..paper.conftest import write_set
from .commands import Here


@pytest.fixture
def options(tmp_path: Path) -> list[object]:
    """A set, and places of the test's own."""
    write_set(tmp_path / "data", "imdb", train=60, test=20)
    places = ["--results", tmp_path / "rows.jsonl", "--work", tmp_path / "work", "--data-folder", tmp_path / "data"]
    return ["--scale", "smoke", "--data", "imdb", "--device", "cpu", "--quiet", *places]


def test_a_table_from_the_command_to_the_report(here: Here, options: list[object], tmp_path: Path) -> None:
    rows = ["--only", "transformer", "--only", "tfidf"]
    planned = here("reproduce", "table2", *options, *rows, "--dry-run")
    assert planned.code == 0
    assert "2 to do" in planned.out
    assert not (tmp_path / "work").exists()
    assert not (tmp_path / "rows.jsonl").exists()
    done = here("reproduce", "table2", *options, *rows)
    assert done.code == 0, done.err
    assert "Table II" in done.out
    assert "0.8354" in done.out
    assert "2 rows added" in done.out
    assert "0 rows added" in here("reproduce", "table2", *options, *rows).out
    assert "0 to do" in here("reproduce", "table2", *options, *rows, "--dry-run").out
    report = here("reproduce", "report", "--results", tmp_path / "rows.jsonl", "--output", tmp_path / "report")
    assert report.code == 0, report.err
    assert "<table>" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    printed = here("reproduce", "report", "--results", tmp_path / "rows.jsonl", "--scale", "smoke")
    assert printed.out.startswith("| data | model |")
    assert len(read_rows(tmp_path / "rows.jsonl")) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["table9"], "'table9' is no experiment: choose one of table2"),
        (["table2", "--scale", "huge"], "--scale must be one of smoke, cpu-small, cpu"),
        (["table2", "--time-limit", "0"], "--time-limit must be above 0 minutes, got 0"),
        (["table2", "--time-limit", "nan"], "--time-limit must be above 0 minutes, got nan"),
        (["table2", "--revision", "imdb"], "--revision takes SET=COMMIT with one of dbpedia14"),
        (["table2", "--revision", "imbd=main"], "got 'imbd=main'"),
        (["table2", "--revision", "imdb=a b"], "--revision takes SET=COMMIT"),
        (["table2", "--revision", "imdb=../../x"], "--revision takes SET=COMMIT"),
        (["table2", "--revision", "imdb=a=b"], "--revision takes SET=COMMIT"),
        (["table2", "--revision", "imdb=a", "--revision", "imdb=b"], "names two commits of imdb, a and b"),
        (["table2", "--data", "snli", "--revision", "imdb=a"], "--revision of imdb has no effect on rows of snli"),
        (["table2", "--revision", "imdb=main", "--data-folder", "x"], "--revision has no effect on a data folder"),
        (["report", "--seeds", "3"], "--seeds has no effect on a report"),
        (["report", "--quiet"], "--quiet has no effect on a report"),
        (["table2", "--output", "x"], "--output has no effect on an experiment"),
        (["report", "--fsdp"], "--fsdp has no effect on a report"),
        (["table2", "--fsdp"], "fsdp shares a model among several processes, and this is one"),
        (["report", "--time-limit", "3"], "--time-limit has no effect on a report"),
        (["table2", "--data", "imbd"], "--data must be one of dbpedia14"),
        (["table2", "--only", "bert"], "--only must be one of transformer"),
        (["table2", "--results", ".", "--dry-run"], "--results . is a folder; give a file of rows"),
        (["table2", "--work", __file__, "--dry-run"], "is a file; give a folder"),
        (["table2", "--budgets", __file__, "--dry-run"], "is a file; give a folder"),
        (["table2", "--work", f"{__file__}/w"], "is a file; give a folder"),
        (["table2", "--results", f"{__file__}/r.jsonl"], "is a file; give a folder"),
        (["table2", "--results", "/dev/null"], "--results /dev/null is not an ordinary file"),
        (["table2", "--seeds", "0"], "--seeds must be at least 1"),
        (["table2", "--tokenizer", "x"], "--tokenizer has no effect at scale cpu"),
        (["report", "--dry-run"], "--dry-run has no effect on a report"),
        (["report", "--results", "nowhere.jsonl"], "nowhere.jsonl does not exist"),
        (["table2", "--data-folder", "nowhere"], "these files are missing: nowhere/dbpedia14/labels.txt"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(
    here: Here, arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in here.mistake("reproduce", *arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_places_without_permission_are_named_and_a_file_that_may_be_written_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (rows := folder / "rows.jsonl").touch()
    rows.chmod(0o444)
    with pytest.raises(ValueError, match="--results: no permission to read and write"):
        check_places(rows, tmp_path / "work", None)
    rows.chmod(0o644)
    folder.chmod(0o555)
    try:
        check_places(rows, tmp_path / "work", None)
        with pytest.raises(ValueError, match="--results: no permission to write in"):
            check_places(folder / "others.jsonl", tmp_path / "work", None)
        folder.chmod(0)
        with pytest.raises(ValueError, match="--work: no permission to write in"):
            check_places(tmp_path / "rows.jsonl", folder / "below" / "work", None)
    finally:
        folder.chmod(0o755)


def test_under_a_launcher_of_several_processes_one_line_is_said(
    here: Here, options: list[object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("RANK", "1")
    second = here("reproduce", "table2", *options)
    assert (second.code, second.out, second.err) == (2, "", "")
    monkeypatch.setenv("RANK", "0")
    assert "cannot be shared evenly by 3 processes" in here.mistake("reproduce", "table2", *options)
    assert not (tmp_path / "work").exists()


def test_a_missing_set_is_reported_at_the_end_and_the_others_have_their_rows(
    here: Here, options: list[object], tmp_path: Path
) -> None:
    done = here("reproduce", "table2", *options, "--data", "snli", "--only", "tfidf")
    assert done.code == 1
    assert "1 rows added" in done.out
    assert done.out.rstrip().splitlines()[-1].startswith("failed: table2/snli/tfidf, seed 0: these files are missing")
    assert [row["data"] for row in read_rows(tmp_path / "rows.jsonl")] == ["imdb"]


def test_data_that_no_run_can_use_are_a_mistake(here: Here, options: list[object], tmp_path: Path) -> None:
    """Exit code 2, the source named, and mended data are read by the same command."""
    train = tmp_path / "data" / "imdb" / "train.jsonl"
    good = train.read_text()
    train.write_text(good.replace('"label": 1', '"label": 0'))
    done = here("reproduce", "table2", *options, "--only", "tfidf")
    assert done.code == 2
    assert "imdb/train.jsonl: no row of training has the class 'pos'" in done.err
    train.write_text(good)
    assert here("reproduce", "table2", *options, "--only", "tfidf").code == 0


def test_a_bad_row_stops_it_before_any_work(here: Here, options: list[object], tmp_path: Path) -> None:
    assert here("reproduce", "table2", *options, "--only", "tfidf").code == 0
    file = tmp_path / "rows.jsonl"
    (row,) = read_rows(file)
    append_row(file, row | {"accuracy": None})
    for arguments in (["table2", *options, "--only", "transformer"], ["report", "--results", file]):
        said = here.mistake("reproduce", *arguments)
        assert f"{file}, line 2: field 'accuracy' is None, not a number from 0 to 1" in said
    assert not (tmp_path / "work" / "models").exists()


def test_rows_without_a_model_any_more_have_no_budgets(here: Here, options: list[object], tmp_path: Path) -> None:
    rows = ["--only", "budgetformer", "--budgets", tmp_path / "budgets"]
    assert here("reproduce", "table2", *options, *rows[:2]).code == 0
    shutil.rmtree(tmp_path / "work" / "models")
    done = here("reproduce", "table2", *options, *rows)
    assert (done.code, "no budgets of 1 rows that were there before" in done.out) == (0, True)


def test_the_time_limit_leaves_rows_for_the_next_call(here: Here, options: list[object], tmp_path: Path) -> None:
    rows = ["--only", "transformer", "--only", "tfidf"]
    first = here("reproduce", "table2", *options, *rows, "--time-limit", "0.0001")
    assert first.code == 0, first.err
    assert "the time is over with 2 rows to do" in first.out
    assert not (tmp_path / "rows.jsonl").exists()
    second = here("reproduce", "table2", *options, *rows, "--time-limit", "60")
    assert "2 rows added" in second.out
    assert "the time is over" not in second.out


def test_ctrl_c_is_one_line_and_finished_rows_stay(
    here: Here, options: list[object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(*arguments: object, **rest: object) -> None:
        raise KeyboardInterrupt

    assert here("reproduce", "table2", *options, "--only", "tfidf").code == 0
    with monkeypatch.context() as patched:
        patched.setattr(runs, "run_row", stopped)
        done = here("reproduce", "table2", *options, "--only", "tfidf", "--only", "transformer")
    assert done.code == 130
    assert "the same command goes on" in done.err
    assert done.err.count("\n") == 1
    assert len(read_rows(tmp_path / "rows.jsonl")) == 1


def test_the_names_of_the_command_are_those_of_the_recipes() -> None:
    assert tuple(experiments()) == command.EXPERIMENTS
    assert set(command.SETS) == set(SOURCES)
    assert tuple(SCALES) == command.SCALES
