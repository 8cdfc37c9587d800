"""FSDP: two processes that share a model train what two that each hold it do, and go on after a stop.

``accelerate`` shards on GPUs only. Here the launched programs tell it that their two processes on a CPU are GPUs: what
shards, gathers, saves and loads is the real code, over gloo.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from budgetformer import Classifier, train
from budgetformer.training.checkpoints import damage, newest_checkpoint

from ..conftest import sentences

PROGRAM = """
import json, sys
from accelerate.state import PartialState
from accelerate.utils import DistributedType
import budgetformer.training.runner as runner
import budgetformer.training.sharding as sharding
from torch.distributed.tensor import DTensor

settings = json.loads(sys.argv[1])
built = runner.build_trainer
kept = []

def build(settings, model, arguments, *rest):
    if settings.fsdp:
        assert arguments.device.type == "cpu"  # makes the state that is changed next
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    kept.append(built(settings, model, arguments, *rest))
    return kept[-1]

sharding.DEVICES = ("cuda", "cpu")
runner.build_trainer = build
runner.train(**settings)
if settings.get("fsdp"):
    shared = [p for p in kept[0].model.parameters() if isinstance(p, DTensor)]
    assert len(shared) == len(list(kept[0].model.parameters()))
    assert sum(p.to_local().numel() for p in shared) < 0.6 * sum(p.numel() for p in shared)
    print("shared")
"""


def launched(program: Path, settings: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    program.write_text(PROGRAM)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launcher, str(program), json.dumps(settings)],
        capture_output=True,
        text=True,
        timeout=500,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def assert_same_weights(one: Path, two: Path, *, atol: float) -> None:
    a, b = load_file(one / "model.safetensors"), load_file(two / "model.safetensors")
    assert set(a) == set(b)
    for name, value in a.items():
        torch.testing.assert_close(b[name], value, atol=atol, rtol=1e-3, msg=name)


@pytest.mark.slow
def test_bf16_is_that_of_a_model_that_each_process_holds(
    write_csv: Callable[..., Path], tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    """With weights, budgets and gradients in float32, as docs/training.md says."""
    data = str(write_csv(sentences(48, labels=["praise", "refund"])))
    config = tiny_settings["config"] | {"sigma_max": 0.0}
    settings = tiny_settings | {"train": data, "max_steps": 3, "config": config, "precision": "bf16"}
    for name, fsdp in (("held", False), ("shared", True)):
        launched(tmp_path / "program.py", settings | {"output": str(tmp_path / name), "fsdp": fsdp})
    launched(tmp_path / "program.py", settings | {"output": str(tmp_path / "exact"), "precision": "float32"})
    held, shared, exact = (load_file(tmp_path / n / "model.safetensors") for n in ("held", "shared", "exact"))
    assert all(value.dtype == torch.float32 for value in shared.values())

    def apart(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
        return sum(float((one[name] - other[name]).norm() ** 2) for name in one) ** 0.5

    assert apart(held, exact) > 0  # bf16 was really there
    assert apart(shared, held) < 0.2 * apart(held, exact)


@pytest.mark.slow
def test_a_shared_model_is_trained_as_one_that_each_process_holds_and_goes_on_after_a_stop(
    write_csv: Callable[..., Path], tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    data = write_csv(sentences(64, labels=["praise", "refund"]))
    held_out = write_csv(sentences(21, labels=["praise", "refund"], seed=1), name="v.csv")
    config = tiny_settings["config"] | {"sigma_max": 0.0}
    settings = tiny_settings | {"train": str(data), "validation": str(held_out), "max_steps": 6, "eval_steps": 3}
    settings |= {"config": config, "target_accuracy_drop": 5.0}
    for name, fsdp in (("held", False), ("shared", True)):
        done = launched(tmp_path / "program.py", settings | {"output": str(tmp_path / name), "fsdp": fsdp})
        assert done.stdout.count("shared") == (2 if fsdp else 0)
        assert "view tensor" not in done.stderr
    assert_same_weights(tmp_path / "held", tmp_path / "shared", atol=1e-4)
    records = [json.loads((tmp_path / name / "training.json").read_text()) for name in ("held", "shared")]
    assert records[1]["validation"]["loss"] == pytest.approx(records[0]["validation"]["loss"], rel=1e-4)
    assert records[1]["default_budget"] == records[0]["default_budget"]
    answer = Classifier.from_pretrained(tmp_path / "shared")("great product")
    assert answer.label in ("praise", "refund")

    went_on = tmp_path / "went_on"
    shutil.copytree(tmp_path / "shared" / "checkpoints", went_on / "checkpoints")
    shutil.rmtree(went_on / "checkpoints" / "checkpoint-6")
    newest = newest_checkpoint(went_on)
    assert newest == went_on / "checkpoints" / "checkpoint-3"
    told = settings | {"output": str(went_on), "fsdp": True, "resume": True, "quiet": False}
    assert "going on from" in launched(tmp_path / "program.py", told).stderr
    assert_same_weights(tmp_path / "shared", went_on, atol=0)

    (newest / "pytorch_model_fsdp.bin").unlink()
    assert damage(newest) == "pytorch_model_fsdp.bin is missing or empty"


@pytest.mark.parametrize(
    ("processes", "reason"),
    [
        ("1", "fsdp shares a model among several processes, and this is one: start the command with torchrun"),
        ("2", "fsdp needs a GPU for each process, and this run computes on cpu: leave it out"),
    ],
)
def test_where_it_cannot_work_it_is_refused_before_data_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: str, reason: str
) -> None:
    monkeypatch.setenv("WORLD_SIZE", processes)
    with pytest.raises(ValueError, match=reason):
        train(train=tmp_path / "not there.csv", output=tmp_path / "m", device="cpu", fsdp=True)
    assert not (tmp_path / "m").exists()
