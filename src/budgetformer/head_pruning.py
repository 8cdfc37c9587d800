"""Dropping heads of a model for good: their weights go, and what is left computes as if they were never chosen.

Legend: D width, H heads of before, K heads that a layer keeps, d = D / H.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .attention import BudgetedSelfAttention
from .execution.int8 import Int8Linear
from .fewer_heads import BiasAlone


def heads_left(kept: list[list[int]], dropped: Mapping[int, Iterable[int]], *, min_heads: int) -> list[list[int]]:
    """What remains of the heads ``kept`` of every layer without those that ``dropped`` names by layer.

    Raises ValueError naming the layer and the head that is not there, and a layer that would keep fewer than
    ``min_heads``, and anything that does not list heads by layer.
    """
    if not isinstance(dropped, Mapping):
        raise ValueError(f"heads are named by layer, such as {{0: [2, 5]}}, got {dropped!r}")
    left = [list(own) for own in kept]
    for key, heads in dropped.items():
        layer = _whole(key)
        if layer is None or not 0 <= layer < len(left):
            raise ValueError(f"layers are numbered from 0 to {len(left) - 1}, got {key!r}")
        try:
            asked = [(_whole(head), head) for head in heads]
        except TypeError:
            raise ValueError(f"layer {layer}: heads are given as a list, such as [2, 5], got {heads!r}") from None
        own = list(left[layer])
        for head, given in asked:
            if head not in own:
                raise ValueError(f"layer {layer} has no head {given!r} to drop; it has {own}")
        left[layer] = [head for head in own if head not in {number for number, _ in asked}]
        if len(left[layer]) < min_heads:
            raise ValueError(
                f"layer {layer} would keep {len(left[layer])} heads, and every input keeps at least min_heads "
                f"({min_heads}) in every layer; leave it more"
            )
    return left


@torch.no_grad()
def keep_heads(attention: BudgetedSelfAttention, heads: list[int]) -> None:
    """Leave a layer the ``heads`` of those that it has, in place: new, smaller parameters of the same values.

    With straight-through gates the rows of g go too; soft gates are shares of the relevance of all heads, so there g
    stays whole. A g of another kind than the default one stays as it is. Raises ValueError for a layer in int8.
    """
    if isinstance(attention.qkv, Int8Linear):
        raise ValueError("heads are dropped from a model in float32 or bf16, and this one is in int8: load it anew")
    if list(attention.heads) == heads:
        return
    assert isinstance(attention.qkv, nn.Linear)
    assert isinstance(attention.output, nn.Linear)
    size, before = attention.head_size, attention.heads
    places = [before.index(head) for head in heads]
    net, bias = attention.relevance_net, attention.output.bias
    attention.heads = tuple(heads)
    if not heads:
        attention.qkv, attention.relevance_net = None, None
        attention.output = BiasAlone(attention.width, bias=bias is not None).to(attention.output.weight)
        if bias is not None:
            attention.output.bias = bias
        return
    _shrink(attention.qkv, _numbers(places, 3 * size), dim=0)
    _shrink(attention.output, _numbers(places, size), dim=1)
    if isinstance(net, nn.Linear) and attention.narrow_scores:
        _shrink(net, places, dim=0)


def _whole(value: Any) -> int | None:
    """A whole number of any kind, numpy's and torch's too, as an int; None for everything else."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _numbers(places: list[int], size: int) -> list[int]:
    return [size * place + i for place in places for i in range(size)]


def _shrink(linear: nn.Linear, chosen: list[int], *, dim: int) -> None:
    """Keep the ``chosen`` outputs (dim 0) or inputs (dim 1) of a Linear layer."""

    def part(tensor: Tensor) -> nn.Parameter:
        index = torch.tensor(chosen, device=tensor.device)
        return nn.Parameter(tensor.detach().index_select(dim, index), requires_grad=tensor.requires_grad)

    linear.weight = part(linear.weight)
    if dim == 0 and linear.bias is not None:
        linear.bias = part(linear.bias)
    linear.out_features, linear.in_features = linear.weight.shape
