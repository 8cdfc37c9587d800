"""The closed form of the multiply-adds against hand counts and against what torch really executes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification
from budgetformer.metering.macs import breakdown, dense_macs, executed_macs, padded_macs, paper_macs


def make_config(**changes: Any) -> BudgetFormerConfig:
    sizes = {"vocab_size": 40, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6}
    return BudgetFormerConfig(
        **sizes | {"intermediate_size": 80, "num_labels": 3, "max_position_embeddings": 64} | changes
    )


def counted(config: BudgetFormerConfig, lengths: list[int], *, gradients: bool, **request: Any) -> tuple[int, Any]:
    """Multiply-adds of one forward pass as torch counts them (2 FLOP each), and the heads kept (B, L)."""
    torch.manual_seed(0)
    model = BudgetFormerForSequenceClassification(config).eval()
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    ids = torch.randint(1, 40, mask.shape) * mask
    quiet = nullcontext() if gradients else torch.inference_mode()
    with quiet, sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        output = model(ids, mask, output_budgets=True, **request)
    return counter.get_total_flops() // 2, output.heads


def test_every_part_of_a_small_model_by_hand() -> None:
    config = make_config(hidden_size=4, num_attention_heads=2, num_hidden_layers=1, intermediate_size=5)
    assert {part: macs.tolist() for part, macs in breakdown(config, [3], [[1]]).items()} == {
        "projections": [3 * 3 * 4 * 2],
        "scores": [3 * 3 * 2],
        "values": [3 * 3 * 2],
        "output": [3 * 2 * 4],
        "budget_net": [4 * 4 + 4],
        "relevance_net": [4 * 2],
        "feed_forward": [2 * 3 * 4 * 5],
        "classifier": [4 * 3],
    }


@pytest.mark.parametrize("budget", [None, 1 / 6, 0.5, 1.0])
@pytest.mark.parametrize("lengths", [[9], [20, 5, 33, 5]], ids=str)
def test_the_packed_execution_does_what_the_formula_says(budget: float | None, lengths: list[int]) -> None:
    config = make_config(execution="packed")
    macs, heads = counted(config, lengths, gradients=False, budget=budget)
    assert macs == pytest.approx(executed_macs(config, lengths, heads).sum(), rel=0.01)


def test_different_budgets_in_one_batch_add_up() -> None:
    config = make_config(execution="packed", min_heads=0)
    budgets = torch.tensor([0.1, 0.4, 1.0])
    macs, heads = counted(config, [20, 5, 33], gradients=False, budget=budgets)
    assert heads[:, 0].tolist() == [0, 2, 6]
    assert macs == pytest.approx(executed_macs(config, [20, 5, 33], heads).sum(), rel=0.01)


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("changes", [{}, {"fixed_budget": 0.5}, {"budgeted": False}], ids=str)
def test_the_reference_computes_all_heads_on_the_padded_grid(gradients: bool, changes: dict[str, Any]) -> None:
    config = make_config(execution="reference", **changes)
    lengths = [20, 5, 33, 12]
    macs, _ = counted(config, lengths, gradients=gradients)
    assert macs == pytest.approx(padded_macs(config, lengths, 33).sum(), rel=0.01)
    if config.budgeted:
        cheap, _ = counted(config, lengths, gradients=gradients, budget=1 / 6)
        assert cheap == macs


def test_the_full_attention_twin_is_the_dense_model_without_nets() -> None:
    config = make_config(execution="packed")
    macs, heads = counted(config.dense_twin(), [20, 33], gradients=False)
    assert heads is None
    assert macs == pytest.approx(dense_macs(config.dense_twin(), [20, 33]).sum(), rel=0.01)
    nets = 3 * (48 * 48 + 48 + 48 * 6)
    assert (dense_macs(config, [20, 33]) - dense_macs(config.dense_twin(), [20, 33])).tolist() == [nets, nets]


def test_arguments_may_be_numbers_lists_arrays_or_tensors() -> None:
    config = make_config()
    expected = executed_macs(config, [7, 9], [[2, 2, 2], [2, 2, 2]])
    assert executed_macs(config, np.array([7, 9]), 2).tolist() == expected.tolist()
    assert executed_macs(config, torch.tensor([7, 9]), torch.full((2, 3), 2)).tolist() == expected.tolist()
    assert executed_macs(config, [7, 9], [2, 2, 2]).tolist() == expected.tolist()
    assert executed_macs(config, 7, [[2, 2, 2]]).tolist() == expected[:1].tolist()
    assert executed_macs(config, 7, [[1, 1, 1], [2, 2, 2]])[1] == expected[0]


def test_only_the_sum_over_layers_matters_and_no_tokens_cost_only_the_nets_and_the_classifier() -> None:
    config = make_config()
    assert executed_macs(config, 9, [1, 2, 6]) == executed_macs(config, 9, [3, 3, 3])
    assert executed_macs(config, 0, 1).tolist() == [3 * (48 * 48 + 48 + 48 * 6) + 48 * 3]
    assert executed_macs(make_config(num_hidden_layers=0), [4, 5], np.zeros((2, 0))).tolist() == [144, 144]


def test_large_inputs_do_not_overflow() -> None:
    config = BudgetFormerConfig.preset("paper")
    assert executed_macs(config, 10**6, 8)[0] > 4 * 2 * 10**12 * 768


@pytest.mark.parametrize(
    ("lengths", "heads", "message"),
    [
        ([3, -1], 1, "lengths must be whole numbers at least 0, got -1"),
        ([3.5], 1, "lengths must be whole numbers at least 0, got 3.5"),
        ([float("nan")], 1, "lengths must be whole numbers at least 0, got nan"),
        ([[3]], 1, r"lengths must be one number or one per input, got shape \[1, 1\]"),
        ([3], 7, "heads must be whole numbers between 0 and 6, got 7"),
        ([3], 1.5, "heads must be whole numbers between 0 and 6, got 1.5"),
        ([3, 4], [1, 2], r"heads must be one number or have shape \[3\] or \[2, 3\]"),
        ([3, 4], [[1, 2, 3]] * 3, r"heads must be one number or have shape \[3\] or \[2, 3\]"),
    ],
)
def test_impossible_arguments_are_named(lengths: Any, heads: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        executed_macs(make_config(), lengths, heads)


def test_a_grid_shorter_than_its_texts_and_a_budget_out_of_range_are_named() -> None:
    with pytest.raises(ValueError, match=r"padded_length must be at least the longest text \(9\), got 8"):
        padded_macs(make_config(), [9, 3], 8)
    with pytest.raises(ValueError, match=r"budget must lie in \[0, 1\], got 9"):
        paper_macs(make_config(), length=64, rows=1, budget=9)
