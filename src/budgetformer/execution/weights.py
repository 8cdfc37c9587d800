"""The weights of an attention layer by head, and what heads give back.

Legend: T real tokens of the whole batch, t those of some inputs, P pair rows, D width, H heads, d the width of a head.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

AT_ONCE = 2**18
"""Most numbers (pair rows times width) that are gathered for all heads at once, and on a CPU added back at once.

More would leave the processor's cache, and are taken head by head. A GPU adds rows of one token in the order of their
arrival, so that there they are always added head by head: the same batch gives the same bits.
"""


@dataclass(frozen=True, kw_only=True)
class HeadOutputs:
    """Gated outputs of heads: row i of ``heads`` belongs to row ``index_t[i]`` of the result (None: to row i).

    ``sizes`` are numbers of neighbouring rows, and ``columns`` the columns of the output weight that belong to these:
    one piece of heads that share their rows, or one for every head in order, which may be empty.
    """

    heads: Tensor
    index_t: Tensor | None
    sizes: list[int]
    columns: list[slice | Tensor]

    def split(self, rows: Tensor) -> list[tuple[Tensor, Tensor | None, slice | Tensor]]:
        """Piece by piece: the part of ``rows`` (as ``heads``), where it belongs, its columns."""
        if len(self.sizes) == 1:
            return [(rows, self.index_t, self.columns[0])]
        places = [None] * len(self.sizes) if self.index_t is None else self.index_t.split(self.sizes)
        pieces = zip(rows.split(self.sizes), places, self.columns, strict=True)
        return [piece for piece, size in zip(pieces, self.sizes, strict=True) if size]


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
        """``x W_rowsᵀ + b_rows`` of the tokens ``index_t`` (None: all) with some rows of the qkv weight, (t, rows).

        ``rows`` is a slice, or an index of heads.
        """
        x_tD = tokens if index_t is None else tokens.index_select(0, index_t)
        bias = None if self.qkv_bias is None else take(self.qkv_bias, rows, self.num_heads)
        return F.linear(x_tD, take(self.qkv_weight, rows, self.num_heads), bias)

    def project_heads(self, tokens: Any, index_P: Tensor, sizes_H: list[int]) -> Tensor:
        """``project`` of every head and its own tokens, ``sizes_H`` of them, one after the other in ``index_P``.

        Returns (P, 3d).
        """
        size = 3 * self.head_size
        if len(index_P) * tokens.shape[-1] > AT_ONCE:
            return project_each(self, tokens, index_P, sizes_H, size)
        x_H, weight_H = tokens.index_select(0, index_P).split(sizes_H), self.qkv_weight.split(size)
        bias_H = [None] * self.num_heads if self.qkv_bias is None else self.qkv_bias.split(size)
        pieces = zip(x_H, weight_H, bias_H, sizes_H, strict=True)
        return torch.cat([F.linear(x_tD, weight, bias) for x_tD, weight, bias, rows in pieces if rows])

    def combine(self, parts: Iterable[HeadOutputs], like_TD: Tensor) -> Tensor:
        """``Σ heads W_columnsᵀ + b`` over all parts, (T, D) as ``like_TD``; summed in float32 or wider.

        The parts are taken one by one, so that those of a generator are never held together.
        """
        wide, dtype = torch.promote_types(like_TD.dtype, torch.float32), like_TD.dtype
        total_TD: Tensor | None = None
        for part in parts:
            if total_TD is None and part.index_t is None and len(part.sizes) == 1:
                weight = take(self.output_weight, part.columns[0], self.num_heads, dim=1)
                share_TD = F.linear(part.heads, weight, self.output_bias)
                total_TD, dtype = share_TD.to(wide), share_TD.dtype
                continue
            total_TD = self._bias_alone(like_TD, wide) if total_TD is None else total_TD
            at_once = not like_TD.is_cuda and len(part.heads) * like_TD.shape[-1] <= AT_ONCE
            shares = []
            for heads_td, index_t, columns in part.split(part.heads):
                share_tD = F.linear(heads_td, take(self.output_weight, columns, self.num_heads, dim=1))
                dtype = share_tD.dtype
                if at_once:
                    shares.append(share_tD)
                else:
                    add_rows(total_TD, index_t, share_tD)
            if shares:
                add_rows(total_TD, part.index_t, shares[0] if len(shares) == 1 else torch.cat(shares))
        return (self._bias_alone(like_TD, wide) if total_TD is None else total_TD).to(dtype)

    def _bias_alone(self, like_TD: Tensor, dtype: torch.dtype) -> Tensor:
        total_TD = torch.zeros_like(like_TD, dtype=dtype)
        return total_TD if self.output_bias is None else total_TD.add_(self.output_bias)


def project_each(weights: Any, tokens: Any, index_P: Tensor, sizes_H: list[int], size: int) -> Tensor:
    """``weights.project_heads`` head by head, ``size`` rows of the qkv weight each."""
    return torch.cat(
        [
            weights.project(tokens, index_t, slice(size * h, size * (h + 1)))
            for h, index_t in enumerate(index_P.split(sizes_H))
            if len(index_t)
        ]
    )


def take(tensor: Tensor, part: slice | Tensor, heads: int, *, dim: int = 0) -> Tensor:
    """A part of a dimension that lies head by head: a view for a slice of it, a copy for an index of heads."""
    if isinstance(part, Tensor):
        return tensor.unflatten(dim, (heads, -1)).index_select(dim, part.to(tensor.device)).flatten(dim, dim + 1)
    return tensor.narrow(dim, part.start, part.stop - part.start)


def add_rows(total_TD: Tensor, index_t: Tensor | None, part_tD: Tensor) -> None:
    """``total[index] += part``; None for all rows."""
    if index_t is None:
        total_TD += part_tD
    else:
        total_TD.index_add_(0, index_t, part_tD.to(total_TD.dtype))
