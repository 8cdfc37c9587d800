"""The executions on a layer that has fewer heads than its width has room for."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from budgetformer.execution import HeadWeights, Reach, TokenLayout, attend_first, cuda, packed, reference
from budgetformer.execution.cuda import refusal

from .cases import TOLERANCE
from .test_packed import choose, right_padded

LENGTHS, WIDTH, SIZE = [9, 1, 30, 0, 4], 64, 16
"""Four heads of 16 dimensions fill the width; the layers here have fewer."""


def fewer(heads: int, dtype: torch.dtype = torch.float32) -> HeadWeights:
    def normal(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=generator) * WIDTH**-0.5).to(dtype)

    generator, inner = torch.Generator().manual_seed(heads), heads * SIZE
    return HeadWeights(
        num_heads=heads,
        qkv_weight=normal(3 * inner, WIDTH),
        qkv_bias=normal(3 * inner),
        output_weight=normal(WIDTH, inner),
        output_bias=normal(WIDTH),
    )


def tokens(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(len(LENGTHS), 30, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("counts", [[1, 2, 3, 1, 2], [3, 3, 3, 3, 3], [0, 1, 0, 2, 0]])
@pytest.mark.parametrize("reach", [Reach(), Reach(window=3, rotary_theta=100.0)], ids=["everywhere", "local"])
def test_packed_and_the_first_tokens_give_the_reference(counts: list[int], reach: Reach) -> None:
    weights, mask = fewer(3), right_padded(LENGTHS)
    assert weights.head_size == SIZE
    kept, gates = choose(counts, 3)
    layout = TokenLayout(mask, packed=True)
    with torch.inference_mode():
        dirty = torch.where(mask[:, :, None], tokens(), math.nan)
        slow, slow_maps = reference.attend(
            tokens(), TokenLayout(mask), weights, kept, gates, reach=reach, need_maps=True
        )
        for need_maps in (False, True):
            fast, maps = packed.attend(
                layout.pack(dirty), layout, weights, kept, gates, reach=reach, need_maps=need_maps
            )
            torch.testing.assert_close(fast, layout.pack(slow), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(maps, slow_maps, atol=1e-5, rtol=1e-5)
        first = attend_first(layout.pack(dirty), layout, weights, kept, gates, reach=reach)
    real = torch.tensor(LENGTHS) > 0
    torch.testing.assert_close(first[real], slow[real, 0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("counts", [[1, 2, 3, 1, 2], [3, 3, 3, 3, 3], [0, 0, 0, 0, 0]])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_execution_for_gpus_gives_the_reference(
    device: torch.device, dtype: torch.dtype, counts: list[int]
) -> None:
    assert device.type == "cpu" or refusal(device=device, dtype=dtype, head_size=SIZE) is None
    weights = fewer(3, dtype)
    names = ("qkv_weight", "qkv_bias", "output_weight", "output_bias")
    there = HeadWeights(num_heads=3, **{name: getattr(weights, name).to(device) for name in names})
    exact = HeadWeights(num_heads=3, **{name: getattr(weights, name).float() for name in names})
    mask, (kept, gates), x = right_padded(LENGTHS), choose(counts, 3), tokens(dtype)
    layout = TokenLayout(mask.to(device), packed=True)
    with torch.inference_mode():
        fast, _ = cuda.attend(layout.pack(x.to(device)), layout, there, kept.to(device), gates.to(device))
        slow, _ = reference.attend(x.float(), TokenLayout(mask), exact, kept, gates)
    truth = TokenLayout(mask, packed=True).pack(slow)
    assert (fast.cpu().float() - truth).abs().max() <= TOLERANCE[dtype] * truth.abs().max()
