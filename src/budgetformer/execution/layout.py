"""Where the real tokens of a batch lie, and the weights of an attention layer by head.

Legend: B inputs, N tokens with padding, T real tokens of the whole batch, D width, H heads, d = D / H.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

PIECE = 64
"""Tokens that one thread of a GPU sums one after the other."""


@dataclass(frozen=True, kw_only=True)
class HeadOutputs:
    """Gated outputs of heads: row i of ``heads`` belongs to row ``index_t[i]`` of the result (None: to row i).

    ``pieces`` are rows that share the same heads, with the columns of the output weight that belong to these.
    """

    heads: Tensor
    index_t: Tensor | None
    pieces: list[tuple[slice, slice | Tensor]]


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


@dataclass(frozen=True, kw_only=True)
class HeadWeights:
    """Weights of one layer, head-major: the rows of ``qkv_weight`` are q, k, v of head 0, then of head 1, and so on.

    ``qkv_weight`` (3Hd, D) and ``qkv_bias`` (3Hd,); ``output_weight`` (D, Hd) as (out, in), its columns head-major;
    ``output_bias`` (D,). H is ``num_heads``, those that the layer has: Hd is D until some are dropped. One head's
    weights are views, so nothing is copied to use neighbouring heads.

    ``prepare``, ``project`` and ``combine`` are what the packed path calls; other number formats bring their own
    (``int8.Int8HeadWeights``).
    """

    num_heads: int
    qkv_weight: Tensor
    qkv_bias: Tensor | None
    output_weight: Tensor
    output_bias: Tensor | None

    @property
    def head_size(self) -> int:
        """``d``, the width of a head."""
        return self.qkv_weight.shape[0] // (3 * self.num_heads)

    def wants_gradients(self) -> bool:
        """Whether a weight asks for its gradient."""
        weights = (self.qkv_weight, self.qkv_bias, self.output_weight, self.output_bias)
        return any(w is not None and w.requires_grad for w in weights)

    def prepare(self, x_TD: Tensor) -> Any:
        """What all products of a layer's input share: here nothing."""
        return x_TD

    def project(self, tokens: Any, index_t: Tensor | None, rows: slice | Tensor) -> Tensor:
        """``x W_rowsᵀ + b_rows`` of the tokens ``index_t`` (None: all) with some rows of the qkv weight, (t, rows)."""
        x_tD = tokens if index_t is None else tokens.index_select(0, index_t)
        bias = None if self.qkv_bias is None else take(self.qkv_bias, rows)
        return F.linear(x_tD, take(self.qkv_weight, rows), bias)

    def combine(self, parts: Iterable[HeadOutputs], like_TD: Tensor) -> Tensor:
        """``Σ heads W_columnsᵀ + b`` over all parts, (T, D) as ``like_TD``; summed in float32 or wider.

        The parts are taken one by one, so that those of a generator are never held together.
        """
        wide, dtype = torch.promote_types(like_TD.dtype, torch.float32), like_TD.dtype
        total_TD = torch.zeros_like(like_TD, dtype=wide)
        if self.output_bias is not None:
            total_TD += self.output_bias
        for part in parts:
            for rows, columns in part.pieces:
                share_tD = F.linear(part.heads[rows], take(self.output_weight, columns, dim=1))
                dtype = share_tD.dtype
                add_rows(total_TD, None if part.index_t is None else part.index_t[rows], share_tD)
        return total_TD.to(dtype)


def take(tensor: Tensor, part: slice | Tensor, *, dim: int = 0) -> Tensor:
    """A part of one dimension: a view for a slice, a copy for an index."""
    if isinstance(part, Tensor):
        return tensor.index_select(dim, part)
    return tensor[part] if dim == 0 else tensor[:, part]


def add_rows(total_TD: Tensor, index_t: Tensor | None, part_tD: Tensor) -> None:
    """``total[index] += part``; None for all rows."""
    if index_t is None:
        total_TD += part_tD
    else:
        total_TD.index_add_(0, index_t, part_tD.to(total_TD.dtype))


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

    def pack(self, x_BND: Tensor) -> Tensor:
        """(B, N, D) to the real tokens (T, D)."""
        return x_BND.flatten(0, 1).index_select(0, self.index_T)

    def unpack(self, x_TD: Tensor) -> Tensor:
        """(T, D) back to (B, N, D), zeros at padding."""
        batch, length = self.mask_BN.shape
        grid = x_TD.new_zeros(batch * length, x_TD.shape[-1])
        return grid.index_copy(0, self.index_T, x_TD).view(batch, length, -1)

    def mean(self, x: Tensor) -> Tensor:
        """``method.pooled_input`` on packed tokens: the mean over each input's tokens in float32, (B, D).

        The choice of heads hangs on it, so it is summed in the same order every time. On a GPU ``index_add`` is not.
        """
        if x.is_cuda:
            total_BD = self.sums_by_pieces(x.float())
        else:
            total_BD = _sums(x.float(), self.lengths_B.cumsum(0) - self.lengths_B)
        return total_BD / self.lengths_B.clamp(min=1).unsqueeze(-1)

    def sums_by_pieces(self, x_TD: Tensor) -> Tensor:
        """The sum over each input's tokens, (B, D): of pieces of ``PIECE`` tokens in parallel, then of their sums."""
        piece_starts, input_starts = self._pieces
        return _sums(_sums(x_TD, piece_starts), input_starts)

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
