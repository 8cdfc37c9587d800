"""Peaks of memory: what is seen, that it never disturbs, and what is said where it cannot be had."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from budgetformer.metering import memory
from budgetformer.metering.memory import MemoryMeter

MIB = 2**20
LINUX = pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="no /proc on this system")


def hold(size: int, seconds: float = 0.0) -> None:
    """Take ``size`` bytes from the system, touch every page, and give them back."""
    block = bytearray(size)
    block[::4096] = b"x" * len(block[::4096])
    time.sleep(seconds)


@LINUX
def test_memory_that_is_given_back_before_the_end_is_seen() -> None:
    with MemoryMeter() as meter:
        hold(200 * MIB)
    peak = meter.resident
    assert peak.increase == pytest.approx(200 * MIB, rel=0.05)
    assert peak.bytes is not None
    assert peak.bytes > 200 * MIB
    assert peak.how


@LINUX
def test_what_was_held_before_the_block_does_not_count_as_its_peak() -> None:
    hold(300 * MIB)
    with MemoryMeter() as meter:
        hold(50 * MIB)
    assert meter.resident.increase is not None
    assert 45 * MIB < meter.resident.increase < 100 * MIB


@LINUX
def test_without_the_right_to_reset_the_mark_a_thread_samples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "CLEAR_REFS", tmp_path / "none" / "clear_refs")
    for _ in range(2):
        with MemoryMeter() as meter:
            hold(100 * MIB, seconds=0.1)
        assert meter.resident.increase == pytest.approx(100 * MIB, rel=0.1)
        assert "samples" in meter.resident.how
        assert "may be missed" in meter.resident.how
    monkeypatch.undo()
    with MemoryMeter() as meter:
        hold(MIB)
    assert "VmHWM" in meter.resident.how or not Path("/proc/self/clear_refs").exists()


@LINUX
def test_meters_inside_each_other_do_not_disturb_each_other() -> None:
    with MemoryMeter() as outer:
        hold(200 * MIB)
        with MemoryMeter() as inner:
            hold(60 * MIB, seconds=0.1)
    assert outer.resident.increase == pytest.approx(200 * MIB, rel=0.05)
    assert inner.resident.increase is not None
    assert 50 * MIB < inner.resident.increase < 100 * MIB
    assert "samples" in inner.resident.how


def test_a_system_without_proc_says_so_and_the_work_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "STATUS", tmp_path / "status")
    done = False
    with MemoryMeter() as meter:
        done = True
    assert done
    assert (meter.resident.bytes, meter.resident.increase) == (None, None)
    assert meter.resident.how == "not measured: this system has no /proc, where the memory of a process is read"


@LINUX
@pytest.mark.parametrize("damage", ["", "VmHWM: many kB\n"])
def test_a_meter_that_fails_at_the_end_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: str) -> None:
    damaged = tmp_path / "status"
    damaged.write_text(damage)
    with MemoryMeter() as meter:
        monkeypatch.setattr(memory, "STATUS", damaged)
    assert meter.resident.bytes is None
    assert meter.resident.how.startswith("not measured: ")
    monkeypatch.undo()
    with MemoryMeter() as meter:  # the mark was given back
        hold(MIB)
    assert meter.resident.bytes is not None


def test_an_error_of_the_work_passes_through() -> None:
    meter = MemoryMeter()
    with pytest.raises(KeyError, match="of the work"), meter:
        raise KeyError("of the work")
    assert meter.resident.how


def test_before_the_end_nothing_is_measured_and_without_a_device_nothing_of_it() -> None:
    with MemoryMeter() as meter:
        assert meter.resident.how == "not measured: the block has not ended"
    assert meter.device.bytes is None
    assert meter.device.how == "not measured: no CUDA device was given"
    with MemoryMeter(device=torch.device("cpu")) as meter:
        pass
    assert meter.device.how == "not measured: no CUDA device was given"


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_a_device_that_is_not_there_is_not_measured() -> None:
    with MemoryMeter(device=torch.device("cuda")) as meter:
        pass
    assert meter.device.bytes is None
    assert meter.device.how.startswith("not measured: ")


@pytest.mark.gpu
def test_memory_of_a_device() -> None:
    with MemoryMeter(device=torch.device("cuda")) as meter:
        held = torch.ones(100 * MIB // 4, device="cuda")
        del held
    assert meter.device.increase == 100 * MIB
