"""Help without torch, exit codes, and one line for each mistake."""

from __future__ import annotations

import resource
import signal
import sys
import time
from pathlib import Path

import pytest

from budgetformer.cli.writing import write_json

from .commands import TRAINING, Here, start, texts, there, write_csv

SHOW_MODULES = """
import sys
from budgetformer_command import main
try:
    main()
finally:
    print(sorted({"torch", "transformers", "datasets", "pyarrow"} & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["predict", "--help"], ["export", "--help"], ["--version"]]
)
def test_help_imports_neither_torch_nor_transformers(arguments: list[str]) -> None:
    outcome = there(*arguments, entry=[sys.executable, "-c", SHOW_MODULES])
    assert outcome.code == 0
    assert outcome.err.strip() == "[]"


@pytest.mark.parametrize("command", ["train", "evaluate", "predict", "serve", "export", "cost", "demo", "doctor"])
def test_help_of_a_command_ends_with_examples(command: str, here: Here) -> None:
    outcome = here(command, "--help")
    assert outcome.code == 0
    assert outcome.out.count(f"budgetformer {command}") >= 2
    assert "Examples:" in outcome.out


def test_no_command_shows_the_commands(here: Here) -> None:
    outcome = here()
    assert outcome.code == 0
    assert "evaluate" in outcome.out


def test_the_module_trains_and_says_what_comes_next(tmp_path: Path, data: Path) -> None:
    arguments = ["train", "--train", data, "--output", tmp_path / "run", *TRAINING]
    outcome = there(*arguments, entry=[sys.executable, "-m", "budgetformer"])
    assert outcome.code == 0, outcome.err
    assert "60 rows read for training, 3 classes" in outcome.err
    assert "Warning" not in outcome.err
    assert "Loading weights" not in outcome.err
    assert f"budgetformer evaluate {tmp_path / 'run'}" in outcome.out
    assert "On the 6 validation rows" in outcome.out
    assert "The best state was chosen on these rows" in outcome.out
    again = there(*arguments)
    assert again.code == 2
    assert "--overwrite" in again.err


def test_a_mistake_is_one_line_without_traceback(tmp_path: Path) -> None:
    outcome = there("train", "--train", tmp_path / "none.csv", "--output", tmp_path / "run")
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith(f"error: {tmp_path / 'none.csv'}: there is no such file")
    assert not (tmp_path / "run").exists()


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    arguments = ["train", "--train", tmp_path / "none.csv", "--output", tmp_path / "run"]
    assert "Traceback" in there(*arguments, BUDGETFORMER_DEBUG="1").err
    outcome = there("--debug", *arguments)
    assert outcome.code == 2
    assert "Traceback" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train"], "--train"),
        (["nonsense"], "nonsense"),
        (["train", "--nonsense"], "--nonsense"),
        (["train", "--train", "x", "--output", "y", "--epochs", "many"], "--epochs"),
        (["cost", "--length", "5", "--rows", "5"], "--preset or --model"),
    ],
)
def test_options_that_are_wrong_are_the_users_mistake(arguments: list[str], words: str, here: Here) -> None:
    assert words in here.mistake(*arguments)


def test_a_loss_that_is_not_finite_ends_with_1(tmp_path: Path, data: Path, here: Here) -> None:
    outcome = here(
        "train", "--train", data, "--output", tmp_path / "run", *TRAINING, "--learning-rate", "1e38", "--quiet"
    )
    assert outcome.code == 1
    assert "error: " in outcome.err
    assert "unexpected" not in outcome.err
    assert "Traceback" not in outcome.err


def test_an_error_of_ours_says_how_to_see_more(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("a bug\nin two lines")

    monkeypatch.setattr("budgetformer.cli.doctor._versions", fail)
    outcome = here("doctor")
    assert outcome.code == 1
    assert outcome.err.startswith("error: unexpected RuntimeError: a bug in two lines; BUDGETFORMER_DEBUG=1")
    assert outcome.err.count("\n") == 1


def test_too_little_memory_is_said_in_these_words(here: Here, tmp_path: Path, data: Path) -> None:
    endless = ["--preset", "tiny", "--max-length", str(2**31 - 1), "--vocab-size", "200", "--max-steps", "1"]
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 8 * 2**30, before[1]))
    try:
        outcome = here("train", "--train", data, "--output", tmp_path / "run", *endless)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert outcome.code == 1
    assert "there is not enough memory" in outcome.err
    assert "--max-length" in outcome.err
    assert "unexpected" not in outcome.err


def test_training_that_is_interrupted_ends_with_130_and_goes_on(tmp_path: Path, here: Here) -> None:
    data = write_csv(tmp_path / "train.csv", texts(600))
    settings = ["--preset", "tiny", "--max-length", "32", "--vocab-size", "200", "--device", "cpu", "--epochs", "40"]
    arguments = ["train", "--train", data, "--output", tmp_path / "run", *settings]
    process = start(*arguments)
    assert process.stderr is not None
    for line in process.stderr:
        if "validation at" in line:
            break
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert time.monotonic() - started < 60
    assert "--resume" in err
    assert "Traceback" not in err
    assert list((tmp_path / "run" / "checkpoints").glob("checkpoint-*"))
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows, a spreadsheet, a model's name without a model, and a stopped run."""
    folder = tmp_path_factory.mktemp("early")
    write_csv(folder / "rows.csv", texts(6))
    (folder / "sheet.xlsx").write_bytes(b"PK\x03\x04")
    (folder / "full").mkdir()
    (folder / "full" / "notes.txt").write_text("mine")
    (folder / "stopped" / "checkpoints").mkdir(parents=True)
    return folder


