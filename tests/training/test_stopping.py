"""Early stopping and signals at awkward moments."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from budgetformer import train
from budgetformer.training import Interrupted
from budgetformer.training.guards import StopOnSignal


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
