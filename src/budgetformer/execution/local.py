"""Attention within a window: tokens look at those at most ``window`` places away, and only these are computed.

Long inputs are taken in stretches of ``window`` queries, whose keys lie in three such stretches.

Legend: n tokens of an input, w the window, d head size.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def attention(q: Tensor, k: Tensor, v: Tensor, window: int | None) -> Tensor:
    """``softmax(q kᵀ / √d) v`` for whole inputs of one length, (…, n, d); without ``window`` over all tokens."""
    length = q.shape[-2]
    if window is None or length <= window + 1:
        return F.scaled_dot_product_attention(q, k, v)
    parts = []
    for start, stop, low, high in stretches(length, window):
        mask = near(torch.arange(start, stop, device=q.device), torch.arange(low, high, device=q.device), window)
        keys, values = k[..., low:high, :], v[..., low:high, :]
        parts.append(F.scaled_dot_product_attention(q[..., start:stop, :], keys, values, attn_mask=mask))
    return torch.cat(parts, dim=-2)


def stretches(length: int, window: int) -> list[tuple[int, int, int, int]]:
    """Queries ``start`` to ``stop`` and the keys ``low`` to ``high`` that they can reach."""
    step = max(window, 1)
    found = []
    for start in range(0, length, step):
        stop = min(start + step, length)
        found.append((start, stop, max(start - window, 0), min(stop + window, length)))
    return found


def near(place_q: Tensor, place_k: Tensor, window: int) -> Tensor:
    """Whether two places are at most ``window`` apart, (…, q, k)."""
    return (place_q.unsqueeze(-1) - place_k.unsqueeze(-2)).abs() <= window
