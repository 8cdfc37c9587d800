"""Memory of attention: the closed form, what torch really allocates, and that it falls with the heads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.profiler import profile

from budgetformer import BudgetFormerConfig
from budgetformer.execution import TokenLayout, packed, reference
from budgetformer.execution.weights import AT_ONCE
from budgetformer.metering.attention_memory import AllocationMeter, attention_bytes

from ..execution.test_packed import choose, make_weights, right_padded
from ..model_folders import run_python

WIDTH, HEADS = 128, 8
LENGTHS = [200, 120, 300, 64]


def make_config(**changes: Any) -> BudgetFormerConfig:
    sizes = {"vocab_size": 40, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS}
    return BudgetFormerConfig(**sizes | changes)


def first_heads(count: int) -> tuple[Tensor, Tensor]:
    kept = torch.zeros(len(LENGTHS), HEADS, dtype=torch.bool)
    kept[:, :count] = True
    return kept, kept.float()


def allocated(kept: Tensor, gates: Tensor, *, need_maps: bool = False, lengths: list[int] = LENGTHS) -> int:
    layout = TokenLayout(right_padded(lengths), packed=True)
    x, weights = torch.randn(sum(lengths), WIDTH), make_weights(width=WIDTH, heads=HEADS)
    with torch.inference_mode(), AllocationMeter() as meter:
        packed.attend(x, layout, weights, kept, gates, need_maps=need_maps)
    assert meter.peak.increase is not None, meter.peak.how
    return meter.peak.increase


def test_the_closed_form_by_hand() -> None:
    config = make_config(hidden_size=8, num_attention_heads=4)
    assert attention_bytes(config, 10, 3) == 4 * 10 * 2 * 3 * 4
    assert attention_bytes(config, 10, 3, bytes_per_number=2) == 4 * 10 * 2 * 3 * 2
    assert attention_bytes(config, 10, 3, scores=True) == (4 * 10 * 2 * 3 + 10 * 10 * 3) * 4
    assert attention_bytes(config, 10, 0, scores=True) == 0
    assert attention_bytes(make_config(num_hidden_layers=0), [5], 1) == 0


def test_the_layer_that_holds_most_counts_and_inputs_add_up() -> None:
    config = make_config(hidden_size=8, num_attention_heads=4)
    assert attention_bytes(config, [10, 6], [[3, 1], [1, 4]]) == 4 * 2 * max(10 * 3 + 6, 10 + 6 * 4) * 4
    assert attention_bytes(config, [10, 6], [1, 4]) == attention_bytes(config, [10, 6], 4)
    alone = [attention_bytes(config, length, 2, scores=True) for length in (10, 6)]
    assert attention_bytes(config, [10, 6], 2, scores=True) == sum(alone)


def test_impossible_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="heads must be whole numbers between 0 and 8, got 9"):
        attention_bytes(make_config(), 10, 9)
    with pytest.raises(ValueError, match="lengths must be whole numbers at least 0, got -1"):
        attention_bytes(make_config(), -1, 2)
    with pytest.raises(ValueError, match="bytes_per_number must be at least 1, got 0"):
        attention_bytes(make_config(), 10, 2, bytes_per_number=0)


def test_what_torch_allocated_at_once_is_counted_to_the_byte() -> None:
    with AllocationMeter() as meter:
        a = torch.ones(1000)
        b = torch.ones(500)
        del a
        c = torch.ones(700)
    assert meter.peak.increase == meter.peak.bytes == 4 * 1500
    del b, c


def test_what_was_allocated_before_is_not_counted_even_when_it_is_freed() -> None:
    before = torch.ones(100_000)
    with AllocationMeter() as meter:
        del before
        after = torch.ones(10_000)
    assert meter.peak.increase == 4 * len(after)


@pytest.mark.parametrize("need_maps", [False, True], ids=["fused", "maps"])
def test_memory_of_attention_falls_with_the_heads(need_maps: bool) -> None:
    measured = [allocated(*first_heads(count), need_maps=need_maps) for count in range(HEADS + 1)]
    assert measured == sorted(measured)
    assert len(set(measured[1:])) == HEADS
    formula = [attention_bytes(make_config(), LENGTHS, count, scores=need_maps) for count in range(HEADS + 1)]
    assert measured[HEADS] - measured[1] >= 0.5 * (formula[HEADS] - formula[1])
    assert measured[HEADS] > formula[HEADS]


def test_memory_falls_when_every_input_chooses_its_own_heads() -> None:
    few, many = (allocated(*choose([count] * len(LENGTHS), HEADS, seed=1)) for count in (1, HEADS))
    assert few < 0.6 * many


def test_half_of_the_heads_lies_between_where_even_one_is_too_large_to_be_taken_with_others() -> None:
    """In smaller batches the rows of all heads are held at once, up to AT_ONCE numbers: few heads can take more."""
    lengths = LENGTHS * 4
    assert sum(lengths) * WIDTH > AT_ONCE
    one, some, half, all_heads = (
        allocated(*choose([count] * len(lengths), HEADS, seed=1), lengths=lengths)
        for count in (1, 2, HEADS // 2, HEADS)
    )
    assert one < some < half < all_heads


def test_the_reference_needs_the_same_for_any_number_of_heads() -> None:
    mask, weights = right_padded(LENGTHS), make_weights(width=WIDTH, heads=HEADS)
    x = torch.randn(*mask.shape, WIDTH)
    peaks = []
    for count in (1, 4, HEADS):
        with torch.inference_mode(), AllocationMeter() as meter:
            reference.attend(x, TokenLayout(mask), weights, *first_heads(count))
        peaks.append(meter.peak.increase)
    assert len(set(peaks)) == 1
    assert peaks[0] is not None
    assert peaks[0] > attention_bytes(make_config(), [max(LENGTHS)] * len(LENGTHS), HEADS)
    assert peaks[0] > allocated(*first_heads(HEADS))


def test_inside_another_profiler_nothing_is_measured_and_the_work_is_done() -> None:
    with profile() as other:
        with AllocationMeter() as meter:
            done = torch.ones(3).sum().item()
        torch.eye(3)
    assert done == 3
    assert meter.peak.bytes is None
    assert meter.peak.how == "not measured: another profiler is running, which a second one would end"
    assert {"aten::sum", "aten::eye"} <= {event.name for event in other.events()}


def test_an_error_of_the_work_passes_through() -> None:
    meter = AllocationMeter()
    with pytest.raises(KeyError, match="of the work"), meter:
        raise KeyError("of the work")
    assert meter.peak.increase is not None
    with meter:
        held = torch.ones(250)
    assert meter.peak.increase == 4 * len(held)


def test_nothing_is_printed_and_the_environment_stays_as_it_was() -> None:
    code = """
import os, sys, torch
from budgetformer.metering.attention_memory import AllocationMeter
before = dict(os.environ)
os.dup2(1, 2)
for _ in range(2):
    with AllocationMeter() as meter:
        x = torch.ones(250)
assert dict(os.environ) == before
print(meter.peak.increase)
"""
    assert run_python(code) == "1000\n"
