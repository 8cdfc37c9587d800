"""Attention of the first tokens alone: all that a classifier with first-token pooling reads of the last layer.

Keys and values are computed for all tokens of the pairs, queries, attention and output for one token of each input.

Legend: B inputs, T real tokens of the batch, t those of the inputs that chose a head, p inputs of one length n that
chose a head, D width, d = D / H.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .int8 import Int8HeadWeights
from .layout import HeadWeights, TokenLayout
from .packed import NAME, add_rows, require_inference, start_total
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
    size = x.shape[-1] // weights.num_heads
    total_BD = start_total(x, len(layout.lengths))
    tokens, dtype = weights.prepare(x), x.dtype
    firsts = weights.prepare(layout.first(x))
    for run in runs(kept_BH, layout):
        inputs_p = torch.tensor([b for group in run.groups for b in group.inputs], device=x.device)
        for h in run.heads:
            start = 3 * size * h
            q_pd = weights.project(firsts, inputs_p, slice(start, start + size))
            kv_t = weights.project(tokens, run.index_t, slice(start + size, start + 3 * size))
            heads_pd = _attention(q_pd, kv_t.unflatten(1, (2, size)), run)
            gates_p1 = gates_BH[:, h].index_select(0, inputs_p).unsqueeze(-1)
            heads = weights.prepare(heads_pd * gates_p1.to(heads_pd.dtype))
            part_pD = weights.combine(heads, None, slice(size * h, size * (h + 1)))
            dtype = part_pD.dtype
            add_rows(total_BD, inputs_p, part_pD)
    return weights.finish(total_BD).to(dtype)


def _attention(q_pd: Tensor, kv_t2d: Tensor, run: Run) -> Tensor:
    outputs, seen = [], 0
    for group in run.groups:
        k, v = kv_t2d[group.rows].unflatten(0, (group.count, group.length)).unbind(2)
        q = q_pd[seen : seen + group.count].unsqueeze(1)
        outputs.append(F.scaled_dot_product_attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)).flatten(0, 2))
        seen += group.count
    return torch.cat(outputs)
