"""Which tokens belong to which (head, input) pair: index arithmetic, nothing else.

A *pair row* is one token of one pair. Projections want the pair rows head by head, attention wants those of pairs of
equal length next to each other, with the heads of one input together; this file knows both orders.

Legend: B inputs, H heads, T real tokens of the batch, P pair rows, t tokens of the inputs that chose a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
import torch
from torch import Tensor

from .layout import TokenLayout


@dataclass(frozen=True, kw_only=True)
class Group:
    """Neighbouring pairs (or ``inputs`` of a run) of one ``length``: rows ``start`` to ``start + count · length``."""

    start: int
    count: int
    length: int
    inputs: tuple[int, ...] = ()

    @property
    def rows(self) -> slice:
        """The rows of the group."""
        return slice(self.start, self.start + self.count * self.length)


@dataclass(frozen=True, kw_only=True)
class Run:
    """``heads`` that the same inputs chose, in order; ``index_t`` None for all tokens.

    ``groups`` are these inputs in stretches of equal length; their rows count the tokens of the run.
    """

    heads: list[int]
    index_t: Tensor | None
    groups: list[Group]

    def part(self, size: int) -> slice | Tensor:
        """Where the heads lie among rows of ``size`` for each head: a slice for neighbours, else an index."""
        first, end = self.heads[0], self.heads[-1] + 1
        if end - first == len(self.heads):
            return slice(first * size, end * size)
        rows = (np.asarray(self.heads)[:, None] * size + np.arange(size)).ravel()
        return torch.from_numpy(rows)


@dataclass(frozen=True, kw_only=True)
class PairOrder:
    """Both orders of the pair rows.

    ``tokens_P`` is the token of every row, head by head; ``bounds`` the ends of the heads in it (H + 1).
    ``by_length_P`` takes the rows from head order to attention order and ``by_head_P`` back; ``groups`` are the
    stretches of equal length in attention order.
    """

    tokens_P: Tensor
    bounds: list[int]
    by_length_P: Tensor
    by_head_P: Tensor
    groups: list[Group]


def runs(kept: Tensor, layout: TokenLayout, *, apart: bool = False) -> list[Run]:
    """Heads that can share their products, in order, from what was kept (B, H).

    These are neighbours that the same inputs chose; with ``apart`` they need not be neighbours. Heads that nobody
    with tokens chose are left out.
    """
    lengths_B = np.asarray(layout.lengths, dtype=np.int64)
    kept_BH = kept.cpu().numpy() & (lengths_B > 0)[:, None]
    if apart and len(lengths_B) == 1:
        heads, length = kept_BH[0].nonzero()[0].tolist(), int(lengths_B[0])
        group = Group(start=0, count=1, length=length, inputs=(0,))
        return [Run(heads=heads, index_t=None, groups=[group])] if heads else []
    found = []
    for heads in _equal_columns(kept_BH, apart):
        chosen_B = kept_BH[:, heads[0]]
        inputs = chosen_B.nonzero()[0]
        if len(inputs):
            everyone = int(lengths_B[inputs].sum()) == len(layout.index_T)
            index = None if everyone else _on(np.flatnonzero(np.repeat(chosen_B, lengths_B)), layout)
            groups = _equal_lengths(inputs.tolist(), layout.lengths)
            found.append(Run(heads=heads, index_t=index, groups=groups))
    return found


def _equal_columns(kept_BH: np.ndarray, apart: bool) -> list[list[int]]:
    if apart:
        by_inputs: dict[bytes, list[int]] = {}
        for h in range(kept_BH.shape[1]):
            by_inputs.setdefault(kept_BH[:, h].tobytes(), []).append(h)
        return list(by_inputs.values())
    changes = (np.flatnonzero((kept_BH[:, 1:] != kept_BH[:, :-1]).any(axis=0)) + 1).tolist()
    return [list(range(first, end)) for first, end in pairwise([0, *changes, kept_BH.shape[1]])]


def pair_order(kept_BH: Tensor, layout: TokenLayout) -> PairOrder:
    """Both orders of the pair rows of ``kept_BH``."""
    lengths_B = np.asarray(layout.lengths, dtype=np.int64)
    kept_HB = (kept_BH.cpu().numpy() & (lengths_B > 0)[:, None]).T
    head_p, input_p = kept_HB.nonzero()
    length_p = lengths_B[input_p]
    first_token_B = lengths_B.cumsum() - lengths_B
    start_p = length_p.cumsum() - length_p
    total = int(length_p.sum())
    order_p = np.lexsort((head_p, input_p, length_p))
    sorted_p = length_p[order_p]
    by_length = _ranges(start_p[order_p], sorted_p, total)
    by_head = np.empty_like(by_length)
    by_head[by_length] = np.arange(total)
    groups, start = [], 0
    for length, count in zip(*np.unique(sorted_p, return_counts=True), strict=True):
        groups.append(Group(start=start, count=int(count), length=int(length)))
        start = groups[-1].rows.stop
    return PairOrder(
        tokens_P=_on(_ranges(first_token_B[input_p], length_p, total), layout),
        bounds=[0, *(kept_HB @ lengths_B).cumsum().tolist()],
        by_length_P=_on(by_length, layout),
        by_head_P=_on(by_head, layout),
        groups=groups,
    )


def _equal_lengths(inputs: list[int], lengths: list[int]) -> list[Group]:
    groups: list[Group] = []
    start = 0
    for length, found in groupby(inputs, key=lengths.__getitem__):
        members = tuple(found)
        groups.append(Group(start=start, count=len(members), length=length, inputs=members))
        start = groups[-1].rows.stop
    return groups


def _ranges(starts_p: np.ndarray, lengths_p: np.ndarray, total: int) -> np.ndarray:
    """``start, start + 1, …`` for every pair, one after the other."""
    before_p = lengths_p.cumsum() - lengths_p
    return np.repeat(starts_p - before_p, lengths_p) + np.arange(total)


def _on(index: np.ndarray, layout: TokenLayout) -> Tensor:
    return torch.from_numpy(index).to(layout.index_T.device)
