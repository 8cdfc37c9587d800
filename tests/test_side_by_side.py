"""Work side by side: order, errors, and torch's threads as they were before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from budgetformer import Classifier
from budgetformer.side_by_side import side_by_side

from .conftest import WORDS, sentences
from .model_folders import make_folder


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def threads_of_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_results_come_in_order(workers: int) -> None:
    assert list(side_by_side(lambda x: x * x, range(9), workers=workers)) == [x * x for x in range(9)]
    assert list(side_by_side(lambda x: x, [], workers=workers)) == []


@pytest.mark.usefixtures("three_threads")
def test_each_worker_has_its_share_of_the_threads_and_the_number_is_put_back() -> None:
    meeting = threading.Barrier(3)

    def work(piece: int) -> tuple[str, int]:
        meeting.wait(timeout=30)
        return threading.current_thread().name, torch.get_num_threads()

    found = list(side_by_side(work, range(3), workers=3))
    assert len({name for name, _ in found}) == 3
    assert {threads for _, threads in found} == {1}
    assert torch.get_num_threads() == 3
    assert threads_of_a_new_thread() == 3


@pytest.mark.usefixtures("three_threads")
def test_calls_that_overlap_leave_the_threads_of_everybody_else_alone() -> None:
    """The second call begins while the first one's workers are at work, in a thread that has not met torch before."""
    first_at_work, second_at_work, first_done = threading.Barrier(3), threading.Barrier(3), threading.Event()

    def first(piece: int) -> int:
        first_at_work.wait(timeout=30)
        second_at_work.wait(timeout=30) if piece == 0 else None
        return torch.get_num_threads()

    def second(piece: int) -> int:
        second_at_work.wait(timeout=30)
        assert first_done.wait(timeout=30)
        return torch.get_num_threads()

    def call(work: Callable[[int], int], done: threading.Event | None = None) -> tuple[list[int], int]:
        shares = list(side_by_side(work, range(2), workers=2))
        if done is not None:
            done.set()
        return shares, torch.get_num_threads()

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(call, first, first_done)
        first_at_work.wait(timeout=30)
        assert threads_of_a_new_thread() == 3
        other = pool.submit(call, second)
        assert one.result(timeout=60) == ([1, 1], 3)
        assert other.result(timeout=60) == ([1, 1], 3)
    assert torch.get_num_threads() == threads_of_a_new_thread() == 3


@pytest.mark.usefixtures("three_threads")
def test_an_error_reaches_the_caller_and_the_threads_are_put_back() -> None:
    def work(piece: int) -> float:
        return 1 / (piece - 2)

    with pytest.raises(ZeroDivisionError):
        list(side_by_side(work, range(4), workers=2))
    assert torch.get_num_threads() == 3


def test_the_answers_do_not_depend_on_the_workers(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    texts = [text for text, _ in sentences(400, labels=list(WORDS), seed=3)]
    alone = Classifier.from_pretrained(folder, device="cpu", workers=1)(texts)
    for workers in (2, 3):
        classifier = Classifier.from_pretrained(folder, device="cpu", workers=workers)
        names: set[str] = set()
        classifier.model.register_forward_pre_hook(lambda *_, seen=names: seen.add(threading.current_thread().name))
        found = classifier(texts)
        assert len(names) > 1
        for one, other in zip(found, alone, strict=True):
            assert (one.label, one.heads, one.macs) == (other.label, other.heads, other.macs)
            assert one.score == pytest.approx(other.score, abs=1e-6)
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        Classifier.from_pretrained(folder, device="cpu", workers=0)
