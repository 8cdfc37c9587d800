"""The largest amount of memory that a block of work held at once: in the process, and on its device.

The meter never raises and never changes the work; what cannot be had is None, with the reason.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

import torch

STATUS, STATM, CLEAR_REFS = (Path("/proc/self") / name for name in ("status", "statm", "clear_refs"))
SAMPLING_SECONDS = 0.001

_high_water_mark = threading.Lock()
"""The mark is one for the whole process: who resets it holds this, and another meter samples meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Peak:
    """``bytes`` held at the highest point and ``increase`` over the start of the block; None when not measured.

    ``how`` says by what it was measured, or why it was not.
    """

    bytes: int | None
    increase: int | None
    how: str


def not_measured(why: object) -> Peak:
    """A peak that could not be had."""
    return Peak(bytes=None, increase=None, how=f"not measured: {why}")


class MemoryMeter:
    """Measures the block of a ``with``; afterwards ``resident`` and ``device`` hold the peaks.

    ``resident`` is the memory of this process in RAM (RSS), children not included. On Linux the kernel keeps the
    highest value itself (``VmHWM``); it is set back at the start by writing 5 to ``/proc/self/clear_refs``. Where
    that is not permitted, or another meter of this process is using it, a thread samples every millisecond. Memory
    that the process had freed and not given back is used again without an increase.

    ``device`` is what torch allocated on the CUDA device that was given.

    Example:
        >>> with MemoryMeter() as meter:
        ...     answers = clf(texts)
        >>> meter.resident.bytes
    """

    def __init__(self, *, device: torch.device | None = None) -> None:
        self._device = device
        self.resident = self.device = not_measured("the block has not ended")

    def __enter__(self) -> MemoryMeter:
        self._gauges: dict[str, _Gauge] = {"device": _DeviceGauge(self._device), "resident": _ResidentGauge()}
        for name, gauge in self._gauges.items():
            setattr(self, name, not_measured("the block has not ended"))
            try:
                gauge.start()
            except Exception as error:
                setattr(self, name, not_measured(error))
                self._gauges = {other: g for other, g in self._gauges.items() if other != name}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, gauge in reversed(self._gauges.items()):
            try:
                setattr(self, name, gauge.stop())
            except Exception as problem:
                setattr(self, name, not_measured(problem))


class _Gauge(Protocol):
    def start(self) -> None: ...
    def stop(self) -> Peak: ...


class _ResidentGauge:
    def start(self) -> None:
        if not STATUS.is_file():
            raise OSError("this system has no /proc, where the memory of a process is read")
        self._resetting = _high_water_mark.acquire(blocking=False)
        try:
            if self._resetting:
                CLEAR_REFS.write_text("5", encoding="ascii")
            self._first = _status_bytes("VmRSS")
        except OSError:
            self._release()
            self._first = _status_bytes("VmRSS")
        except BaseException:
            self._release()
            raise
        self._sampler = None if self._resetting else _Sampler()

    def stop(self) -> Peak:
        if self._sampler is None:
            try:
                highest, how = _status_bytes("VmHWM"), "VmHWM of the kernel, reset at the start"
            finally:
                self._release()
        else:
            highest, readings = self._sampler.stop()
            how = f"{readings:,} samples, at least {SAMPLING_SECONDS * 1000:g} ms apart; a shorter peak may be missed"
        highest = max(highest, self._first)
        return Peak(bytes=highest, increase=highest - self._first, how=how)

    def _release(self) -> None:
        if self._resetting:
            self._resetting = False
            _high_water_mark.release()


class _DeviceGauge:
    def __init__(self, device: torch.device | None) -> None:
        self._device = device

    def start(self) -> None:
        if self._device is None or self._device.type != "cuda":
            raise ValueError("no CUDA device was given")
        torch.cuda.synchronize(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        self._first = torch.cuda.memory_allocated(self._device)

    def stop(self) -> Peak:
        torch.cuda.synchronize(self._device)
        highest = torch.cuda.max_memory_allocated(self._device)
        return Peak(bytes=highest, increase=highest - self._first, how="torch.cuda.max_memory_allocated")


class _Sampler:
    """Reads the resident memory in a thread until it is stopped."""

    def __init__(self) -> None:
        self._highest = _statm_bytes()
        self._readings = 1
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-meter", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(SAMPLING_SECONDS):
            self._read()

    def _read(self) -> None:
        self._highest = max(self._highest, _statm_bytes())
        self._readings += 1

    def stop(self) -> tuple[int, int]:
        """The highest value in bytes, and how many were read."""
        self._ended.set()
        self._thread.join()
        self._read()
        return self._highest, self._readings


def _status_bytes(field: str) -> int:
    for line in STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise ValueError(f"{STATUS} has no {field}")


def _statm_bytes() -> int:
    return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
