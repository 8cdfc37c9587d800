"""One batch in half precision with its weights, and its result from the execution for GPUs and from the reference."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from budgetformer.execution import HeadWeights, TokenLayout, cuda, reference

from .scratch import TOLERANCE as TOLERANCE
from .scratch import dirty_memory
from .test_packed import choose, make_weights


def move(weights: HeadWeights, **to: Any) -> HeadWeights:
    names = ("qkv_weight", "qkv_bias", "output_weight", "output_bias")
    tensors = {name: getattr(weights, name) for name in names}
    return replace(weights, **{name: None if t is None else t.to(**to) for name, t in tensors.items()})


class Case:
    """One batch with its weights and choice, in half precision on ``device``."""

    def __init__(
        self,
        device: torch.device,
        dtype: torch.dtype,
        mask: Tensor,
        counts: list[int],
        *,
        width: int = 64,
        heads: int = 8,
        bias: bool = True,
        seed: int = 0,
    ) -> None:
        self.weights = move(make_weights(width=width, heads=heads, bias=bias), device=device, dtype=dtype)
        self.mask = mask.to(device)
        self.kept, self.gates = (t.to(device) for t in choose(counts, heads, seed=seed))
        x = torch.randn(*mask.shape, width, generator=torch.Generator().manual_seed(seed))
        self.x = x.to(device, dtype)

    def fast(self, order: Tensor | None = None, **options: Any) -> tuple[Tensor, Tensor | None]:
        """Output (T, D) and maps; with NaN at padding and in fresh memory. ``order`` permutes the inputs."""
        mask, x, kept, gates = (
            t if order is None else t[order.to(t.device)] for t in (self.mask, self.x, self.kept, self.gates)
        )
        layout = TokenLayout(mask, packed=True)
        tokens = layout.pack(torch.where(mask[:, :, None], x, math.nan))
        with torch.inference_mode(), dirty_memory(x.device):
            return cuda.attend(tokens, layout, self.weights, kept, gates, **options)

    def slow(self, dtype: torch.dtype = torch.float32, **options: Any) -> tuple[Tensor, Tensor | None]:
        """The reference's output at the real tokens, and maps."""
        with torch.inference_mode():
            out, maps = reference.attend(
                self.x.to(dtype),
                TokenLayout(self.mask),
                move(self.weights, dtype=dtype),
                self.kept,
                self.gates,
                **options,
            )
            return TokenLayout(self.mask, packed=True).pack(out), maps

    def check(self) -> None:
        """Within ``TOLERANCE`` of the truth, and at most twice as far as the reference in the same dtype, or an ulp."""
        dtype = self.x.dtype
        truth, _ = self.slow()
        fast, _ = self.fast()
        assert fast.dtype == dtype
        assert fast.shape == truth.shape
        if not truth.numel():
            return
        scale = truth.abs().max()
        error, usual = ((y.float() - truth).abs().max() for y in (fast, self.slow(dtype)[0]))
        assert error <= TOLERANCE[dtype] * scale
        assert error <= 2 * usual + torch.finfo(dtype).eps * scale
