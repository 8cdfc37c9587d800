"""A run with all heads first and budgets after: rates, progress, what each part trains, groups of the optimiser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from budgetformer import BudgetFormerForSequenceClassification, BudgetSchedule, train
from budgetformer.training.phases import BEGUN, Phases
from budgetformer.training.trainer import BudgetTrainer, is_of_gates

from .test_schedule import Recorder, plain_trainer, rows

MakeModel = Callable[..., BudgetFormerForSequenceClassification]


@pytest.mark.parametrize(
    ("share", "updates", "first"), [(0, 10, 0), (1 / 3, 9, 3), (0.5, 1, 0), (0.99, 10, 9), (0.2, 10, 2)]
)
def test_budgets_begin_after_their_share_and_before_the_end(share: float, updates: int, first: int) -> None:
    assert Phases(share).first(updates) == first


def test_the_rate_rises_and_falls_in_each_phase() -> None:
    phases = Phases(0.5)
    rates = [phases.rate(i, updates=16, warmup=0.25) for i in range(17)]
    once = [0, 0.5, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    assert rates == pytest.approx([*once, *once, 0])


def test_where_budgets_began_is_kept_for_a_run_that_goes_on(tmp_path: Path) -> None:
    assert not Phases(0.5).restore(tmp_path, 10)
    phases = Phases(0.5)
    phases.begun = 6
    phases.keep(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [BEGUN]
    before, after = Phases(0.5), Phases(0.5)
    assert not before.restore(tmp_path, 6)
    assert before.first(100) == 50
    assert after.restore(tmp_path, 7)
    assert after.first(100) == 6
    (tmp_path / BEGUN).write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"budgets\.json cannot be read"):
        Phases().restore(tmp_path, 7)


def test_progress_begins_with_the_budgets(small_model: MakeModel, tmp_path: Path) -> None:
    recorder = Recorder()
    schedule = BudgetSchedule(Phases(0.5))
    model = small_model()
    plain_trainer(model, tmp_path, rows(16), schedule, recorder, per_device_train_batch_size=2).train()  # 24 updates
    assert recorder.progress == pytest.approx([0.0] * 12 + [i / 12 for i in range(12)])
    assert not model.all_heads


def test_before_the_budgets_the_loss_is_that_of_all_heads_and_the_nets_stay(small_model: MakeModel) -> None:
    model = small_model(hidden_dropout_prob=0.0, classifier_dropout=0.0, distillation=1.0, budget_sampling=0.5)
    ids, labels = torch.randint(5, 100, (8, 9)), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    with torch.no_grad():
        expected = F.cross_entropy(model(ids, budget=1.0).logits, labels)
    model.train().set_progress(0.0, all_heads=True)
    out = model(ids, labels=labels, teacher_logits=torch.randn(8, 3), output_budgets=True)
    torch.testing.assert_close(out.loss, expected, rtol=1e-5, atol=1e-6)
    assert set(out.heads.flatten().tolist()) == {4}
    out.loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert bool(parameter.grad.any()) != is_of_gates(name), name
    model.set_progress(0.0)
    assert model(ids, labels=labels, teacher_logits=torch.randn(8, 3)).loss > expected


def test_the_nets_have_their_learning_rate_and_the_rest_its_own(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[BudgetTrainer] = []
    create = BudgetTrainer.create_optimizer
    monkeypatch.setattr(BudgetTrainer, "create_optimizer", lambda self, *a: (seen.append(self), create(self, *a))[1])
    arguments = {"max_steps": 2, "learning_rate": 1e-3, "gate_learning_rate": 1e-2, "warmup": 0.0}
    train(train=small_csv, output=tmp_path / "m", **arguments, **tiny_settings)
    trainer = seen[0]
    names = {id(p): name for name, p in trainer.model.named_parameters()}
    found = [(names[id(p)], g) for g in trainer.optimizer.param_groups for p in g["params"]]
    assert sorted(name for name, _ in found) == sorted(names.values())
    for name, group in found:
        assert group["initial_lr"] == (1e-2 if is_of_gates(name) else 1e-3), name
        assert group["weight_decay"] == (0.01 if name.endswith("weight") and "norm" not in name else 0.0), name


def test_what_needs_a_pretrained_model_is_refused_without(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    for changes, said in (
        ({"dense_share": 0.5}, r"dense_share \(0\.5\) needs a pretrained model"),
        ({"config": {"distillation": 1.0}}, r"distillation \(1\.0\) needs a pretrained model"),
        ({"dense_share": 1.0}, r"dense_share must lie in \[0, 1\)"),
        ({"gate_learning_rate": 0.0}, "gate_learning_rate must be above 0"),
        ({"gate_learning_rate": 1.0, "config": {"budgeted": False}}, "has no effect with full attention"),
    ):
        with pytest.raises(ValueError, match=said):
            train(train=small_csv, output=tmp_path / "m", **(tiny_settings | changes))
        assert not (tmp_path / "m").exists()
