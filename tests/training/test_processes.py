"""Two processes (gloo) train as one, and leave together."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from budgetformer import train
from budgetformer.training.checkpoints import newest_checkpoint

from ..conftest import sentences

pytestmark = pytest.mark.slow


def test_two_processes_train_together_and_agree(
    write_csv: Callable[..., Path], tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    data = write_csv(sentences(64, labels=["praise", "refund"]))  # four updates of 16
    held_out = write_csv(sentences(21, labels=["praise", "refund"], seed=1), name="v.csv")  # a batch of 16 and one of 5
    config = tiny_settings["config"] | {"sigma_max": 0.0}
    settings = tiny_settings | {"train": str(data), "max_steps": 6, "eval_steps": 3, "config": config}
    settings |= {"validation": str(held_out)}
    code = f"""
import torch, torch.distributed as dist
from budgetformer import train
import budgetformer.training.runner as run
built = run.build_trainer
kept = []
run.build_trainer = lambda *a: kept.append(built(*a)) or kept[-1]
train(**{settings!r}, output={str(tmp_path / "two")!r})
flat = torch.cat([p.detach().flatten() for p in kept[0].model.parameters()])
both = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
dist.all_gather(both, flat)
assert torch.equal(both[0], both[1]), (both[0] - both[1]).abs().max()
print("agree")
"""
    script = tmp_path / "two.py"
    script.write_text(code)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--standalone",
        str(script),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=500, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("agree") == 2
    train(**(settings | {"batch_size": 16}), output=tmp_path / "one")
    a, b = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert set(a) == set(b)
    for name, value in a.items():
        torch.testing.assert_close(b[name], value, atol=1e-4, rtol=1e-3, msg=name)
    one, two = (json.loads((tmp_path / name / "training.json").read_text())["validation"] for name in ("one", "two"))
    for name in ("mean_budget", "macs_dense"):  # of the 21 rows, not of those that fill the last batch too
        assert two[name] == pytest.approx(one[name], rel=1e-4)


def test_of_two_processes_one_is_told_to_stop_and_both_leave_at_the_same_update(
    write_csv: Callable[..., Path], tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    data = write_csv(sentences(70, labels=["praise", "refund"]))
    settings = tiny_settings | {"train": str(data), "output": str(tmp_path / "m"), "max_steps": 100_000}
    script = tmp_path / "two.py"
    script.write_text(
        "import os, signal\n"
        "from budgetformer import train\n"
        "from budgetformer.training import Interrupted\n"
        "from budgetformer.training.trainer import BudgetTrainer\n"
        "original = BudgetTrainer.training_step\n"
        "def step(self, *args, **kwargs):\n"
        "    if self.state.global_step == 7 and os.environ['RANK'] == '1':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return original(self, *args, **kwargs)\n"
        "BudgetTrainer.training_step = step\n"
        f"try: train(**{settings!r})\n"
        "except Interrupted as stopped: print(stopped)\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", str(script)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("checkpoint-8.") == 2
    assert newest_checkpoint(tmp_path / "m") == tmp_path / "m" / "checkpoints" / "checkpoint-8"


def test_of_two_processes_one_has_a_loss_that_is_not_finite_and_both_leave_at_that_update(
    write_csv: Callable[..., Path], tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    data = write_csv(sentences(70, labels=["praise", "refund"]))
    settings = tiny_settings | {"train": str(data), "output": str(tmp_path / "m"), "max_steps": 20, "eval_steps": 2}
    script = tmp_path / "two.py"
    script.write_text(
        "import os\n"
        "from budgetformer import train\n"
        "from budgetformer.training import NonFiniteError\n"
        "from budgetformer.training.trainer import BudgetTrainer\n"
        "original = BudgetTrainer.compute_loss\n"
        "def broken(self, *args, **kwargs):\n"
        "    loss = original(self, *args, **kwargs)\n"
        "    there = self.state.global_step == 4 and self.model.training and os.environ['RANK'] == '1'\n"
        "    return loss + float('nan') if there else loss\n"
        "BudgetTrainer.compute_loss = broken\n"
        f"try: train(**{settings | {'gradient_accumulation': 2}!r})\n"
        "except NonFiniteError as stopped: print(stopped)\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", str(script)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("update 5: the loss is not finite") == 2
    assert newest_checkpoint(tmp_path / "m") == tmp_path / "m" / "checkpoints" / "checkpoint-4"
    assert not (tmp_path / "m" / "model.safetensors").exists()


def test_the_command_trains_on_two_machines_as_in_two_processes_of_one(
    write_csv: Callable[..., Path], tmp_path: Path
) -> None:
    """Two launchers that find each other stand for two machines."""
    data = write_csv(sentences(72, labels=["praise", "refund"]))
    options = ["--preset", "tiny", "--vocab-size", "200", "--max-length", "24", "--batch-size", "8", "--max-steps", "4"]
    train = ["-m", "budgetformer", "train", "--train", str(data), *options, "--device", "cpu", "--quiet", "--output"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meeting = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", port]
    machines = [
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *meeting, "--node-rank", rank, *train, str(tmp_path / "a")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in ("0", "1")
    ]
    try:
        ends = [machine.communicate(timeout=300) for machine in machines]
    finally:
        for machine in machines:
            machine.kill()
    assert [machine.returncode for machine in machines] == [0, 0], [err[-2000:] for _, err in ends]
    alone = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*alone, *train, str(tmp_path / "b")], capture_output=True, text=True, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    a, b = (load_file(tmp_path / name / "model.safetensors") for name in ("a", "b"))
    assert set(a) == set(b)
    for name, value in a.items():
        torch.testing.assert_close(b[name], value, atol=1e-5, rtol=1e-4, msg=name)
