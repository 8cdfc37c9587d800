"""Help without torch, exit codes, and one line for each mistake."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("command", ["train", "evaluate", "predict", "export", "cost", "demo", "doctor"])
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
    endless = ["--preset", "tiny", "--max-length", str(10**12), "--vocab-size", "200", "--max-steps", "1"]
    outcome = here("train", "--train", data, "--output", tmp_path / "run", *endless)
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
