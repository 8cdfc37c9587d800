"""CodeCarbon as an energy meter: offline, silent, without a file or a lock, and told apart from its own guesses.

Where CodeCarbon may not read an energy counter it goes on with a guess: the rated power of the processor, or 4 W per
thread when it does not know the processor, times its load, and a power of the memory from its size. Its result looks
the same in both cases; here the two are told apart by the mode of its processor meter.
"""

from __future__ import annotations

import logging
import tempfile
import threading
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

COUNTERS = {"intel_rapl": "RAPL", "windows_emi": "Energy Meter Interface"}
"""Modes of CodeCarbon's processor meter that read an energy counter; all others start from a rated power."""
JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True, kw_only=True)
class Reading:
    """``joules``, above 0; ``counted`` by an energy counter, or else guessed by CodeCarbon; ``how`` in words."""

    joules: float
    counted: bool
    how: str


class CodeCarbonMeter:
    """One block of work between ``start`` and ``stop``. Both raise when there is no figure; whoever calls says so.

    ``gpu`` counts the GPUs in, which an idle one is not when the work runs on the CPU. The tracker is CodeCarbon's
    offline one with every output off; the configuration of the user (``.codecarbon.config``, ``CODECARBON_…``) is
    used for what it says about the machine, such as ``force_cpu_power`` and ``pue``.
    """

    def __init__(self, *, gpu: bool) -> None:
        self._gpu = gpu

    def start(self) -> None:
        """Begin. Raises ImportError without CodeCarbon. Looking at the machine for the first time takes 1 to 2 s."""
        self._silence = _Silence()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from codecarbon import OfflineEmissionsTracker

                self._folder = tempfile.TemporaryDirectory(prefix="budgetformer-energy-")
                self._tracker = OfflineEmissionsTracker(
                    allow_multiple_runs=True,  # else a lock, and its own handlers of SIGINT and SIGTERM
                    tracking_mode="process",  # what is guessed is from this process's load, not its neighbours'
                    force_carbon_intensity_g_co2e_kwh=0.0,  # grams are counted here; nothing is asked of a server
                    output_methods=[],
                    output_handlers=[],
                    output_dir=self._folder.name,
                    emissions_endpoint=None,
                    electricitymaps_api_token="",
                    country_iso_code=None,
                    country_2letter_iso_code=None,
                    region=None,
                    cloud_provider=None,
                    cloud_region=None,
                    log_level="warning",  # for the silence to hear, which lets nothing through
                )
                self._tracker.start()
        except BaseException:
            self._clean_up()
            raise

    def stop(self) -> Reading:
        """End and read. Raises RuntimeError with CodeCarbon's own words when it has no figure."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._tracker.stop()
            return self._reading(getattr(self._tracker, "final_emissions_data", None))
        finally:
            self._clean_up()

    def _clean_up(self) -> None:
        self._silence.end()
        if self._folder is not None:
            self._folder.cleanup()

    def _reading(self, data: Any) -> Reading:
        if data is None:  # CodeCarbon swallows its exceptions and logs them
            raise RuntimeError(f"CodeCarbon gave no figure: {self._silence.problem}")
        gpus = int(data.gpu_count or 0)
        if self._gpu and not gpus:
            raise RuntimeError("CodeCarbon sees no GPU, on which the work ran")
        parts = [h for h in self._tracker._hardware if type(h).__name__ == "CPU"]
        modes = sorted({str(part._mode) for part in parts})
        counted = bool(modes) and set(modes) <= set(COUNTERS)
        kwh = data.cpu_energy + (data.gpu_energy if self._gpu else 0) + (0 if counted else data.ram_energy)
        if not kwh > 0:
            raise RuntimeError("the energy counter did not move")
        if counted:
            counters = ", ".join(COUNTERS[mode] for mode in modes)
            words = [f"energy counter of the processor ({counters}), all programs on it included, memory not"]
        else:
            rated = ", ".join(f"{part._tdp:g} W" for part in parts if part._tdp)
            words = [
                f"no energy counter that it may read{self._silence.about('permission')}, so a guess",
                f"processor {_watts(data.cpu_energy, data)} ({', '.join(modes)}, rated {rated or 'power not known'}"
                f"{self._silence.about('default power')})",
                f"memory {_watts(data.ram_energy, data)} from its size",
            ]
        if self._gpu:
            words.append(f"GPUs seen: {gpus}, {_watts(data.gpu_energy, data)} by their own counters")
        if data.pue != 1:
            words.append(f"PUE {data.pue:g}")
        how = f"CodeCarbon {data.codecarbon_version}, {'; '.join(words)}"
        return Reading(joules=kwh * JOULES_PER_KWH, counted=counted, how=how)


def _watts(kwh: float, data: Any) -> str:
    return f"{kwh * JOULES_PER_KWH / data.duration:.1f} W"


class _Silence:
    """Keeps CodeCarbon's log off the screen while it works and remembers its warnings; ``end`` undoes everything.

    Meters may overlap, in threads or one inside the other: each hears all, and the last one gives the logger back.
    """

    _lock = threading.Lock()
    _open: ClassVar[list[_Silence]] = []
    _before: ClassVar[tuple[int, list[logging.Handler], bool]]

    def __init__(self) -> None:
        self._said: list[str] = []
        self._problem: BaseException | None = None
        self._logger = logging.getLogger("codecarbon")
        with self._lock:
            if not self._open:
                _Silence._before = self._logger.level, self._logger.handlers[:], self._logger.propagate
                self._logger.addFilter(_Silence._hear)
            self._open.append(self)

    @staticmethod
    def _hear(record: logging.LogRecord) -> bool:
        for silence in tuple(_Silence._open):
            if record.levelno >= logging.WARNING:
                silence._said.append(" ".join(record.getMessage().split()))
            if record.exc_info:
                silence._problem = record.exc_info[1]
        return False

    @property
    def problem(self) -> str:
        """The exception that was swallowed last, or what was said last."""
        if self._problem is not None:
            return f"{type(self._problem).__name__}: {self._problem}"
        return self._said[-1] if self._said else "it does not say why"

    def about(self, word: str) -> str:
        """The first sentence of the first warning that has ``word`` in it, after a colon; or nothing."""
        found = next((said for said in self._said if word in said.lower()), None)
        return f': "{found.partition(". ")[0].rstrip(".")}"' if found else ""

    def end(self) -> None:
        """Give the logger back as it was, unless another meter is still at work."""
        with self._lock:
            if self in self._open:
                self._open.remove(self)
                if not self._open:
                    self._logger.removeFilter(_Silence._hear)
                    level, self._logger.handlers, self._logger.propagate = self._before
                    self._logger.setLevel(level)
