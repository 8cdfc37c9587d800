"""Windows of inputs: order, laziness, the next one prepared meanwhile, and errors in their turn."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from budgetformer import Classifier
from budgetformer.windows import prepared_windows

from .model_folders import make_folder


def checked(item: int, number: int) -> None:
    if item < 0:
        raise ValueError(f"input {number} is {item}")


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3, 6, 7])
def test_every_input_comes_once_and_in_order(count: int, ahead: bool) -> None:
    got = list(prepared_windows(range(count), sum, size=3, check=checked, ahead=ahead))
    assert [item for window, _ in got for item in window] == list(range(count))
    assert all(prepared == sum(window) for window, prepared in got)
    assert [len(window) for window, _ in got[:-1]] == [3] * (len(got) - 1)


@pytest.mark.parametrize("ahead", [False, True])
def test_an_error_comes_after_all_windows_before_it(ahead: bool) -> None:
    got: list[list[int]] = []
    windows = prepared_windows([0, 1, 2, 3, 4, 5, 6, -1], sum, size=3, check=checked, ahead=ahead)
    with pytest.raises(ValueError, match="input 7 is -1"):
        got.extend(window for window, _ in windows)
    assert got == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("ahead", [False, True])
def test_an_error_of_preparing_comes_in_its_turn(ahead: bool) -> None:
    def prepare(window: list[int]) -> int:
        if 4 in window:
            raise ValueError("4 cannot be prepared")
        return len(window)

    got: list[list[int]] = []
    windows = prepared_windows(range(9), prepare, size=3, check=checked, ahead=ahead)
    with pytest.raises(ValueError, match="4 cannot"):
        got.extend(window for window, _ in windows)
    assert got == [[0, 1, 2]]


def test_the_next_window_is_prepared_while_the_caller_works_on_this_one() -> None:
    prepared = {0: threading.Event(), 3: threading.Event(), 6: threading.Event()}

    def prepare(window: list[int]) -> str:
        prepared[window[0]].set()
        return threading.current_thread().name

    windows = prepared_windows(range(9), prepare, size=3, check=checked, ahead=True)
    _, name = next(windows)
    assert name != threading.current_thread().name
    assert prepared[3].wait(timeout=30)
    assert not prepared[6].is_set()
    windows.close()


def test_no_more_than_one_window_is_read_ahead() -> None:
    read = []

    def source() -> Iterator[int]:
        for i in range(100):
            read.append(i)
            yield i

    next(prepared_windows(source(), sum, size=5, check=checked, ahead=False))
    assert len(read) == 5
    read.clear()
    next(prepared_windows(source(), sum, size=5, check=checked, ahead=True))
    assert len(read) == 10


def test_a_classifier_answers_the_same_either_way(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    texts = ["good", "bad and long " * 9, "", "very good"] * 5
    answers = [
        Classifier.from_pretrained(folder, device="cpu", ahead=ahead, window=3)(texts) for ahead in (False, True)
    ]
    assert answers[0] == answers[1]
