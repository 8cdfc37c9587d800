"""Under torchrun two processes share every training, with the updates of one, and one of them writes the rows."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from budgetformer.reporting.results import read_rows
from budgetformer_paper.processes import FirstFailed, Processes, ProcessFailed
from budgetformer_paper.run import Running, reproduce

LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
PROGRAM = """
import sys
from dataclasses import replace
from pathlib import Path
from accelerate.state import PartialState
from accelerate.utils import DistributedType
import budgetformer.training.runner as runner
import budgetformer.training.sharding as sharding
from budgetformer_paper.processes import Processes
from budgetformer_paper.recipes import experiments
from budgetformer_paper.run import Running, reproduce
from budgetformer_paper.scales import smoke

def still(recipe):
    drawn = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "sigma_max")
    quiet = dict.fromkeys(drawn, 0.0)
    return replace(recipe, training=replace(recipe.training, config=recipe.training.config | quiet))

def recipes():
    rows = {recipe.label: smoke(recipe) for recipe in experiments(["ag_news"])["table2"]}
    return [still(rows["table2/ag_news/" + name]) for name in ("transformer", "budgetformer")]

def build(settings, model, arguments, *rest, built=runner.build_trainer):
    if settings.fsdp:  # accelerate shards on GPUs only: it is told that these processes are some
        assert arguments.device.type == "cpu"
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    return built(settings, model, arguments, *rest)

sharding.DEVICES = ("cuda", "cpu")
runner.build_trainer = build

def go(work, data, fsdp=False):
    running = Running(results=Path(work) / "rows.jsonl", work=Path(work) / "work", data_folder=Path(data), device="cpu",
                      quiet=True, fsdp=bool(fsdp), processes=Processes.of_environment())
    return reproduce(recipes(), seeds=1, running=running)

if __name__ == "__main__":
    print("outcome", go(*sys.argv[1:]))
"""


def launched(count: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAUNCH, str(count), *map(str, arguments)], capture_output=True, text=True, timeout=500, env=dict(os.environ)
    )


@pytest.mark.slow
def test_two_processes_give_the_updates_of_one_and_one_row(data_folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = launched(2, program, tmp_path / "two", data_folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("written=2, skipped=0, failed=[]") == 2
    alone = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "one"), str(data_folder)], capture_output=True, text=True
    )
    assert alone.returncode == 0, alone.stderr[-3000:]
    one, two = (read_rows(tmp_path / name / "rows.jsonl") for name in ("one", "two"))
    assert [row["recipe"] for row in two] == [row["recipe"] for row in one]
    assert [(row["processes"], other["processes"]) for row, other in zip(one, two, strict=True)] == [(1, 2)] * 2
    assert [row["updates"] for row in two] == [row["updates"] for row in one]
    assert [row["digest"] for row in two] == [row["digest"] for row in one]
    weights = [sorted((tmp_path / name / "work/models/smoke").glob("*/model.safetensors")) for name in ("one", "two")]
    assert len(weights[0]) == len(weights[1]) == 2
    for mine, other in zip(*weights, strict=True):
        expected = load_file(other)
        for name, value in load_file(mine).items():
            torch.testing.assert_close(value, expected[name], atol=1e-4, rtol=1e-3, msg=name)
    shared = launched(2, program, tmp_path / "shared", data_folder, "fsdp")
    assert shared.returncode == 0, shared.stderr[-3000:]
    assert [row["fsdp"] for row in read_rows(tmp_path / "shared" / "rows.jsonl")] == [True, True]
    for mine in weights[1]:
        expected = load_file(tmp_path / "shared" / mine.relative_to(tmp_path / "two"))
        for name, value in load_file(mine).items():
            torch.testing.assert_close(value, expected[name], atol=1e-4, rtol=1e-3, msg=name)
    again = launched(2, program, tmp_path / "two", data_folder)
    assert again.stdout.count("written=0, skipped=2") == 2, again.stderr[-2000:]


@pytest.mark.slow
def test_the_command_works_under_torchrun_and_says_everything_once(data_folder: Path, tmp_path: Path) -> None:
    options = ["--scale", "smoke", "--data", "ag_news", "--only", "transformer", "--data-folder", data_folder]
    options += ["--results", tmp_path / "rows.jsonl", "--work", tmp_path / "work", "--device", "cpu"]
    done = launched(2, "-m", "budgetformer", "reproduce", "table2", *options)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("1 rows added") == 1
    assert done.stderr.count("[1/1] table2/ag_news/transformer") == 1
    (row,) = read_rows(tmp_path / "rows.jsonl")
    assert row["processes"] == 2


def test_a_batch_that_cannot_be_shared_is_refused_before_any_work(
    running: Running, request: pytest.FixtureRequest
) -> None:
    from budgetformer_paper.recipes import experiments
    from budgetformer_paper.scales import smoke

    recipes = [smoke(recipe) for recipe in experiments(["ag_news"])["table2"]]
    with pytest.raises(ValueError, match="16 rows cannot be shared evenly by 3 processes"):
        reproduce(recipes, seeds=1, running=replace(running, processes=Processes(rank=0, count=3)))
    assert not running.results.exists()


def test_what_fsdp_cannot_share_is_refused_before_any_work(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from budgetformer_paper.recipes import experiments
    from budgetformer_paper.scales import smoke

    table = [smoke(recipe) for recipe in experiments(["ag_news"])["table2"]]
    with pytest.raises(ValueError, match="this is one: start the command with torchrun"):
        reproduce(table, seeds=1, running=replace(running, fsdp=True))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr("budgetformer.training.sharding.DEVICES", ("cuda", "cpu"))
    for experiment, reason in (("minilm", "from random weights only"), ("cost", "no effect on cost")):
        recipes = [smoke(recipe) for recipe in experiments(["ag_news"])[experiment]]
        with pytest.raises(ValueError, match=reason):
            reproduce(recipes, seeds=1, running=replace(running, fsdp=True, device="cpu"))
    assert not running.results.exists()


def test_alone_the_first_is_the_only_one_and_errors_stay_what_they_are() -> None:
    alone = Processes()
    assert alone.is_first
    assert alone.share(7) == 7
    assert alone.first(lambda: 5) == 5
    with pytest.raises(KeyError), alone.together():
        raise KeyError("x")
    with pytest.raises(ProcessFailed, match="KeyError in process 1"), Processes(rank=1, count=2).together():
        raise KeyError("x")
    with pytest.raises(ArithmeticError), Processes(rank=1, count=2).together():
        raise ArithmeticError("a loss that is no number")


@pytest.mark.slow
def test_an_error_of_the_first_reaches_the_others(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from budgetformer_paper.processes import FirstFailed, Processes\n"
        "mine = Processes.of_environment()\n"
        "def fail(): raise ValueError('no such data')\n"
        "with mine.joined('cpu'):\n"
        "    try: mine.first(fail)\n"
        "    except (ValueError, FirstFailed) as error: print(mine.rank, type(error).__name__, error)\n"
        "    print(mine.rank, mine.first(lambda: mine.rank))\n"
    )
    done = launched(2, program)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "0 ValueError no such data" in done.stdout
    assert f"1 {FirstFailed.__name__} no such data" in done.stdout
    assert "1 0\n" in done.stdout
