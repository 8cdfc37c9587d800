"""The order of the rows: similar lengths together, a function of seed and epoch, the rest of it after resuming."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from budgetformer import train
from budgetformer.training.order import EpochOrder
from budgetformer.training.trainer import BudgetTrainer


def order(epoch: int, *, seed: int = 0) -> list[int]:
    return list(EpochOrder(lengths=[i % 17 for i in range(100)], group=8, seed=seed, epoch=lambda: epoch))


def test_every_epoch_has_an_order_of_its_own_whatever_was_drawn_before() -> None:
    first = order(0)
    torch.rand(5)
    assert order(0) == first
    assert sorted(first) == sorted(order(1)) == list(range(100))
    assert len({tuple(order(epoch, seed=seed)) for epoch in range(3) for seed in range(3)}) == 9


def test_rows_of_one_update_have_similar_lengths() -> None:
    lengths = [i % 17 for i in range(100)]
    spans = [max(part) - min(part) for part in ([lengths[i] for i in order(0)[n : n + 8]] for n in range(8, 96, 8))]
    assert sum(spans) / len(spans) < 8


def test_a_run_that_is_resumed_in_a_later_epoch_reads_the_rest_of_that_epoch(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []
    original = BudgetTrainer.training_step

    def noted(self: Any, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        seen.append(inputs["input_ids"].clone())
        return original(self, model, inputs, *args, **kwargs)

    monkeypatch.setattr(BudgetTrainer, "training_step", noted)
    tiny_settings |= {"config": tiny_settings["config"] | {"hidden_dropout_prob": 0.1}}
    run = {"train": small_csv, "output": tmp_path / "m", "max_steps": 18, "eval_steps": 9, **tiny_settings}
    train(**run)
    whole = list(seen)
    assert len(whole) == 18  # six updates an epoch: the ninth is in the second
    shutil.rmtree(tmp_path / "m" / "checkpoints" / "checkpoint-18")
    seen.clear()
    train(**run, resume=True)
    assert len(seen) == 9
    assert all(torch.equal(a, b) for a, b in zip(seen, whole[9:], strict=True))
