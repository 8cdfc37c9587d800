"""Early stopping and signals at awkward moments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgetformer import train
from budgetformer.training import Interrupted
from budgetformer.training.folder import newest_checkpoint
from budgetformer.training.guards import StopOnSignal

from ..conftest import sentences


def test_a_resumed_run_goes_on_counting_with_the_patience_it_is_given(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    # At this rate nothing is learned, so no evaluation after the first is better.
    run = {"train": small_csv, "output": tmp_path / "m", "learning_rate": 1e-12, "eval_steps": 2, **tiny_settings}
    train(**run, max_steps=6, patience=50)
    history = train(**run, max_steps=40, patience=4, resume=True).history
    scores = [row["eval_score"] for row in history if "eval_score" in row]
    assert 5 <= len(scores) < 12


def test_a_signal_between_update_and_end_of_epoch_loses_nothing(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = StopOnSignal.on_epoch_end

    def late(self: StopOnSignal, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.signal = signal.SIGTERM
        original(self, args, state, control, **kwargs)

    monkeypatch.setattr(StopOnSignal, "on_epoch_end", late)
    with pytest.raises(Interrupted, match="checkpoint-6"):
        train(train=small_csv, output=tmp_path / "m", epochs=3, **tiny_settings)


@pytest.mark.slow
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
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("checkpoint-8.") == 2
    assert newest_checkpoint(tmp_path / "m") == tmp_path / "m" / "checkpoints" / "checkpoint-8"
