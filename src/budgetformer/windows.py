"""Work through any number of inputs a window at a time; the next window can be prepared while this one is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Prepared = TypeVar("Prepared")


def prepared_windows(
    inputs: Iterable[Item],
    prepare: Callable[[list[Item]], Prepared],
    *,
    size: int,
    check: Callable[[Item, int], object],
    ahead: bool,
) -> Iterator[tuple[list[Item], Prepared]]:
    """``size`` inputs at a time with what ``prepare`` makes of them, in order.

    Args:
        check: called with every input and its number, in the caller's thread; what it raises names the input.
        ahead: read the next window and prepare it in a second thread before the caller gets this one. An error in
            it is raised when it is its turn, so no answer before it is lost.
    """
    numbered = iter(enumerate(inputs))

    def read() -> list[Item]:
        window = []
        for number, item in islice(numbered, size):
            check(item, number)
            window.append(item)
        return window

    if not ahead:
        while window := read():
            yield window, prepare(window)
        return
    waiting: tuple[list[Item], Future[Prepared]] | None = None
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="prepare") as pool:
        while True:
            error: Exception | None = None
            try:
                window = read()
            except Exception as raised:
                error, window = raised, []
            following = (window, pool.submit(prepare, window)) if window else None
            if waiting is not None:
                yield waiting[0], waiting[1].result()
            if error is not None:
                raise error
            if following is None:
                return
            waiting = following
