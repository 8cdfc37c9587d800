"""Windows and rotary places: every execution gives what a plain reading of the definition gives."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from budgetformer.execution import Reach, TokenLayout, attend_first, packed, reference
from budgetformer.execution.local import attention, stretches

from .cases import Case
from .test_packed import choose, make_weights, right_padded

REACHES = [Reach(window=2), Reach(rotary_theta=100.0), Reach(window=0, rotary_theta=10.0), Reach(window=50)]


def plain(x_nD: Tensor, weights: Any, gates_H: Tensor, reach: Reach) -> Tensor:
    """One input, token by token and head by head, as the papers write it."""
    n, width = x_nD.shape
    size = width // weights.num_heads
    qkv = torch.nn.functional.linear(x_nD, weights.qkv_weight, weights.qkv_bias).view(n, weights.num_heads, 3, size)
    heads = torch.zeros(n, weights.num_heads, size)
    for h in range(weights.num_heads):
        q, k, v = (qkv[:, h, part].clone() for part in range(3))
        if reach.rotary_theta is not None:
            for place in range(n):
                for i in range(size // 2):
                    angle = place * reach.rotary_theta ** (-2 * i / size)
                    turn = torch.tensor(
                        [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=q.dtype
                    )
                    for t in (q, k):
                        t[place, [i, i + size // 2]] = turn @ t[place, [i, i + size // 2]]
        for i in range(n):
            seen = [j for j in range(n) if reach.window is None or abs(i - j) <= reach.window]
            heads[i, h] = torch.softmax(k[seen] @ q[i] / math.sqrt(size), dim=0) @ v[seen] * gates_H[h]
    return torch.nn.functional.linear(heads.flatten(1), weights.output_weight, weights.output_bias)


@pytest.mark.parametrize("reach", REACHES, ids=str)
@pytest.mark.parametrize("counts", [[2, 2, 2], [1, 2, 0]], ids=["all", "some"])
def test_reference_packed_and_the_plain_reading_agree(reach: Reach, counts: list[int]) -> None:
    lengths = [9, 1, 6]
    mask, weights = right_padded(lengths), make_weights(width=8, heads=2)
    kept, gates = choose(counts, 2)
    x = torch.randn(3, 9, 8, generator=torch.Generator().manual_seed(0))
    layout = TokenLayout(mask, packed=True)
    with torch.inference_mode():
        slow, slow_maps = reference.attend(x, TokenLayout(mask), weights, kept, gates, reach=reach, need_maps=True)
        fused, _ = reference.attend(x, TokenLayout(mask), weights, kept, gates, reach=reach)
        fast, fast_maps = packed.attend(layout.pack(x), layout, weights, kept, gates, reach=reach, need_maps=True)
        quick, _ = packed.attend(layout.pack(x), layout, weights, kept, gates, reach=reach)
        first = attend_first(layout.pack(x), layout, weights, kept, gates, reach=reach)
    truth = torch.cat([plain(x[b, :n], weights, gates[b], reach) for b, n in enumerate(lengths)])
    for found in (layout.pack(slow), layout.pack(fused), fast, quick):
        torch.testing.assert_close(found, truth, rtol=0, atol=1e-5)
    torch.testing.assert_close(first, layout.first(truth), rtol=0, atol=1e-5)
    torch.testing.assert_close(fast_maps, slow_maps, rtol=0, atol=1e-6)


@pytest.mark.parametrize("reach", REACHES, ids=str)
def test_padding_on_the_left_and_holes_change_nothing(reach: Reach) -> None:
    weights = make_weights(width=8, heads=2)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0]]).bool()
    x = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(1))
    together = torch.cat([x[0, 2:], x[1, [0, 2, 3, 5]]]).view(2, 4, 8)
    kept, gates = choose([2, 1, 2], 2)
    with torch.inference_mode():
        out, _ = reference.attend(x, TokenLayout(mask), weights, kept, gates, reach=reach)
        alone, _ = reference.attend(
            together, TokenLayout(torch.ones(2, 4).bool()), weights, kept[:2], gates[:2], reach=reach
        )
    assert out.isfinite().all()
    torch.testing.assert_close(out[mask], alone.flatten(0, 1), rtol=0, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(length=st.integers(1, 40), window=st.integers(0, 12))
def test_stretches_cover_each_query_once_and_what_it_can_reach(length: int, window: int) -> None:
    found = stretches(length, window)
    assert [i for start, stop, _, _ in found for i in range(start, stop)] == list(range(length))
    for start, stop, low, high in found:
        assert low == max(0, start - window)
        assert high == min(length, stop + window)
    q, k, v = torch.randn(3, 2, length, 4, generator=torch.Generator().manual_seed(0)).unbind(0)
    near = (torch.arange(length)[:, None] - torch.arange(length)).abs() <= window
    whole = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=near)
    torch.testing.assert_close(attention(q, k, v, window), whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("reach", REACHES, ids=str)
@pytest.mark.parametrize("counts", [[8, 8, 8], [1, 8, 3]], ids=["all", "some"])
def test_half_precision_on_a_gpu_has_the_same_reach(device: torch.device, reach: Reach, counts: list[int]) -> None:
    case = Case(device, torch.bfloat16, right_padded([7, 1, 12]), counts)
    truth, _ = case.slow(reach=reach)
    fast, _ = case.fast(reach=reach)
    assert (fast.float() - truth).abs().max() <= 0.025 * truth.abs().max()
