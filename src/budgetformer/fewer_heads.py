"""Layers that lost heads for good: decisions in the numbers of before, and what is left of a layer without heads.

Legend: B inputs, H heads of before, K heads that the layer still has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from . import method


class BiasAlone(nn.Module):
    """The output projection of a layer without heads: its bias at every token, or nothing."""

    def __init__(self, width: int, *, bias: bool) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x) if self.bias is None else torch.zeros_like(x) + self.bias.to(x.dtype)


def checked_heads(heads: Sequence[int] | None, num_heads: int, min_heads: int) -> tuple[int, ...]:
    """The heads that a layer has. Raises ValueError for numbers that it cannot have, and for too few."""
    own = tuple(range(num_heads)) if heads is None else tuple(heads)
    if list(own) != sorted(set(own)) or any(not 0 <= h < num_heads for h in own):
        raise ValueError(f"heads must be numbers from 0 to {num_heads - 1}, each once and rising, got {list(own)}")
    if len(own) < min_heads:
        raise ValueError(f"heads must be at least min_heads ({min_heads}), got {list(own)}")
    return own


def own_of(wide_BH: Tensor, heads: Sequence[int]) -> Tensor:
    """The columns of the heads that the layer has, (B, K)."""
    if len(heads) == wide_BH.shape[1]:
        return wide_BH
    return wide_BH.index_select(1, torch.tensor(heads, dtype=torch.long, device=wide_BH.device))


def others_of(wide_BH: Tensor, heads: Sequence[int]) -> Tensor:
    """The columns of the heads that it lost, (B, H - K)."""
    return own_of(wide_BH, [h for h in range(wide_BH.shape[1]) if h not in heads])


def wide(own_BK: Tensor, heads: Sequence[int], num_heads: int, *, fill: float = 0.0) -> Tensor:
    """(B, K, …) to (B, H, …), with ``fill`` at the heads that the layer lost."""
    if len(heads) == num_heads:
        return own_BK
    place_H = [heads.index(h) if h in heads else len(heads) for h in range(num_heads)]
    filled = torch.cat([own_BK, own_BK.new_full((own_BK.shape[0], 1, *own_BK.shape[2:]), fill)], dim=1)
    return filled.index_select(1, torch.tensor(place_H, device=own_BK.device))


def all_wide(decision: method.HeadDecision, heads: Sequence[int], num_heads: int) -> method.HeadDecision:
    """A decision over the heads of a layer in the numbers of before: the lost ones are never kept."""
    if len(heads) == num_heads:
        return decision
    fields: dict[str, Any] = {
        name: wide(getattr(decision, name), heads, num_heads) for name in ("relevance_BH", "kept_BH", "gates_BH")
    }
    return replace(decision, **fields, scores_BH=wide(decision.scores_BH, heads, num_heads, fill=-torch.inf))


def no_heads(budget_B: Tensor, num_heads: int, request: dict[str, Any]) -> method.HeadDecision:
    """What a layer without heads decides; the request is checked all the same."""
    zeros_BH = torch.zeros_like(budget_B, dtype=torch.float32).unsqueeze(-1).expand(-1, num_heads)
    return method.HeadDecision(
        budget_B=budget_B,
        share_B=method.requested_budget(budget_B, request.get("budget"), request.get("max_budget")),
        scores_BH=zeros_BH - torch.inf,
        relevance_BH=zeros_BH,
        kept_BH=zeros_BH.bool(),
        gates_BH=zeros_BH,
    )
