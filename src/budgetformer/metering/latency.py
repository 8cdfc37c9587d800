"""Time of calls: several candidates side by side in one run, or every call of a stream.

A machine warms up, throttles and has neighbours. So candidates take turns in every round, in an order that is drawn
anew, and are compared round by round; calls that warm up are made and not counted; a device that works on its own is
waited for before the clock starts and before it stops. Every figure comes with its spread. Unit: seconds.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

T = TypeVar("T")
Progress = Callable[[int, int], object]
"""Called after every call, while no clock runs, with the calls done and all calls, those that warm up among them."""


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Median of the ratios of paired rounds with their lower and upper quartile.

    ``interval`` holds the median that endless rounds would have, in 95 of 100 runs: from order statistics, whatever
    the distribution. With fewer than 6 rounds it is the range, which holds it less often.
    """

    median: float
    lower: float
    upper: float
    interval: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """``seconds`` of one candidate, one per counted round in the order of the rounds."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Half of the rounds took at most this long."""
        return self.percentile(50)

    @property
    def quartiles(self) -> tuple[float, float]:
        """A quarter of the rounds took at most the first, three quarters at most the second."""
        return self.percentile(25), self.percentile(75)

    @property
    def minimum(self) -> float:
        """The fastest round."""
        return min(self.seconds)

    @property
    def maximum(self) -> float:
        """The slowest round."""
        return max(self.seconds)

    def percentile(self, percent: float) -> float:
        """Interpolated between the two nearest rounds; ``percent`` in [0, 100]."""
        return float(np.percentile(self.seconds, percent))

    def ratio(self, other: Timing) -> Ratio:
        """How many times as long as ``other``, from ``self / other`` of each round.

        ``dense.ratio(ours)`` above 1 is a gain of ours. What disturbed a round disturbed both, so the pairs agree
        where the seconds do not. Raises ValueError when the two were not timed in the same number of rounds.
        """
        if len(self.seconds) != len(other.seconds):
            raise ValueError(
                f"a ratio needs two timings of the same run, got {len(self.seconds)} and {len(other.seconds)} rounds"
            )
        shortest = time.get_clock_info("perf_counter").resolution
        shares = np.array(self.seconds) / np.maximum(other.seconds, shortest)
        lower, median, upper = (float(q) for q in np.percentile(shares, (25, 50, 75)))
        return Ratio(median=median, lower=lower, upper=upper, interval=_median_interval(shares))


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """``seconds`` of every call, one per input in the order of the inputs."""

    seconds: tuple[float, ...]

    @property
    def p50(self) -> float:
        """Half of the calls were answered in this time."""
        return self.percentile(50)

    @property
    def p95(self) -> float:
        """All but one in twenty calls were answered in this time."""
        return self.percentile(95)

    def percentile(self, percent: float) -> float:
        """Interpolated between the two nearest calls; ``percent`` in [0, 100]."""
        return float(np.percentile(self.seconds, percent))


def interleaved(
    candidates: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    warmup: int = 1,
    synchronize: torch.device | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Timing]:
    """Time whole jobs side by side: in every round each candidate runs once.

    Args:
        candidates: what to time, by name. What a call returns is dropped after the clock has stopped.
        rounds: counted rounds. warmup: rounds before them, at least 1: the first call is never counted.
        synchronize: the device that the candidates use, waited for around every call.
        seed: of the order within the rounds.

    Raises ValueError for a wrong number, RuntimeError that names the candidate when one fails.
    """
    _check(candidates, warmup)
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    calls = {name: _ignoring_round(call) for name, call in candidates.items()}
    seconds = _take_turns(calls, rounds, warmup=warmup, device=synchronize, seed=seed, progress=progress)
    return {name: Timing(seconds=tuple(taken)) for name, taken in seconds.items()}


def latencies(
    candidates: Mapping[str, Callable[[T], object]],
    inputs: Sequence[T],
    *,
    warmup: int = 1,
    synchronize: torch.device | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Latencies]:
    """Time every call: each input goes to each candidate, which take turns as in ``interleaved``.

    The first ``warmup`` inputs, at least 1, are sent once more before the clock counts. Raises like ``interleaved``.
    """
    _check(candidates, warmup)
    if not len(inputs):
        raise ValueError("inputs must hold at least one input")
    calls = {name: _of_round(call, inputs) for name, call in candidates.items()}
    seconds = _take_turns(calls, len(inputs), warmup=warmup, device=synchronize, seed=seed, progress=progress)
    return {name: Latencies(seconds=tuple(taken)) for name, taken in seconds.items()}


def _median_interval(values: np.ndarray) -> tuple[float, float]:
    """The narrowest pair of order statistics, equally far from both ends, that holds the median with 95 %.

    The number of values below the median is binomial, B(n, 1/2); each tail beyond the pair has at most 2.5 %.
    """
    ordered, tail, cut = np.sort(values), 0.0, 0
    while cut < len(ordered) // 2:
        tail += math.comb(len(ordered), cut) / 2.0 ** len(ordered)
        if tail > 0.025:
            break
        cut += 1
    first = max(cut - 1, 0)
    return float(ordered[first]), float(ordered[len(ordered) - 1 - first])


def wait_for(device: torch.device | None) -> None:
    """Return when ``device`` has done all it was given; None and the CPU have nothing of the kind."""
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device is not None and device.type == "mps":
        torch.mps.synchronize()


def _check(candidates: Mapping[str, object], warmup: int) -> None:
    if not candidates:
        raise ValueError("candidates must hold at least one callable")
    if warmup < 1:
        raise ValueError(f"warmup must be at least 1, got {warmup}: a first call is never counted")


def _ignoring_round(call: Callable[[], object]) -> Callable[[int], object]:
    return lambda _: call()


def _of_round(call: Callable[[T], object], inputs: Sequence[T]) -> Callable[[int], object]:
    return lambda index: call(inputs[index % len(inputs)])


def _take_turns(
    candidates: Mapping[str, Callable[[int], object]],
    rounds: int,
    *,
    warmup: int,
    device: torch.device | None,
    seed: int,
    progress: Progress | None,
) -> dict[str, list[float]]:
    """Seconds by candidate and round; a call is told its round, which begins anew after the warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    order, shuffle = list(candidates), random.Random(seed)
    done, all_calls = 0, (rounds + warmup) * len(candidates)
    for number in range(-warmup, rounds):
        shuffle.shuffle(order)
        for name in order:
            taken = _timed(name, candidates[name], number if number >= 0 else number + warmup, device)
            if number >= 0:
                seconds[name].append(taken)
            done += 1
            if progress is not None:
                progress(done, all_calls)
    return seconds


def _timed(name: str, call: Callable[[int], object], index: int, device: torch.device | None) -> float:
    try:
        wait_for(device)
        started = time.perf_counter()
        kept = call(index)  # what it returns is freed after the clock has stopped
        wait_for(device)
        taken = time.perf_counter() - started
    except Exception as error:
        raise RuntimeError(f"candidate {name!r} failed: {type(error).__name__}: {error}") from error
    del kept
    return taken
