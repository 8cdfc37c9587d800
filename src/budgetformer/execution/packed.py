"""Only what was chosen is computed: real tokens without padding, and of every head the inputs that kept it.

Work is done on (head, input) pairs: one product with the head's rows of the qkv weight over the tokens of the inputs
that chose the head, attention of the pairs, one product with the head's columns of W_O added to those tokens. When
neighbouring heads were chosen by the same inputs (a batch that keeps everything, a single input) they share their
products and attention works on views; otherwise the pair rows are brought together by length, so that one call
serves all pairs of equal length. Weights are views, but for small heads that are not neighbours, which are copied.
Inference only: a head that is not computed has no gradient.

Legend: B inputs, N tokens with padding, T real tokens of the batch, t those of the inputs that chose a head, P pair
rows (see ``runs``), p pairs or inputs of one length n, r neighbouring heads, D width, H heads, d = D / H.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from . import local
from .int8 import Int8HeadWeights
from .layout import EVERYWHERE, Group, Reach, TokenLayout
from .runs import Run, make_run, on_host, pair_order, shared_heads, stretches_of_heads
from .weights import HeadOutputs, HeadWeights, take

NAME = "packed"
PACKED = True

COPIES = 4
"""Calls of torch that bringing pair rows into the order of their lengths and back is worth."""
LARGEST_COPY = 65_536
"""Most numbers in a head's part of the qkv weight that are rather copied than multiplied in a product of their own."""
INFERENCE_ONLY = (
    "is for inference: heads that are skipped have no gradient. Use execution='auto' or 'reference' for training, "
    "or call model.eval() and enter torch.inference_mode() first"
)