EARLY = [
    ("train --train rows.csv --output new --preset large", "--preset must be one of tiny, small, base, paper"),
    ("train --train sheet.xlsx --output new", "sheet.xlsx: this is a spreadsheet; save it as csv"),
    ("train --train full --output new", "full: this is a folder"),
    ("train --train rows.csv --output full", "full holds something else (notes.txt"),
    ("train --train rows.csv --output stopped", "--resume to go on with it"),
    ("train --train none.csv --output new", "none.csv: there is no such file"),
    ("evaluate none --data rows.csv", "model folder none does not exist"),
    ("evaluate none --data rows.csv --errors wrong.xlsx", "choose one of these extensions"),
    ("predict stopped hello", "training run that was stopped"),
    ("predict none rows.csv", "rows.csv is a file: did you mean --input rows.csv?"),
    ("predict none --input sheet.xlsx", "model folder none does not exist"),
    ("explain none hello --output a.html", "model folder none does not exist"),
    ("bench none --data rows.csv --against tgi", "--against must name some of dense, hf, onnxruntime"),
    ("bench none --data rows.csv", "model folder none does not exist"),
    ("export none --format onnx --output a.onnx", "model folder none does not exist"),
    ("export stopped --format hub --output b", "training run that was stopped"),
    ("cost --preset large --length 9 --rows 9", "--preset must be one of"),
    ("cost --model none --length 9 --rows 9", "model folder none does not exist"),
]


def test_mistakes_that_need_no_model_are_said_before_torch_is_imported(place: Path) -> None:
    """All in one process without torch: any import of it would fail otherwise than with the words."""
    code = f"""
import os, sys
import budgetformer_command
from budgetformer.cli import run
os.chdir({str(place)!r})
sys.modules["torch"] = sys.modules["transformers"] = None
for command, _ in {EARLY!r}:
    assert run(command.split()) == 2
"""
    said = there(entry=[sys.executable, "-c", code])
    assert said.code == 0, said.err
    lines = said.err.splitlines()
    assert len(lines) == len(EARLY)
    for (command, words), line in zip(EARLY, lines, strict=True):
        assert words in line, command
    assert sorted(p.name for p in place.iterdir()) == ["full", "rows.csv", "sheet.xlsx", "stopped"]


def test_names_known_without_the_libraries_are_those_of_the_libraries() -> None:
    from budgetformer.bench.candidates import AGAINST
    from budgetformer.cli import bench, early
    from budgetformer.configuration import PRESETS, BudgetFormerConfig
    from budgetformer.data.names import NAMES
    from budgetformer.data.registry import SOURCES
    from budgetformer.model_folder import _MODEL_TYPE

    assert tuple(PRESETS) == early.PRESETS
    assert AGAINST == bench.AGAINST
    assert tuple(SOURCES) == NAMES
    assert BudgetFormerConfig.model_type == _MODEL_TYPE


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--budget", "25%"], "for 25 % give 0.25"),
        (["--max-budget", "12.5 %"], "for 12.5 % give 0.125"),
        (["--max-budget", "25"], "for 25 % give 0.25"),
        (["--budget", "half"], "such as 0.25 for a quarter of the heads"),
    ],
)
def test_a_budget_in_percent_is_answered_with_the_share(here: Here, options: list[str], words: str) -> None:
    assert words in here.mistake("predict", "runs/none", "hello", *options)


def test_a_text_that_is_the_name_of_a_file_can_still_be_classified(
    here: Here, model: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert "--input rows.csv" in here.mistake("predict", model, "nice", "rows.csv")
    assert here("predict", model, "rows.csv ", "full").code == 0


def test_a_written_file_leaves_a_stopped_run_of_the_same_name_alone(tmp_path: Path) -> None:
    stopped = tmp_path / "out.jsonl.partial"
    stopped.write_text("half a run")
    write_json(tmp_path / "out.jsonl", {"rows": 1})
    assert stopped.read_text() == "half a run"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "out.jsonl.partial"]
