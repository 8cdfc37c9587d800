"""Which tokens belong to which (head, input) pair: index arithmetic, nothing else.

A *pair row* is one token of one pair. Projections want the pair rows head by head, attention wants those of pairs of
equal length next to each other; this file knows both orders.

Legend: B inputs, H heads, T real tokens of the batch, P pair rows, t tokens of the inputs that chose a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from .layout import Group, TokenLayout, equal_lengths


@dataclass(frozen=True, kw_only=True)
class Run:
    """``heads`` that the same inputs chose, in order; ``index_t`` None for all tokens.

    ``groups`` are these inputs in stretches of equal length; their rows count the tokens of the run.
    """

    heads: list[int]
    index_t: Tensor | None
    groups: list[Group]

    def part(self, size: int) -> slice | Tensor:
        """Where the heads lie among rows of ``size`` for each head: a slice for neighbours, else the heads' index."""
        first, end = self.heads[0], self.heads[-1] + 1
        return slice(first * size, end * size) if end - first == len(self.heads) else torch.tensor(self.heads)


@dataclass(frozen=True, kw_only=True)
class PairOrder:
    """Both orders of the pair rows.

    ``tokens_P`` is the token of every row, head by head; ``sizes_H`` how many rows each head has.
    ``by_length_P`` takes the rows from head order to attention order and ``by_head_P`` back, None where all inputs
    have one length and the two are the same; ``groups`` are the stretches of equal length in attention order.
    """

    tokens_P: Tensor
    sizes_H: list[int]
    by_length_P: Tensor | None
    by_head_P: Tensor | None
    groups: list[Group]


def on_host(kept: Tensor, layout: TokenLayout) -> np.ndarray:
    """What was kept (B, H) as an array, inputs without tokens left out."""
    kept_BH: np.ndarray = kept.cpu().numpy()
    return kept_BH if min(layout.lengths, default=0) > 0 else kept_BH & (layout.lengths_array > 0)[:, None]


def shared_heads(kept_BH: np.ndarray, *, apart: bool = False) -> list[list[int]]:
    """Heads that can share their products, in order, from what was kept (``on_host``).

    These are neighbours that the same inputs chose; with ``apart`` they need not be neighbours. Heads that nobody
    chose are left out.
    """
    if kept_BH.all():
        return [list(range(kept_BH.shape[1]))] if len(kept_BH) else []
    if apart and len(kept_BH) == 1:
        found = [kept_BH[0].nonzero()[0].tolist()]
        return found if found[0] else []
    if apart:
        by_inputs: dict[bytes, list[int]] = {}
        for h, column in enumerate(kept_BH.T.tolist()):
            by_inputs.setdefault(bytes(column), []).append(h)
        found = list(by_inputs.values())
    else:
        changes = ((kept_BH[:, 1:] != kept_BH[:, :-1]).any(axis=0).nonzero()[0] + 1).tolist()
        found = [list(range(first, end)) for first, end in pairwise([0, *changes, kept_BH.shape[1]])]
    chosen_H = np.asarray(kept_BH.any(axis=0))
    return [heads for heads in found if chosen_H[heads[0]]]


def make_run(heads: list[int], kept_BH: np.ndarray, layout: TokenLayout) -> Run:
    """The run of some ``shared_heads``."""
    chosen_B, lengths_B = kept_BH[:, heads[0]], layout.lengths_array
    if int(lengths_B @ chosen_B) == len(layout.index_T):
        return Run(heads=heads, index_t=None, groups=layout.groups)
    index_t = _on(np.flatnonzero(np.repeat(chosen_B, lengths_B)), layout)
    return Run(heads=heads, index_t=index_t, groups=equal_lengths(chosen_B.nonzero()[0].tolist(), layout.lengths))


def stretches_of_heads(heads: list[int], kept_BH: np.ndarray, layout: TokenLayout) -> list[int]:
    """How many stretches of equal length the inputs of each head lie in."""
    starts = [group.inputs[0] for group in layout.groups]
    return np.logical_or.reduceat(kept_BH[:, heads], starts, axis=0).sum(axis=0).tolist() if starts else []


def pair_order(kept_BH: np.ndarray, layout: TokenLayout) -> PairOrder:
    """Both orders of the pair rows of ``kept_BH`` (``on_host``)."""
    lengths_B = layout.lengths_array
    input_p = kept_BH.T.nonzero()[1]
    length_p = lengths_B[input_p]
    first_p = (lengths_B.cumsum() - lengths_B)[input_p]
    total = int(length_p.sum())
    sizes_H = (lengths_B @ kept_BH).tolist()
    tokens_P = _on(_ranges(first_p, length_p, total), layout)
    if len(layout.distinct_lengths) == 1:
        groups = [Group(start=0, count=len(length_p), length=int(length_p[0]))]
        return PairOrder(tokens_P=tokens_P, sizes_H=sizes_H, by_length_P=None, by_head_P=None, groups=groups)
    start_p = length_p.cumsum() - length_p
    order_p = np.argsort(length_p, kind="stable")
    sorted_p = length_p[order_p]
    by_length = _ranges(start_p[order_p], sorted_p, total)
    by_head = np.empty_like(by_length)
    by_head[by_length] = np.arange(total)
    groups, start = [], 0
    bounds = [0, *(np.flatnonzero(np.diff(sorted_p)) + 1).tolist(), len(sorted_p)]
    for first, end in pairwise(bounds):
        groups.append(Group(start=start, count=end - first, length=int(sorted_p[first])))
        start = groups[-1].rows.stop
    return PairOrder(
        tokens_P=tokens_P,
        sizes_H=sizes_H,
        by_length_P=_on(by_length, layout),
        by_head_P=_on(by_head, layout),
        groups=groups,
    )


def _ranges(starts_p: np.ndarray, lengths_p: np.ndarray, total: int) -> np.ndarray:
    """``start, start + 1, …`` for every pair, one after the other."""
    before_p = lengths_p.cumsum() - lengths_p
    return np.repeat(starts_p - before_p, lengths_p) + np.arange(total)


def _on(index: np.ndarray, layout: TokenLayout) -> Tensor:
    return torch.from_numpy(index).to(layout.index_T.device)