def attend(
    x: Tensor,
    layout: TokenLayout,
    weights: HeadWeights | Int8HeadWeights,
    kept_BH: Tensor,
    gates_BH: Tensor,
    *,
    reach: Reach = EVERYWHERE,
    dropout: float = 0.0,
    need_maps: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """``Σ_h gate_bh · softmax(q_h k_hᵀ / √d) v_h W_O,h + b_O`` over the kept heads, for packed ``x`` (T, D).

    Returns the output (T, D) and, when ``need_maps``, the attention maps (B, H, N, N) on the padded grid, all zero
    for closed heads and at padding. Partial sums are kept in float32 or wider. An input without tokens has no rows.
    Raises RuntimeError when gradients are wanted or ``dropout`` is above 0.
    """
    require_inference(NAME, x, weights, gates_BH, dropout=dropout)
    maps = x.new_zeros(*kept_BH.shape, *layout.mask_BN.shape[1:] * 2, dtype=torch.float32) if need_maps else None
    small = 3 * weights.head_size * x.shape[-1] <= LARGEST_COPY
    kept = on_host(kept_BH, layout)
    shared = shared_heads(kept, apart=small and not need_maps)
    gates = None if torch.equal(gates_BH, kept_BH.to(gates_BH.dtype)) else gates_BH
    if need_maps or len(shared) <= 1 or _fewer_calls_by_run(shared, kept, layout):
        found = (make_run(heads, kept, layout) for heads in shared)
        parts = _by_run(x, layout, weights, gates, found, maps, reach)
    else:
        parts = _by_length(x, layout, weights, kept, gates, reach)
    return weights.combine(parts, x), maps


def require_inference(
    name: str, x: Tensor, weights: HeadWeights | Int8HeadWeights, gates_BH: Tensor, *, dropout: float
) -> None:
    """Raise RuntimeError for the execution ``name`` when gradients are wanted or ``dropout`` is above 0."""
    wanted = x.requires_grad or gates_BH.requires_grad or weights.wants_gradients()
    if dropout > 0 or (torch.is_grad_enabled() and wanted):
        raise RuntimeError(f"{name} execution {INFERENCE_ONLY}")


def _fewer_calls_by_run(shared: list[list[int]], kept_BH: np.ndarray, layout: TokenLayout) -> bool:
    """Two products and an attention call per length for each run, or two products a head and a call per length at all.

    Bringing pair rows together by length copies them twice.
    """
    by_run = 2 * len(shared) + sum(stretches_of_heads([heads[0] for heads in shared], kept_BH, layout))
    lengths = len(layout.distinct_lengths)
    return by_run <= 2 * sum(map(len, shared)) + lengths + (COPIES if lengths > 1 else 0)


def _by_run(
    x: Tensor,
    layout: TokenLayout,
    weights: HeadWeights | Int8HeadWeights,
    gates_BH: Tensor | None,
    found: Iterable[Run],
    maps: Tensor | None,
    reach: Reach,
) -> Iterator[HeadOutputs]:
    """Run by run; one attention call per run and length. ``gates_BH`` None: all kept gates are 1."""
    size = weights.head_size
    tokens = weights.prepare(x)
    for run in found:
        qkv = weights.project(tokens, run.index_t, run.part(3 * size))
        qkv = qkv.view(len(qkv), len(run.heads), 3, size)
        qkv = _turned(qkv, layout, reach, run.index_t)
        outputs = [_attention(qkv, run, group, layout, maps, reach) for group in run.groups]
        heads_trd = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        if gates_BH is not None:
            input_t = layout.input_T if run.index_t is None else layout.input_T.index_select(0, run.index_t)
            gates_tr = take(gates_BH, run.part(1), weights.num_heads, dim=1).index_select(0, input_t)
            heads_trd = heads_trd * gates_tr.unsqueeze(-1).to(heads_trd.dtype)
        columns = [run.part(size)]
        yield HeadOutputs(heads=heads_trd.flatten(1), index_t=run.index_t, sizes=[len(heads_trd)], columns=columns)


def _by_length(
    x: Tensor,
    layout: TokenLayout,
    weights: HeadWeights | Int8HeadWeights,
    kept_BH: np.ndarray,
    gates_BH: Tensor | None,
    reach: Reach,
) -> Iterator[HeadOutputs]:
    """Head by head, but one attention call per length for the pairs of all heads. Otherwise as ``_by_run``."""
    size = weights.head_size
    order = pair_order(kept_BH, layout)
    tokens = weights.prepare(x)
    qkv_P = _reordered(weights.project_heads(tokens, order.tokens_P, order.sizes_H), order.by_length_P)
    if reach.rotary_theta is not None:
        token_P = _reordered(order.tokens_P, order.by_length_P)
        qkv_P = _turned(qkv_P.unflatten(1, (1, 3, size)), layout, reach, token_P)
    outputs = [_pairs_attention(qkv_P[group.rows], group, size, reach) for group in order.groups]
    heads_Pd = _reordered(outputs[0] if len(outputs) == 1 else torch.cat(outputs), order.by_head_P)
    if gates_BH is not None:
        head_P = torch.repeat_interleave(torch.tensor(order.sizes_H, device=x.device))
        gates_P = gates_BH[layout.input_T.index_select(0, order.tokens_P), head_P]
        heads_Pd = heads_Pd * gates_P.unsqueeze(-1).to(heads_Pd.dtype)
    columns: list[slice | Tensor] = [slice(size * h, size * (h + 1)) for h in range(weights.num_heads)]
    yield HeadOutputs(heads=heads_Pd, index_t=order.tokens_P, sizes=order.sizes_H, columns=columns)


def _reordered(rows: Tensor, order: Tensor | None) -> Tensor:
    return rows if order is None else rows.index_select(0, order)


def _turned(qkv: Tensor, layout: TokenLayout, reach: Reach, index_t: Tensor | None) -> Tensor:
    """(t, r, 3, d) with queries and keys turned by the places of the tokens ``index_t``; None: of all."""
    if reach.rotary_theta is None:
        return qkv
    return torch.cat([layout.turn(qkv[:, :, :2], reach, index_t), qkv[:, :, 2:]], dim=2)


def _pairs_attention(qkv_P: Tensor, group: Group, size: int, reach: Reach) -> Tensor:
    """Attention of all pairs of one length, (p·n, d)."""
    q, k, v = qkv_P.view(group.count, 1, group.length, 3, size).unbind(3)
    return local.attention(q, k, v, reach.window).flatten(0, 2)


def _attention(qkv: Tensor, run: Run, group: Group, layout: TokenLayout, maps: Tensor | None, reach: Reach) -> Tensor:
    """Attention of every pair of a run with one length, (p·n, r, d); fills ``maps`` when they are wanted."""
    rows = qkv if group.count * group.length == len(qkv) else qkv[group.rows]
    q, k, v = rows.view(group.count, group.length, *qkv.shape[1:]).permute(3, 0, 2, 1, 4)
    if maps is None:
        per_head = local.attention(q, k, v, reach.window)
    else:
        scores = (q @ k.transpose(-1, -2)).float() / math.sqrt(q.shape[-1])
        if reach.window is not None:
            place_n = torch.arange(group.length, device=q.device)
            scores = scores.masked_fill(~local.near(place_n, place_n, reach.window), -math.inf)
        maps_prnn = torch.softmax(scores, dim=-1)
        per_head = maps_prnn.to(v.dtype) @ v
        for b, maps_rnn in zip(group.inputs, maps_prnn, strict=True):
            place_n = layout.mask_BN[b].nonzero().squeeze(-1)
            maps[b, run.part(1), place_n[:, None], place_n] = maps_rnn
    return per_head.transpose(1, 2).flatten(0, 1)
