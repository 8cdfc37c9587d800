"""Independent pieces of work side by side, each on its share of the cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Piece], Result], pieces: Sequence[Piece], *, workers: int) -> Iterable[Result]:
    """``work`` of every piece, in order, by at most ``workers`` threads that share torch's threads evenly.

    Many operations of a small model are too short to be worth two cores, so that several batches at a time use them
    better than one batch on all. torch keeps the number of threads for each thread of the program; it is put back for
    those to come. With one worker or one piece everything runs in the caller's thread.
    """
    workers = min(workers, len(pieces))
    if workers < 2:
        return map(work, pieces)
    return _together(work, pieces, workers)


def _together(work: Callable[[Piece], Result], pieces: Sequence[Piece], workers: int) -> Iterator[Result]:
    threads = torch.get_num_threads()
    share = max(1, threads // workers)
    try:
        with ThreadPoolExecutor(workers, "batch", initializer=torch.set_num_threads, initargs=(share,)) as pool:
            yield from pool.map(work, pieces)
    finally:
        torch.set_num_threads(threads)
