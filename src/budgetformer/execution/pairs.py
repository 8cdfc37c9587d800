"""The rows of (head, input) pairs: index arithmetic for execution on a GPU, without waiting for it more than once.

A pair is a head and an input that keeps it and has tokens. Pairs are ordered head-major, and by input within a head;
a row is one token of one pair. So the rows of a head are one slice, and those of a pair are one slice of it.

Legend: B inputs, T packed tokens, H heads, P pairs, R rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from .layout import TokenLayout


@dataclass(frozen=True, kw_only=True)
class PairCounts:
    """What the host must know to make room: the number of ``pairs`` and of rows per head, ``rows_H``."""

    pairs: int
    rows_H: list[int]

    @property
    def rows(self) -> int:
        """R, the rows of all heads."""
        return sum(self.rows_H)


@dataclass(frozen=True, kw_only=True)
class PairRows:
    """Where every row comes from and belongs to.

    ``token_R`` and ``head_R``: the packed token and the head of each row. ``ends_H`` (int32): where the rows of each
    head end. ``bounds_Q`` (int32, Q = P + 1): where the rows of each pair begin, and R. ``order_R``: the rows token by
    token, heads ascending within a token, and ``starts_T`` where those of each token begin in it.
    """

    token_R: Tensor
    head_R: Tensor
    ends_H: Tensor
    bounds_Q: Tensor
    order_R: Tensor
    starts_T: Tensor


def count_pairs(kept_BH: Tensor, layout: TokenLayout) -> PairCounts:
    """Count pairs and rows. The one place where the host waits for the device, for H + 1 numbers."""
    chosen_BH = _chosen(kept_BH, layout)
    *rows, pairs = torch.cat([_rows(chosen_BH, layout), chosen_BH.sum().view(1)]).tolist()
    return PairCounts(pairs=pairs, rows_H=rows)


def arrange_pairs(kept_BH: Tensor, layout: TokenLayout, counts: PairCounts) -> PairRows:
    """Arrange the rows of the pairs that ``counts`` counted in the same ``kept_BH``; all on the device."""
    chosen_BH, lengths_B = _chosen(kept_BH, layout), layout.lengths_B
    head_P, input_P = torch.nonzero_static(chosen_BH.T, size=counts.pairs).unbind(dim=1)
    length_P = lengths_B[input_P]
    bounds_Q = F.pad(length_P.cumsum(dim=0), (1, 0))
    pair_R = torch.repeat_interleave(length_P, output_size=counts.rows)
    row_R = torch.arange(counts.rows, device=kept_BH.device)
    token_R = row_R + (_before(lengths_B)[input_P] - bounds_Q[:-1])[pair_R]
    starts_T = _before(chosen_BH.sum(dim=-1)[layout.input_T])
    rank_P = _before(chosen_BH.long())[input_P, head_P]
    place_R = starts_T[token_R] + rank_P[pair_R]
    return PairRows(
        token_R=token_R,
        head_R=head_P[pair_R],
        ends_H=_rows(chosen_BH, layout).cumsum(dim=0, dtype=torch.int32),
        bounds_Q=bounds_Q.int(),
        order_R=torch.empty_like(row_R).scatter_(0, place_R, row_R),
        starts_T=starts_T,
    )


def _chosen(kept_BH: Tensor, layout: TokenLayout) -> Tensor:
    return kept_BH & (layout.lengths_B > 0).unsqueeze(-1)


def _rows(chosen_BH: Tensor, layout: TokenLayout) -> Tensor:
    return (chosen_BH * layout.lengths_B.unsqueeze(-1)).sum(dim=0)


def _before(counts: Tensor) -> Tensor:
    """The sum of all earlier entries along the last axis."""
    return counts.cumsum(dim=-1) - counts
