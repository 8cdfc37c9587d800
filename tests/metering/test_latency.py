"""Timing: who runs when, what is counted, and what the figures say."""

from __future__ import annotations

import itertools
import time

import pytest
import torch

from budgetformer.metering.latency import Latencies, Timing, interleaved, latencies, wait_for


def test_candidates_take_turns_in_an_order_that_changes_and_can_be_repeated() -> None:
    def order_of(seed: int) -> list[str]:
        calls: list[str] = []
        interleaved({name: lambda name=name: calls.append(name) for name in "abc"}, rounds=8, warmup=2, seed=seed)
        return calls

    calls = order_of(0)
    rounds = [tuple(calls[i : i + 3]) for i in range(0, len(calls), 3)]
    assert len(rounds) == 10
    assert all(sorted(part) == ["a", "b", "c"] for part in rounds)
    assert len(set(rounds)) > 2
    assert order_of(0) == calls
    assert order_of(1) != calls


def test_the_slow_first_call_is_not_counted() -> None:
    called = itertools.count()
    slow_first = {"a": lambda: time.sleep(2.0 if next(called) == 0 else 0.001)}
    found = interleaved(slow_first, rounds=5)["a"]
    assert len(found.seconds) == 5
    assert 0.001 <= found.minimum <= found.median <= found.maximum < 2.0


def test_every_figure_comes_with_its_spread() -> None:
    timing = Timing(seconds=(4.0, 1.0, 2.0, 3.0, 10.0))
    assert (timing.median, timing.minimum, timing.maximum) == (3.0, 1.0, 10.0)
    assert timing.quartiles == (2.0, 4.0)


def test_ratios_are_taken_round_by_round() -> None:
    """A machine that became slower half-way changes the seconds, and not the ratio of what ran side by side."""
    dense, ours = Timing(seconds=(2.0, 2.2, 20.0, 22.0)), Timing(seconds=(1.0, 1.1, 10.0, 11.0))
    found = dense.ratio(ours)
    assert (found.lower, found.median, found.upper) == pytest.approx((2.0, 2.0, 2.0))
    uneven = dense.ratio(Timing(seconds=(1.0, 2.2, 10.0, 5.5)))
    assert (uneven.lower, uneven.median, uneven.upper) == pytest.approx((1.75, 2.0, 2.5))
    with pytest.raises(ValueError, match="got 4 and 1 rounds"):
        dense.ratio(Timing(seconds=(1.0,)))


def test_progress_is_told_after_every_call() -> None:
    said: list[tuple[int, int]] = []
    interleaved({"a": int}, rounds=3, warmup=2, progress=lambda done, total: said.append((done, total)))
    assert said == [(i, 5) for i in range(1, 6)]


def test_every_call_of_a_stream_is_timed_in_the_order_of_the_inputs() -> None:
    heard: dict[str, list[int]] = {"a": [], "b": []}
    inputs = [1, 2, 30]
    candidates = {name: lambda ms, name=name: (heard[name].append(ms), time.sleep(ms / 1000)) for name in heard}
    found = latencies(candidates, inputs, warmup=2)
    assert heard == {name: [1, 2, 1, 2, 30] for name in heard}
    for timed in found.values():
        assert len(timed.seconds) == 3
        assert all(taken >= ms / 1000 for taken, ms in zip(timed.seconds, inputs, strict=True))
        assert timed.p95 > timed.p50


def test_percentiles_of_calls() -> None:
    found = Latencies(seconds=tuple(float(i) for i in range(101)))
    assert (found.p50, found.p95, found.percentile(99)) == (50.0, 95.0, 99.0)


@pytest.mark.parametrize("when", [1, 3])
def test_a_candidate_that_fails_is_named(when: int) -> None:
    calls = itertools.count(1)

    def breaks() -> None:
        if next(calls) == when:
            raise ValueError("no such head")

    with pytest.raises(RuntimeError, match=r"candidate 'ours, bf16' failed: ValueError: no such head") as failure:
        interleaved({"fine": int, "ours, bf16": breaks}, rounds=5)
    assert isinstance(failure.value.__cause__, ValueError)


def test_impossible_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="warmup must be at least 1, got 0"):
        interleaved({"a": int}, rounds=1, warmup=0)
    with pytest.raises(ValueError, match="rounds must be at least 1, got 0"):
        interleaved({"a": int}, rounds=0)
    with pytest.raises(ValueError, match="candidates must hold at least one"):
        interleaved({}, rounds=1)
    with pytest.raises(ValueError, match="inputs must hold at least one"):
        latencies({"a": print}, [])


@pytest.mark.gpu
def test_work_on_a_device_is_waited_for() -> None:
    device = torch.device("cuda")
    x = torch.randn(4096, 4096, device=device)

    def work() -> None:
        for _ in range(20):
            torch.mm(x, x)

    with_wait = interleaved({"a": work}, rounds=5, synchronize=device)["a"].median
    without = interleaved({"a": work}, rounds=5)["a"].median
    wait_for(device)
    assert with_wait > 2 * without
