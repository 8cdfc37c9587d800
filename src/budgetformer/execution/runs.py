"""Which tokens belong to which (head, input) pair: index arithmetic, nothing else.

A *pair row* is one token of one pair. Projections want the pair rows head by head, attention wants those of pairs of
equal length next to each other, with the heads of one input together; this file knows both orders.

Legend: B inputs, H heads, T real tokens of the batch, P pair rows, t tokens of the inputs that chose a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

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
    """Neighbouring heads ``first`` to ``end`` that the same inputs chose; ``index_t`` None for all tokens.

    ``groups`` are these inputs in stretches of equal length; their rows count the tokens of the run.
    """

    first: int
    end: int
    index_t: Tensor | None
    groups: list[Group]


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


def runs(kept_BH: Tensor, layout: TokenLayout) -> list[Run]:
    """Heads that can share their products, in order; heads that nobody with tokens chose are left out."""
    kept = kept_BH.cpu().numpy()
    lengths = np.asarray(layout.lengths, dtype=np.int64)
    found = []
    for column, run in groupby(range(kept.shape[1]), key=lambda h: kept[:, h].tobytes()):
        heads = list(run)
        chosen_B = np.frombuffer(column, dtype=bool) & (lengths > 0)
        inputs = np.flatnonzero(chosen_B).tolist()
        if inputs:
            everyone = int(lengths[chosen_B].sum()) == len(layout.index_T)
            index = None if everyone else _on(np.flatnonzero(np.repeat(chosen_B, lengths)), layout)
            found.append(
                Run(first=heads[0], end=heads[-1] + 1, index_t=index, groups=_equal_lengths(inputs, layout.lengths))
            )
    return found


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
