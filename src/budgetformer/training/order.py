"""In which order an epoch reads the training rows: a function of seed and epoch alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import get_length_grouped_indices


class EpochOrder(Sampler[int]):
    """A permutation of the rows in which neighbours are of similar length, drawn anew for every epoch.

    It uses no global random state, so that a resumed run reads the rows that are left of its epoch, and every
    process has the same permutation to take its share from.

    Args:
        lengths: tokens of each row. group: rows of one update, which are made alike. seed: of the run.
        epoch: tells the epoch from 0 whenever an epoch begins.
    """

    def __init__(self, *, lengths: Sequence[int], group: int, seed: int, epoch: Callable[[], int]) -> None:
        self.lengths, self.group, self.seed, self.epoch = lengths, group, seed, epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed((self.seed << 20) + self.epoch())
        return iter(get_length_grouped_indices(self.lengths, self.group, generator=generator))
