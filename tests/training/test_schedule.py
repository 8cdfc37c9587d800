"""t/T follows the real number of updates, in the project's Trainer and in a plain one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from budgetformer import BudgetSchedule
from budgetformer.objective import classification_loss
from budgetformer.training import NonFiniteError


def rows(n: int) -> Dataset:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 100, (n, 6), generator=generator)
    return Dataset.from_dict(
        {"input_ids": ids.tolist(), "attention_mask": [[1] * 6] * n, "labels": [i % 3 for i in range(n)]}
    )


class Recorder(TrainerCallback):
    """Notes progress and learning rate at every update."""

    def __init__(self) -> None:
        self.progress: list[float] = []
        self.rates: list[float] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.progress.append(kwargs["model"].progress)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.rates.append(kwargs["lr_scheduler"].get_last_lr()[0])


def plain_trainer(model: Any, folder: Path, data: Dataset, *callbacks: TrainerCallback, **arguments: Any) -> Trainer:
    defaults = {"learning_rate": 1e-3, "use_cpu": True, "report_to": [], "save_strategy": "no", "disable_tqdm": True}
    return Trainer(
        model=model,
        args=TrainingArguments(output_dir=str(folder), **(defaults | arguments)),
        train_dataset=data,
        callbacks=list(callbacks),
    )


@pytest.mark.parametrize(
    ("n", "arguments", "updates"),
    [
        (9, {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "num_train_epochs": 3}, 9),
        (3, {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8, "num_train_epochs": 1}, 1),
        (9, {"per_device_train_batch_size": 4, "max_steps": 7}, 7),
    ],
)
def test_progress_counts_real_updates_and_the_rate_ends_at_zero(
    small_model: Any, tmp_path: Path, n: int, arguments: dict[str, Any], updates: int
) -> None:
    recorder = Recorder()
    trainer = plain_trainer(small_model(), tmp_path, rows(n), BudgetSchedule(), recorder, **arguments)
    trainer.train()
    assert recorder.progress == pytest.approx([i / updates for i in range(updates)])
    assert recorder.rates[-1] == 0
    assert trainer.model.progress == 1.0


def test_a_plain_trainer_logs_the_losses_and_what_every_layer_does(small_model: Any, tmp_path: Path) -> None:
    trainer = plain_trainer(small_model(), tmp_path, rows(8), BudgetSchedule(), max_steps=3, logging_steps=1)
    trainer.train()
    first = trainer.state.log_history[0]
    assert {"task_loss", "budget_loss", "price_loss", "entropy_loss", "tau", "mean_budget", "grad_norm"} <= set(first)
    assert 0 <= first["accuracy"] <= 1
    for layer in range(3):
        names = {f"layer_{layer}/{x}" for x in ("budget", "heads", "entropy", "effective_heads", "distinct_heads")}
        assert names <= set(first)
    assert first["tau"] == pytest.approx(2.0)
    total = first["task_loss"] + first["budget_loss"] + first["price_loss"] + first["entropy_loss"]
    assert first["loss"] == pytest.approx(total, abs=1e-4)
    assert first["layer_0/effective_heads"] == pytest.approx(
        torch.tensor(first["layer_0/entropy"]).exp().item(), rel=1e-4
    )


def test_training_without_the_schedule_says_so_once(
    small_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model()
    records: list[str] = []
    monkeypatch.setattr("budgetformer.modeling.logger.warning", lambda text, *a: records.append(text))
    plain_trainer(model, tmp_path, rows(8), max_steps=3).train()
    assert len(records) == 1
    assert "BudgetSchedule" in records[0]


def test_smoothing_by_the_trainer_which_drops_the_models_losses_is_refused(small_model: Any, tmp_path: Path) -> None:
    trainer = plain_trainer(small_model(), tmp_path, rows(8), BudgetSchedule(), label_smoothing_factor=0.1, max_steps=1)
    with pytest.raises(ValueError, match="label_smoothing in the model's configuration"):
        trainer.train()


class BreaksAt(TrainerCallback):
    """Makes the loss of one update NaN, through the gradients of the last layer."""

    def __init__(self, update: int) -> None:
        self.update = update
        self.handle: Any = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step + 1 == self.update:
            self.handle = kwargs["model"].classifier.register_forward_hook(lambda m, i, o: o * float("nan"))


def test_a_nan_loss_stops_a_plain_trainer_at_that_update_with_finite_weights(small_model: Any, tmp_path: Path) -> None:
    model = small_model()
    trainer = plain_trainer(model, tmp_path, rows(9), BudgetSchedule(), BreaksAt(2), max_steps=9)
    with pytest.raises(NonFiniteError, match="update 2"):
        trainer.train()
    assert trainer.state.global_step == 1
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("batch", [4, 6])
def test_a_loss_that_is_not_finite_stops_a_plain_trainer_though_the_gradients_are(
    small_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float, batch: int
) -> None:
    """Batches 4 to 6 are those of the second update."""
    seen = []

    def broken(*args: Any, **kwargs: Any) -> torch.Tensor:
        seen.append(1)
        return classification_loss(*args, **kwargs) + (value if len(seen) == batch else 0.0)

    monkeypatch.setattr("budgetformer.modeling.classification_loss", broken)
    arguments = {"gradient_accumulation_steps": 3, "per_device_train_batch_size": 1, "max_steps": 3}
    trainer = plain_trainer(small_model(), tmp_path, rows(9), BudgetSchedule(), **arguments)
    with pytest.raises(NonFiniteError, match=r"update 2: the loss is not finite. The update was not made"):
        trainer.train()
    assert trainer.state.global_step == 1


class LossOfItsOwn(Trainer):
    """A plain Trainer whose own addition to the loss becomes NaN in the second update."""

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        loss = super().compute_loss(*args, **kwargs)
        return loss + float("nan") if self.state.global_step == 1 else loss


@pytest.mark.parametrize(("logging", "said"), [(1, "update 2"), (500, "update 1 to 4")])
def test_what_a_trainer_adds_to_the_loss_is_seen_before_it_is_logged_or_saved(
    small_model: Any, tmp_path: Path, logging: int, said: str
) -> None:
    settings = {"logging_steps": logging, "save_strategy": "steps", "save_steps": 4, "max_steps": 8}
    trainer = LossOfItsOwn(
        model=small_model(),
        args=TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[], disable_tqdm=True, **settings),
        train_dataset=rows(9),
        callbacks=[BudgetSchedule()],
    )
    with pytest.raises(NonFiniteError, match=f"{said}: the loss is not finite"):
        trainer.train()
    assert not list(tmp_path.glob("checkpoint-*"))


def test_accumulated_updates_equal_one_large_batch(small_model: Any, tmp_path: Path) -> None:
    def trained(**arguments: Any) -> dict[str, torch.Tensor]:
        model = small_model(hidden_dropout_prob=0.0, classifier_dropout=0.0, sigma_max=0.0)
        plain_trainer(
            model, tmp_path, rows(12), BudgetSchedule(), max_steps=3, optim="sgd", learning_rate=0.1, **arguments
        ).train()
        return model.state_dict()

    together = trained(per_device_train_batch_size=12)
    accumulated = trained(per_device_train_batch_size=5, gradient_accumulation_steps=3)
    for name, value in together.items():
        torch.testing.assert_close(accumulated[name], value, atol=2e-5, rtol=1e-4, msg=name)
