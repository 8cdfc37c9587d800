"""A model that is told to choose heads at random does so in training and inference, and as the policy does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from budgetformer import BudgetFormerConfig
from budgetformer.method import random_policy


def kept(model: Any, ids: torch.Tensor, **request: Any) -> torch.Tensor:
    return model(ids, output_budgets=True, **request).kept


@pytest.mark.parametrize("selection", ["soft", "straight_through"])
def test_it_is_the_learned_model_under_the_random_policy(small_model: Callable[..., Any], selection: str) -> None:
    learned, random = (small_model(selection=selection, head_choice=choice) for choice in ("learned", "random"))
    random.load_state_dict(learned.state_dict())
    ids = torch.randint(5, 100, (32, 9))
    with torch.inference_mode():
        assert torch.equal(kept(random, ids), kept(learned, ids, policy=random_policy()))
        assert torch.equal(kept(random, ids).sum(-1)[:, 0], kept(learned, ids).sum(-1)[:, 0])
        assert not torch.equal(kept(random, ids), kept(learned, ids))


def test_training_uses_the_same_heads_as_inference(small_model: Callable[..., Any]) -> None:
    quiet = {"hidden_dropout_prob": 0.0, "classifier_dropout": 0.0, "sigma_max": 0.0}
    model = small_model(head_choice="random", **quiet)
    ids, labels = torch.randint(5, 100, (32, 9)), torch.randint(0, 3, (32,))
    model.set_progress(1.0)
    trained = model.train()(ids, labels=labels, output_budgets=True)
    trained.loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assert torch.equal(trained.kept, kept(model.eval(), ids))


def test_settings_that_would_have_no_effect_are_refused() -> None:
    with pytest.raises(ValueError, match="head_choice must be one of learned, random, got 'lucky'"):
        BudgetFormerConfig(head_choice="lucky")
    with pytest.raises(ValueError, match="head_choice must be learned when budgeted is False"):
        BudgetFormerConfig(head_choice="random", budgeted=False)
    with pytest.raises(ValueError, match="head_choice must be learned with budget_sampling"):
        BudgetFormerConfig(head_choice="random", budget_sampling=0.5)
    assert BudgetFormerConfig(head_choice="random").dense_twin().head_choice == "learned"
