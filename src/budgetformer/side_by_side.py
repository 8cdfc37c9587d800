"""Independent pieces of work side by side, each on its share of the cores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_setting = threading.Lock()
"""Held while the number for threads to come is another than it was."""


def side_by_side(work: Callable[[Piece], Result], pieces: Sequence[Piece], *, workers: int) -> Iterable[Result]:
    """``work`` of every piece, in order, by at most ``workers`` threads that share torch's threads evenly.

    Many operations of a small model are too short to be worth two cores, so that several batches at a time use them
    better than one batch on all. The number of torch's threads is changed for the workers alone, however many such
    calls run at once. With one worker or one piece everything runs in the caller's thread.
    """
    workers = min(workers, len(pieces))
    if workers < 2:
        return map(work, pieces)
    return _together(work, pieces, workers)


def _together(work: Callable[[Piece], Result], pieces: Sequence[Piece], workers: int) -> Iterator[Result]:
    with _setting:
        share, later = max(1, torch.get_num_threads() // workers), _in_a_new_thread(torch.get_num_threads)
    with ThreadPoolExecutor(workers, "batch", initializer=_take_share, initargs=(share, later)) as pool:
        yield from pool.map(work, pieces)


def _take_share(share: int, later: int) -> None:
    """``share`` threads for this worker, ``later`` for the threads to come.

    torch has one call for both: what it sets is the caller's own number, and that of every thread which comes to torch
    for the first time afterwards. So another thread sets the second number back at once. The worker asks for its number
    first: until a thread has done so, torch would give it that of the threads to come in place of its own.
    """
    with _setting:
        torch.get_num_threads()
        torch.set_num_threads(share)
        _in_a_new_thread(lambda: torch.set_num_threads(later))


def _in_a_new_thread(call: Callable[[], Result]) -> Result:
    found: list[Result] = []
    thread = threading.Thread(target=lambda: found.append(call()), name="torch-threads")
    thread.start()
    thread.join()
    return found[0]
