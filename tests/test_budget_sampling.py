"""Rows that are trained at a random number of heads, so that one checkpoint serves every budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from budgetformer import BudgetFormerConfig
from budgetformer.method import decide, sampled_policy


def test_sampled_rows_use_what_was_drawn_and_the_others_their_own() -> None:
    scores_BH = torch.randn(4, 8)
    asked_B = torch.tensor([float("nan"), 0.125, 1.0, float("nan")])
    decision = decide(
        torch.full((4,), 0.3),
        scores_BH,
        selection="straight_through",
        min_heads=1,
        tau=0.1,
        training=True,
        policy=sampled_policy(asked_B),
    )
    assert decision.heads_B.tolist() == [2, 1, 8, 2]
    assert decision.budget_B.tolist() == pytest.approx([0.3] * 4)


def test_sampling_acts_in_training_only_and_leaves_the_logged_heads_alone(small_model: Callable[..., Any]) -> None:
    model = small_model(budget_sampling=0.5, s_max=0.3, sigma_max=0.0)
    for layer in model.budgetformer.layers:
        torch.nn.init.constant_(layer.attention.budget_net[2].weight, 0.0)
        torch.nn.init.constant_(layer.attention.budget_net[2].bias, -1.0)  # s = 0.27: one of four heads
    ids, labels = torch.randint(5, 100, (64, 9)), torch.randint(0, 3, (64,))
    torch.manual_seed(0)
    model.set_progress(0.5)
    heads = model.train()(ids, labels=labels, output_budgets=True).heads[:, 0]
    assert set(heads.tolist()) == {1, 2, 3, 4}
    assert 0.2 < (heads > 1).float().mean() < 0.6
    assert model.statistics.pop()["mean_heads"] == 1.0
    assert set(model.eval()(ids, output_budgets=True).heads.flatten().tolist()) == {1}


def test_a_share_outside_the_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"budget_sampling must lie in \[0, 1\], got 1.5"):
        BudgetFormerConfig(budget_sampling=1.5)
