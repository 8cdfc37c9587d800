"""Reversible tables of tensor names: which tensors of a source model make which tensor of a BudgetFormer.

An entry is one tensor here and one or several there. Names with ``{i}`` stand for every layer. Query, key and value
are three tensors in most sources and one here, head by head, so that the weights of one head lie together.

Legend: H heads, d = D / H.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Entry:
    """``ours`` is the ``sources`` one below the other; ``by_head``: its rows go from (3, H, d) to (H, 3, d)."""

    sources: tuple[str, ...]
    ours: str
    by_head: bool = False

    def forward(self, tensors: list[Tensor], heads: int) -> Tensor:
        """The tensor here, of those of the source."""
        whole = tensors[0] if len(tensors) == 1 else torch.cat(tensors)
        return whole.unflatten(0, (3, heads, -1)).transpose(0, 1).flatten(0, 2) if self.by_head else whole

    def backward(self, tensor: Tensor, heads: int) -> list[Tensor]:
        """The tensors of the source, of the one here."""
        if self.by_head:
            tensor = tensor.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2)
        return [part.contiguous() for part in tensor.chunk(len(self.sources))]


Table = tuple[Entry, ...]


def linear(source: str, ours: str) -> Table:
    """Weight and bias of a Linear or LayerNorm, where they are there."""
    return tuple(Entry(sources=(f"{source}.{part}",), ours=f"{ours}.{part}") for part in ("weight", "bias"))


def projections(sources: tuple[str, ...], ours: str) -> Table:
    """Weights and biases of query, key and value, in three modules or one."""
    return tuple(
        Entry(sources=tuple(f"{name}.{part}" for name in sources), ours=f"{ours}.{part}", by_head=True)
        for part in ("weight", "bias")
    )


def prefixed(table: Table, *, source: str, ours: str) -> Table:
    """The table with something before all names of either side."""
    return tuple(
        replace(entry, sources=tuple(source + name for name in entry.sources), ours=ours + entry.ours)
        for entry in table
    )


def for_layers(table: Iterable[Entry], layers: int) -> Iterator[Entry]:
    """Every entry, those with ``{i}`` once for each layer."""
    for entry in table:
        if "{i}" not in entry.ours:
            yield entry
            continue
        for i in range(layers):
            names = tuple(name.replace("{i}", str(i)) for name in entry.sources)
            yield replace(entry, sources=names, ours=entry.ours.replace("{i}", str(i)))


def to_ours(
    table: Table, state: dict[str, Tensor], *, layers: int, heads: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors here, and those of ``state`` that no entry of the table takes.

    Entries of which ``state`` has nothing are left out: whether one is missing, only the new model can tell. Raises
    ValueError naming the tensors that are there in part.
    """
    found: dict[str, Tensor] = {}
    left = dict(state)
    for entry in for_layers(table, layers):
        there = [name for name in entry.sources if name in left]
        if not there:
            continue
        if len(there) < len(entry.sources):
            absent = [name for name in entry.sources if name not in left]
            raise ValueError(f"the weights have {there[0]} and lack {', '.join(absent)}")
        found[entry.ours] = entry.forward([left.pop(name) for name in entry.sources], heads)
    return found, left


def to_source(table: Table, state: dict[str, Tensor], *, layers: int, heads: int) -> dict[str, Tensor]:
    """The tensors of the source, of those here; the way back of ``to_ours``."""
    found: dict[str, Tensor] = {}
    for entry in for_layers(table, layers):
        if entry.ours in state:
            parts = entry.backward(state[entry.ours], heads)
            found.update(zip(entry.sources, parts, strict=True))
    return found
