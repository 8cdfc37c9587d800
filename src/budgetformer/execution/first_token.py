"""Attention of the first tokens alone: all that a classifier with first-token pooling reads of the last layer.

Keys and values are computed for all tokens of the pairs, queries, attention and output for one token of each input.

Legend: B inputs, T real tokens of the batch, t those of the inputs that chose a head, p inputs of one length n that
chose a head, D width, d = D / H.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from .int8 import Int8HeadWeights
from .layout import HeadOutputs, HeadWeights, TokenLayout
from .packed import NAME, require_inference
from .runs import Run, runs


def attend_first(
    x: Tensor,
    layout: TokenLayout,
    weights: HeadWeights | Int8HeadWeights,
    kept_BH: Tensor,
    gates_BH: Tensor,
) -> Tensor:
    """``packed.attend`` at the first token of every input, (B, D), for packed ``x`` (T, D).

    An input without tokens gets the output bias. Raises RuntimeError when gradients are wanted.
    """
    require_inference(NAME, x, weights, gates_BH, dropout=0.0)
    first_BD = layout.first(x)
    return weights.combine(_by_run(x, first_BD, layout, weights, kept_BH, gates_BH), first_BD)


def _by_run(
    x_TD: Tensor,
    first_BD: Tensor,
    layout: TokenLayout,
    weights: HeadWeights | Int8HeadWeights,
    kept_BH: Tensor,
    gates_BH: Tensor,
) -> Iterator[HeadOutputs]:
    size = x_TD.shape[-1] // weights.num_heads
    tokens, firsts = weights.prepare(x_TD), weights.prepare(first_BD)
    for run in runs(kept_BH, layout):
        inputs_p = torch.tensor([b for group in run.groups for b in group.inputs], device=x_TD.device)
        for h in run.heads:
            start = 3 * size * h
            q_pd = weights.project(firsts, inputs_p, slice(start, start + size))
            kv_t = weights.project(tokens, run.index_t, slice(start + size, start + 3 * size))
            heads_pd = _attention(q_pd, kv_t.unflatten(1, (2, size)), run)
            gates_p1 = gates_BH[:, h].index_select(0, inputs_p).unsqueeze(-1)
            gated_pd = heads_pd * gates_p1.to(heads_pd.dtype)
            pieces: list[tuple[slice, slice | Tensor]] = [(slice(None), slice(size * h, size * (h + 1)))]
            yield HeadOutputs(heads=gated_pd, index_t=inputs_p, pieces=pieces)


def _attention(q_pd: Tensor, kv_t2d: Tensor, run: Run) -> Tensor:
    outputs, seen = [], 0
    for group in run.groups:
        k, v = kv_t2d[group.rows].unflatten(0, (group.count, group.length)).unbind(2)
        q = q_pd[seen : seen + group.count].unsqueeze(1)
        outputs.append(F.scaled_dot_product_attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)).flatten(0, 2))
        seen += group.count
    return torch.cat(outputs)
