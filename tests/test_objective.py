"""The training loss: smoothing, class weights, rows without a label, a single class."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from budgetformer import BudgetFormerConfig
from budgetformer.configuration import IGNORED
from budgetformer.objective import TrainingStatistics, classification_loss, distillation_loss, regularisers


def config(**changes: Any) -> BudgetFormerConfig:
    return BudgetFormerConfig(**({"num_labels": 3} | changes))


LOGITS = torch.tensor([[2.0, 0.5, -1.0], [0.1, 0.2, 0.3], [-1.0, 3.0, 0.0]])
LABELS = torch.tensor([0, 2, 1])


def test_the_loss_is_the_cross_entropy_by_hand() -> None:
    rows = zip(LOGITS.tolist(), LABELS.tolist(), strict=True)
    by_hand = -sum(math.log(math.exp(row[label]) / sum(map(math.exp, row))) for row, label in rows) / 3
    assert float(classification_loss(LOGITS, LABELS, config())) == pytest.approx(by_hand, abs=1e-6)


def test_smoothing_spreads_its_share_evenly() -> None:
    plain, logs = F.cross_entropy(LOGITS, LABELS), -F.log_softmax(LOGITS, dim=-1).mean()
    smoothed = classification_loss(LOGITS, LABELS, config(label_smoothing=0.1))
    assert float(smoothed) == pytest.approx(float(0.9 * plain + 0.1 * logs), abs=1e-6)


def test_the_weight_of_one_class_does_not_change_the_rows_of_others() -> None:
    rows, labels = LOGITS[[0, 2]], LABELS[[0, 2]]  # classes 0 and 1
    light, heavy = config(label_smoothing=0.1), config(label_smoothing=0.1, class_weights=[1.0, 1.0, 100.0])
    assert torch.equal(classification_loss(rows, labels, light), classification_loss(rows, labels, heavy))
    assert float(classification_loss(LOGITS[1:2], LABELS[1:2], heavy)) == pytest.approx(
        100 * float(classification_loss(LOGITS[1:2], LABELS[1:2], light)), rel=1e-6
    )


def test_rows_without_a_label_count_for_nothing() -> None:
    labels = torch.tensor([0, IGNORED, 1])
    known = classification_loss(LOGITS[[0, 2]], LABELS[[0, 2]], config())
    assert torch.equal(classification_loss(LOGITS, labels, config()), known)
    logits = LOGITS.clone().requires_grad_()
    loss = classification_loss(logits, torch.full((3,), IGNORED), config(class_weights=[1.0, 2.0, 0.0]))
    loss.backward()
    assert loss.item() == 0.0
    assert not logits.grad.any()


@pytest.mark.parametrize("label", [-1, 3, 100])
def test_a_label_outside_the_classes_is_named(label: int) -> None:
    with pytest.raises(ValueError, match=rf"labels must be -100 or 0\.\.2, got {label}"):
        classification_loss(LOGITS, torch.tensor([0, 1, label]), config())


def test_parts_of_an_update_add_up_to_the_whole() -> None:
    whole = classification_loss(LOGITS, LABELS, config(label_smoothing=0.1))
    parts = [
        classification_loss(LOGITS[i : i + 1], LABELS[i : i + 1], config(label_smoothing=0.1), rows=3) for i in range(3)
    ]
    assert float(sum(parts)) == pytest.approx(float(whole), abs=1e-6)


def test_a_batch_without_labels_is_no_nan_in_the_log(small_model: Any) -> None:
    model = small_model().train()
    model.set_progress(0.5)
    ids = torch.randint(5, 100, (2, 4))
    loss = model(ids, labels=torch.tensor([IGNORED, IGNORED]), num_items_in_batch=torch.tensor(3)).loss
    assert loss.item() == 0.0
    assert model.statistics.pop()["task_loss"] == 0.0


def test_a_single_class_is_no_regression(small_model: Any) -> None:
    model = small_model(num_labels=1)
    output = model(torch.arange(5, 15).view(2, 5), labels=torch.zeros(2, dtype=torch.long))
    assert output.loss.item() == 0.0
    assert output.logits.softmax(-1).tolist() == [[1.0], [1.0]]


def test_weights_and_smoothing_keep_accuracy_on_separable_points() -> None:
    torch.manual_seed(0)
    labels = torch.arange(90) % 3
    x = torch.eye(3)[labels] + 0.2 * torch.randn(90, 3)
    model, settings = torch.nn.Linear(3, 3), config(label_smoothing=0.1, class_weights=[1.0, 1.0, 100.0])
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(200):
        optimiser.zero_grad()
        classification_loss(model(x), labels, settings).backward()
        optimiser.step()
    assert (model(x).argmax(-1) == labels).float().mean() > 0.95


def test_statistics_are_means_since_they_were_taken() -> None:
    statistics = TrainingStatistics()
    assert statistics.pop() == {}
    for task in (1.0, 3.0):
        statistics.add(
            task=torch.tensor(task),
            budgets=torch.full((2, 1), 0.5),
            relevance=torch.full((2, 1, 4), 0.25),
            kept=torch.tensor([[[True, True, False, False]], [[True, False, False, False]]]),
        )
    taken = statistics.pop()
    assert taken["task_loss"] == 2.0
    assert taken["mean_heads"] == 1.5
    assert taken["layer_0/effective_heads"] == pytest.approx(4.0)
    assert taken["layer_0/distinct_heads"] == 2
    assert statistics.pop() == {}


def test_accuracy_in_training_is_of_all_labelled_rows_since_the_last_time() -> None:
    statistics = TrainingStatistics()
    for labels in ([0, 2, 1], [0, 0, -100], [-100, -100, -100]):
        statistics.add_answers(LOGITS, torch.tensor(labels))
        statistics.add(task=torch.tensor(1.0))
    assert statistics.pop() == {"task_loss": 1.0, "accuracy": pytest.approx(4 / 5)}
    statistics.add_answers(LOGITS, torch.full((3,), -100))
    assert statistics.pop() == {}


def test_distillation_is_the_divergence_by_hand_and_teaches_the_model_alone() -> None:
    model, teacher = LOGITS.clone().requires_grad_(), (LOGITS.flip(0) * 2).requires_grad_()
    p, q = teacher.softmax(dim=-1), model.softmax(dim=-1)
    loss = distillation_loss(model, teacher)
    torch.testing.assert_close(loss, (p * (p / q).log()).sum(dim=-1).mean())
    loss.backward()
    torch.testing.assert_close(model.grad, ((q - p) / 3).detach())
    assert teacher.grad is None
    assert float(distillation_loss(LOGITS, LOGITS)) == pytest.approx(0, abs=1e-7)


def test_the_budget_loss_uses_the_ceiling_of_the_moment() -> None:
    high = torch.full((2, 3), 0.9)
    relevance = torch.full((2, 3, 4), 0.25)
    falling = config(s_max=0.3, s_max_start=1.0, ceiling_until=0.5, alpha_base=1.0, alpha_max=1.0)
    losses = [float(regularisers(high, relevance, falling, t)["budget_loss"]) for t in (0.0, 0.25, 0.5, 1.0)]
    assert losses == pytest.approx([0.0, 3 * 0.25**2, 3 * 0.6**2, 3 * 0.6**2], abs=1e-6)
