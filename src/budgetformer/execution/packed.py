"""Only what was chosen is computed: real tokens without padding, and of every head the inputs that kept it.

Work is done on (head, input) pairs, head-major: one product with the head's rows of the qkv weight over the tokens
of the inputs that chose the head, one attention per pair, one product with the head's columns of W_O added to those
tokens. Heads that are neighbours and were chosen by the same inputs share their products, so that a batch that keeps
everything costs one product, as in the reference. Weights are views; none is copied. Inference only: a head that is
not computed has no gradient.

Legend: B inputs, N tokens with padding, T real tokens of the batch, t those of the inputs that chose a head,
p inputs of one length n, r neighbouring heads, D width, H heads, d = D / H.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional as F

from .layout import HeadWeights, TokenLayout

NAME = "packed"
PACKED = True

INFERENCE_ONLY = (
    "is for inference: heads that are skipped have no gradient. Use execution='auto' or 'reference' for training, "
    "or call model.eval() and enter torch.inference_mode() first"
)


def attend(
    x: Tensor,
    layout: TokenLayout,
    weights: HeadWeights,
    kept_BH: Tensor,
    gates_BH: Tensor,
    *,
    dropout: float = 0.0,
    need_maps: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """``Σ_h gate_bh · softmax(q_h k_hᵀ / √d) v_h W_O,h + b_O`` over the kept heads, for packed ``x`` (T, D).

    Returns the output (T, D) and, when ``need_maps``, the attention maps (B, H, N, N) on the padded grid, all zero
    for closed heads and at padding. Partial sums are kept in float32 or wider. An input without tokens has no rows.
    Raises RuntimeError when gradients are wanted or ``dropout`` is above 0.
    """
    require_inference(NAME, x, weights, gates_BH, dropout=dropout)
    width, heads = x.shape[-1], weights.num_heads
    size = width // heads
    total_TD = torch.zeros(x.shape, dtype=torch.promote_types(x.dtype, torch.float32), device=x.device)
    if weights.output_bias is not None:
        total_TD += weights.output_bias
    maps = x.new_zeros(*kept_BH.shape, *layout.mask_BN.shape[1:] * 2, dtype=torch.float32) if need_maps else None
    dtype = x.dtype
    for run in _runs(kept_BH, layout):
        x_tD = x if run.index_t is None else x.index_select(0, run.index_t)
        rows = slice(3 * size * run.first, 3 * size * run.end)
        qkv_bias = None if weights.qkv_bias is None else weights.qkv_bias[rows]
        qkv = F.linear(x_tD, weights.qkv_weight[rows], qkv_bias).view(len(x_tD), -1, 3, size)
        heads_trd = torch.cat([_attention(qkv, run, group, layout, maps) for group in _equal_lengths(run, layout)])
        input_t = layout.input_T if run.index_t is None else layout.input_T[run.index_t]
        gates_tr = gates_BH[:, run.first : run.end].index_select(0, input_t)
        gated_tD = (heads_trd * gates_tr.unsqueeze(-1).to(heads_trd.dtype)).flatten(1)
        part_tD = F.linear(gated_tD, weights.output_weight[:, size * run.first : size * run.end])
        dtype = part_tD.dtype
        if run.index_t is None:
            total_TD += part_tD
        else:
            total_TD.index_add_(0, run.index_t, part_tD.to(total_TD.dtype))
    return total_TD.to(dtype), maps


def require_inference(name: str, x: Tensor, weights: HeadWeights, gates_BH: Tensor, *, dropout: float) -> None:
    """Raise RuntimeError for the execution ``name`` when gradients are wanted or ``dropout`` is above 0."""
    parameters = (weights.qkv_weight, weights.qkv_bias, weights.output_weight, weights.output_bias)
    wanted = any(t is not None and t.requires_grad for t in (x, gates_BH, *parameters))
    if dropout > 0 or (torch.is_grad_enabled() and wanted):
        raise RuntimeError(f"{name} execution {INFERENCE_ONLY}")


@dataclass(frozen=True, kw_only=True)
class _Run:
    """Neighbouring heads ``first`` to ``end`` that the same ``inputs`` chose; ``index_t`` None for all tokens."""

    first: int
    end: int
    inputs: list[int]
    index_t: Tensor | None


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Inputs of one length that follow each other in a run; ``start`` is the place of their first token there."""

    inputs: list[int]
    start: int
    length: int


def _runs(kept_BH: Tensor, layout: TokenLayout) -> Iterator[_Run]:
    columns = kept_BH.T.tolist()
    for column, run in groupby(range(len(columns)), key=columns.__getitem__):
        heads = list(run)
        inputs = [b for b, kept in enumerate(column) if kept and layout.lengths[b]]
        if inputs:
            everyone = sum(layout.lengths[b] for b in inputs) == len(layout.input_T)
            index_t = None if everyone else kept_BH[:, heads[0]][layout.input_T].nonzero().squeeze(-1)
            yield _Run(first=heads[0], end=heads[-1] + 1, inputs=inputs, index_t=index_t)


def _equal_lengths(run: _Run, layout: TokenLayout) -> Iterator[_Group]:
    start = 0
    for length, group in groupby(run.inputs, key=layout.lengths.__getitem__):
        inputs = list(group)
        yield _Group(inputs=inputs, start=start, length=length)
        start += length * len(inputs)


def _attention(qkv: Tensor, run: _Run, group: _Group, layout: TokenLayout, maps: Tensor | None) -> Tensor:
    """Attention of every pair in ``group`` at once, (p·n, r, d); fills ``maps`` when they are wanted."""
    part = qkv[group.start : group.start + group.length * len(group.inputs)]
    q, k, v = part.unflatten(0, (len(group.inputs), group.length)).permute(3, 0, 2, 1, 4)
    if maps is None:
        per_head = F.scaled_dot_product_attention(q, k, v)
    else:
        scores = (q @ k.transpose(-1, -2)).float() / math.sqrt(q.shape[-1])
        maps_prnn = torch.softmax(scores, dim=-1)
        per_head = maps_prnn.to(v.dtype) @ v
        for b, maps_rnn in zip(group.inputs, maps_prnn, strict=True):
            place_n = layout.mask_BN[b].nonzero().squeeze(-1)
            maps[b, run.first : run.end, place_n[:, None], place_n] = maps_rnn
    return per_head.transpose(1, 2).flatten(0, 1)
