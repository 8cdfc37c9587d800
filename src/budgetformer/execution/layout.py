"""Where the real tokens of a batch lie.

Legend: B inputs, N tokens with padding, T real tokens of the whole batch, D width, d the width of a head.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

PIECE = 64
"""Tokens that one thread of a GPU sums one after the other."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Neighbouring pairs (or ``inputs``) of one ``length``: rows ``start`` to ``start + count · length``."""

    start: int
    count: int
    length: int
    inputs: tuple[int, ...] = ()

    @property
    def rows(self) -> slice:
        """The rows of the group."""
        return slice(self.start, self.start + self.count * self.length)


def equal_lengths(inputs: Iterable[int], lengths: list[int]) -> list[Group]:
    """``inputs`` in stretches of neighbours of one length."""
    groups: list[Group] = []
    start = 0
    for length, found in groupby(inputs, key=lengths.__getitem__):
        members = tuple(found)
        groups.append(Group(start=start, count=len(members), length=length, inputs=members))
        start = groups[-1].rows.stop
    return groups


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How far a layer's tokens look, and how they tell places apart.

    ``window``: a token attends to tokens at most so many places away; None: to all of its input.
    ``rotary_theta``: queries and keys are turned by their place (Su et al. 2021, arXiv 2104.09864, dimension i
    together with i + d/2) at the frequencies ``theta^(-2i/d)``; None: they are not.
    """

    window: int | None = None
    rotary_theta: float | None = None


EVERYWHERE = Reach()
"""All tokens of the input, places not told apart."""


class TokenLayout:
    """The geometry of one batch: a padded (B, N) grid, or its real tokens packed one after the other.

    With ``packed`` every tensor of tokens is (T, …) in the order of the inputs, otherwise (B, N, …). ``execution`` is
    the name of the way that the tokens were laid out for; packed or reference when it is not given.
    """

    def __init__(self, mask_BN: Tensor, *, packed: bool = False, execution: str | None = None) -> None:
        self.mask_BN = mask_BN
        self.packed = packed
        self.execution = execution or ("packed" if packed else "reference")
        self.lengths_B = mask_BN.sum(dim=-1)
        self._rotations: dict[float, tuple[Tensor, Tensor]] = {}
        if packed:
            self.index_T = mask_BN.flatten().nonzero().squeeze(-1)
            self.input_T = self.index_T // mask_BN.shape[1]
            self.lengths: list[int] = self.lengths_B.tolist()
            self.lengths_array = np.asarray(self.lengths, dtype=np.int64)

    def pack(self, x_BND: Tensor) -> Tensor:
        """(B, N, D) to the real tokens (T, D)."""
        return x_BND.flatten(0, 1) if self._no_padding else x_BND.flatten(0, 1).index_select(0, self.index_T)

    def unpack(self, x_TD: Tensor) -> Tensor:
        """(T, D) back to (B, N, D), zeros at padding."""
        batch, length = self.mask_BN.shape
        if self._no_padding:
            return x_TD.view(batch, length, x_TD.shape[-1])
        grid = x_TD.new_zeros(batch * length, x_TD.shape[-1])
        return grid.index_copy(0, self.index_T, x_TD).view(batch, length, -1)

    def mean(self, x: Tensor) -> Tensor:
        """``method.pooled_input`` on packed tokens: the mean over each input's tokens in float32, (B, D).

        The choice of heads hangs on it, so it is summed in the same order every time. On a GPU ``index_add`` is not.
        """
        if x.is_cuda:
            total_BD = self.sums_by_pieces(x.float())
        else:
            total_BD = F.embedding_bag(self._order, x.float(), self._starts, mode="sum")
        return total_BD / self._counts

    def sums_by_pieces(self, x_TD: Tensor) -> Tensor:
        """The sum over each input's tokens, (B, D): of pieces of ``PIECE`` tokens in parallel, then of their sums."""
        piece_starts, input_starts = self._pieces
        return _sums(_sums(x_TD, piece_starts), input_starts)

    @cached_property
    def groups(self) -> list[Group]:
        """The inputs that have tokens, in stretches of one length."""
        return equal_lengths((b for b, length in enumerate(self.lengths) if length), self.lengths)

    @cached_property
    def distinct_lengths(self) -> set[int]:
        """Every length of an input that has tokens."""
        return set(self.lengths) - {0}

    @cached_property
    def _no_padding(self) -> bool:
        return len(self.index_T) == self.mask_BN.numel()

    @cached_property
    def _order(self) -> Tensor:
        return torch.arange(len(self.index_T), device=self.index_T.device)

    @cached_property
    def _starts(self) -> Tensor:
        """The packed token at which each input begins."""
        return self.lengths_B.cumsum(0) - self.lengths_B

    @cached_property
    def _counts(self) -> Tensor:
        return self.lengths_B.clamp(min=1).unsqueeze(-1)

    @cached_property
    def place(self) -> Tensor:
        """The place of every token among the real tokens of its input, from 0, (T,) or (B, N)."""
        if not self.packed:
            return (self.mask_BN.long().cumsum(dim=1) - 1).clamp(min=0)
        place_T = torch.arange(len(self.input_T), device=self.input_T.device)
        return place_T - (self.lengths_B.cumsum(0) - self.lengths_B)[self.input_T]

    def turn(self, x: Tensor, reach: Reach, index: Tensor | None = None) -> Tensor:
        """Queries or keys ``x`` (tokens, …, d) as ``reach`` turns them: of all tokens, or of the packed ``index``."""
        if reach.rotary_theta is None:
            return x
        cos, sin = self._rotation(reach.rotary_theta, x.shape[-1])
        if index is not None:
            cos, sin = cos.index_select(0, index), sin.index_select(0, index)
        between = (1,) * (x.dim() - cos.dim())
        cos, sin = (t.view(*t.shape[:-1], *between, t.shape[-1]) for t in (cos, sin))
        first, second = x.float().chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)

    def _rotation(self, theta: float, size: int) -> tuple[Tensor, Tensor]:
        """Cosine and sine of every token's angles in float32, (tokens, d / 2); all layers of a batch share them."""
        if theta not in self._rotations:
            exponent = torch.arange(0, size, 2, device=self.mask_BN.device, dtype=torch.float32) / size
            angle = self.place.unsqueeze(-1).float() * (1.0 / theta**exponent)
            self._rotations[theta] = (angle.cos(), angle.sin())
        return self._rotations[theta]

    @cached_property
    def _pieces(self) -> tuple[Tensor, Tensor]:
        """The packed token at which each piece begins, and the piece at which each input begins."""
        place_T = self.place
        count = sum(-(-length // PIECE) for length in self.lengths)
        pieces_B = (self.lengths_B + PIECE - 1) // PIECE
        starts = torch.nonzero_static(place_T % PIECE == 0, size=count).squeeze(-1)
        return starts, pieces_B.cumsum(0) - pieces_B

    def first(self, x: Tensor) -> Tensor:
        """The first token of every input, (B, D); zeros for an input without tokens."""
        if not self.mask_BN.shape[1]:
            return x.new_zeros(len(self.mask_BN), x.shape[-1])
        if not self.packed:
            first_B11 = self.mask_BN.int().argmax(dim=-1)[:, None, None]
            first_BD = x.gather(1, first_B11.expand(-1, 1, x.shape[-1])).squeeze(1)
            return first_BD * self.mask_BN.any(dim=-1, keepdim=True).to(x.dtype)
        starts_B = self.lengths_B.cumsum(0) - self.lengths_B
        picked_BD = x[starts_B.clamp(max=max(len(x) - 1, 0))] if len(x) else x.new_zeros(len(self.lengths), x.shape[-1])
        return picked_BD * (self.lengths_B > 0).unsqueeze(-1).to(x.dtype)


def _sums(rows: Tensor, starts: Tensor) -> Tensor:
    """Sums of neighbouring rows, one after the other; each begins at its start and ends where the next one begins."""
    return F.embedding_bag(torch.arange(len(rows), device=rows.device), rows, starts, mode="sum")
