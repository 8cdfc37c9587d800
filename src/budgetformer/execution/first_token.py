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
from .layout import EVERYWHERE, Reach, TokenLayout
from .packed import NAME, require_inference
from .runs import Run, make_run, on_host, shared_heads
from .weights import HeadOutputs, HeadWeights


def attend_first(
    x: Tensor,
    layout: TokenLayout,
    weights: HeadWeights | Int8HeadWeights,
    kept_BH: Tensor,
    gates_BH: Tensor,
    *,
    reach: Reach = EVERYWHERE,
) -> Tensor:
    """``packed.attend`` at the first token of every input, (B, D), for packed ``x`` (T, D).

    An input without tokens gets the output bias. Raises RuntimeError when gradients are wanted.
    """
    require_inference(NAME, x, weights, gates_BH, dropout=0.0)
    first_BD = layout.first(x)
    return weights.combine(_by_run(x, first_BD, layout, weights, kept_BH, gates_BH, reach), first_BD)


def _by_run(
    x_TD: Tensor,
    first_BD: Tensor,
    layout: TokenLayout,
    weights: HeadWeights | Int8HeadWeights,
    kept_BH: Tensor,
    gates_BH: Tensor,
    reach: Reach,
) -> Iterator[HeadOutputs]:
    size = weights.head_size
    tokens, firsts = weights.prepare(x_TD), weights.prepare(first_BD)
    kept = on_host(kept_BH, layout)
    for heads in shared_heads(kept):
        run = make_run(heads, kept, layout)
        inputs_p = torch.tensor([b for group in run.groups for b in group.inputs], device=x_TD.device)
        for h in run.heads:
            start = 3 * size * h
            q_pd = weights.project(firsts, inputs_p, slice(start, start + size))
            kv_t = weights.project(tokens, run.index_t, slice(start + size, start + 3 * size))
            k_td, v_td = kv_t.unflatten(1, (2, size)).unbind(1)
            # The query stands at place 0, where turning changes nothing.
            heads_pd = _attention(q_pd, layout.turn(k_td, reach, run.index_t), v_td, run, reach)
            gates_p1 = gates_BH[:, h].index_select(0, inputs_p).unsqueeze(-1)
            gated_pd = heads_pd * gates_p1.to(heads_pd.dtype)
            columns = slice(size * h, size * (h + 1))
            yield HeadOutputs(heads=gated_pd, index_t=inputs_p, sizes=[len(gated_pd)], columns=[columns])


def _attention(q_pd: Tensor, k_td: Tensor, v_td: Tensor, run: Run, reach: Reach) -> Tensor:
    outputs, seen = [], 0
    near = slice(None if reach.window is None else reach.window + 1)
    for group in run.groups:
        k, v = (x[group.rows].unflatten(0, (group.count, group.length))[:, near] for x in (k_td, v_td))
        q = q_pd[seen : seen + group.count].unsqueeze(1)
        outputs.append(F.scaled_dot_product_attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)).flatten(0, 2))
        seen += group.count
    return torch.cat(outputs)
