"""The definition: every head is computed on the padded grid, and the gates close those that were not chosen.

Differentiable, and the only path that training uses. Every other path must give these outputs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from ..method import gated_output
from .layout import EVERYWHERE, Reach, TokenLayout
from .local import near
from .weights import HeadWeights

NAME = "reference"
PACKED = False


def attend(
    x: Tensor,
    layout: TokenLayout,
    weights: HeadWeights,
    kept_BH: Tensor,
    gates_BH: Tensor,
    *,
    reach: Reach = EVERYWHERE,
    dropout: float = 0.0,
    need_maps: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """``concat_h(gate_bh · softmax(q_h k_hᵀ / √d) v_h) W_O + b_O`` for ``x`` (B, N, D).

    Returns the output (B, N, D) and, when ``need_maps``, the attention maps (B, H, N, N), all zero for closed
    heads and at padding. An input without real tokens attends to nothing: its heads give exactly zero, and so
    do their gradients. ``reach`` says which tokens see each other. ``dropout`` acts on the attention weights.
    ``weights`` may hold a part of the layer's heads.
    """
    if not isinstance(weights, HeadWeights):
        raise RuntimeError("a model in int8 is for inference with packed tokens: it has no gradients and no reference")
    batch, length, _ = x.shape
    heads = weights.num_heads
    size = weights.head_size
    qkv = F.linear(x, weights.qkv_weight, weights.qkv_bias)
    qkv = qkv.view(batch, length, heads, 3, size)
    turned = layout.turn(qkv[:, :, :, :2], reach)
    q, k, v = (x.transpose(1, 2) for x in (turned[:, :, :, 0], turned[:, :, :, 1], qkv[:, :, :, 2]))
    real_B1 = layout.mask_BN.any(dim=-1, keepdim=True)
    attended = (layout.mask_BN | ~real_B1)[:, None, None, :]
    if reach.window is not None:
        attended = attended & near(layout.place, layout.place, reach.window)[:, None]
    if need_maps:
        scores = (q @ k.transpose(-1, -2)).float() / math.sqrt(size)
        maps = torch.softmax(scores.masked_fill(~attended, -math.inf), dim=-1)
        per_head = F.dropout(maps, dropout, training=dropout > 0).to(v.dtype) @ v
        seen = layout.mask_BN[:, None, :, None] & kept_BH[:, :, None, None] & real_B1[:, None, None]
        maps = torch.where(seen, maps, 0.0)
    else:
        maps = None
        per_head = F.scaled_dot_product_attention(q, k, v, attn_mask=attended, dropout_p=dropout)
    gates_BH = gates_BH * real_B1
    return gated_output(per_head, gates_BH, weights.output_weight, weights.output_bias), maps
