"""``--batch-tokens``, ``--threads`` and ``--max-length`` of the commands that answer texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from budgetformer import BudgetFormerConfig, Classifier
from budgetformer.cli.running import Running
from budgetformer.serving.settings import usable_cores

from .commands import Here

COMMANDS = ("evaluate", "bench", "predict", "curve")


@pytest.fixture(autouse=True)
def threads_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def arguments(command: str, model: Path, data: Path) -> list[object]:
    if command == "predict":
        return ["predict", model, "--input", data]
    if command == "curve":
        return ["bench", model, "--data", data, "--curve", "--rows", 6]
    speed = ["--rows", 6, "--rounds", 1, "--latency-texts", 0, "--against", "none"] if command == "bench" else []
    return [command, model, "--data", data, *speed]


@pytest.mark.parametrize("command", COMMANDS)
def test_batches_and_threads_are_those_asked_for(
    here: Here, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    seen: set[tuple[int, int, int]] = set()
    original = Classifier._batches

    def watched(self: Classifier, *given: Any) -> Iterator[list[int]]:
        seen.add((self.batch_tokens, self.workers, torch.get_num_threads()))
        return original(self, *given)

    monkeypatch.setattr(Classifier, "_batches", watched)
    torch.set_num_threads(2)
    outcome = here(*arguments(command, model, data), "--device", "cpu", "--batch-tokens", 77, "--threads", 1)
    assert outcome.code == 0, outcome.err
    assert seen == {(77, 1, 1)}
    assert "more than the" not in outcome.err


def test_more_threads_than_cores_are_taken_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert Running(threads=usable_cores() + 1).take() == {}
    assert torch.get_num_threads() == usable_cores() + 1
    assert f"is more than the {usable_cores()} cores here" in capsys.readouterr().err


def test_the_answers_stay_the_same(here: Here, model: Path, data: Path) -> None:
    few, many = (
        [json.loads(line) for line in here("predict", model, "--input", data, *options).out.splitlines()]
        for options in (["--batch-tokens", 1, "--threads", 1], [])
    )
    assert len(few) == len(many) == 60
    for one, other in zip(few, many, strict=True):
        assert (one["label"], one["heads"], one["macs"]) == (other["label"], other["heads"], other["macs"])


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--batch-tokens", "0"], "--batch-tokens must be at least 1, got 0"),
        (["--threads", "0"], "--threads must be between 1 and 4096, got 0"),
        (["--threads", "5000"], "--threads must be between 1 and 4096, got 5000"),
        (["--threads", "two"], "valid integer"),
    ],
)
def test_numbers_that_cannot_be_are_refused(
    here: Here, model: Path, data: Path, command: str, options: list[str], words: str
) -> None:
    assert words in here.mistake(*arguments(command, model, data), *options)


def test_texts_are_cut_where_it_is_asked(here: Here, model: Path, tmp_path: Path) -> None:
    data, figures = tmp_path / "long.csv", tmp_path / "figures.json"
    positions = BudgetFormerConfig.from_pretrained(model).max_position_embeddings
    data.write_text("text,label\n" + f"{'good ' * positions},{Classifier.from_pretrained(model).labels[0]}\n" * 6)
    costs = []
    for length in (4, positions):
        for command in ("evaluate", "bench", "curve"):
            given = [*arguments(command, model, data), "--max-length", length, "--json", figures]
            assert here(*given).code == 0
            found = json.loads(figures.read_text(encoding="utf-8"))
            if command != "curve":
                assert found["max_length"] == length
                costs.append(found["macs"] if command == "evaluate" else found["rows"][0]["macs"])
    assert costs[0] == costs[1] < costs[2] == costs[3]
    for length in (1, 2, positions + 1):
        message = here.mistake(*arguments("bench", model, data), "--max-length", length)
        assert f"max_length must be between 3 and {positions}, the model's positions, got {length}" in message
    message = here.mistake(*arguments("curve", model, data), "--max-length", 4, "--card")
    assert "--max-length has no effect with --card" in message


@pytest.mark.parametrize(("option", "words"), [("--batch-tokens", "with --engine ray"), ("--threads", "--cpus-per")])
def test_they_have_no_effect_on_ray(here: Here, model: Path, data: Path, option: str, words: str) -> None:
    message = here.mistake("predict", model, "--input", data, "--output", "out", "--engine", "ray", option, 2)
    assert f"{option} has no effect" in message
    assert words in message
