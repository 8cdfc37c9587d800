"""Energy and carbon of a block of work; and of a number of multiply-adds, as arXiv 2604.22583 reports it."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

import torch

from .codecarbon_meter import JOULES_PER_KWH, CodeCarbonMeter
from .grid import grid

GRAMS_PER_MAC = 3.3333e-15
"""Grams of CO2 per multiply-add: a fit to the paper's printed figures.

It is what 10 TFLOP/s at 300 W and 400 g/kWh give when a multiply-add is counted as one operation:
``300 W / 1e13 per second = 3e-11 J``, and ``3e-11 J · 400 g / 3.6e6 J = 3.3333e-15 g``.
"""

WATTS_PER_CORE = 4.0
"""Power of a busy core when nothing is known: what CodeCarbon (3.3.2) takes per thread of an unknown processor.

Processors differ from it by a factor of two or so; memory, fans and power supply are not in it.
"""

MEASURED, ESTIMATED, NOT_MEASURED = "measured", "estimated", "not measured"


def paper_grams(macs: float) -> float:
    """Grams of CO2 for ``macs`` multiply-adds by the paper's accounting: ``macs · 3.3333e-15``, not a measurement."""
    return macs * GRAMS_PER_MAC


@dataclass(frozen=True, kw_only=True)
class PerThousandTexts:
    """``joules`` and ``grams`` of CO2 equivalents per 1,000 texts; None when they are not known, never 0 for it."""

    joules: float | None
    grams: float | None


@dataclass(frozen=True, kw_only=True)
class Energy:
    """What a block of work took.

    ``kind`` is "measured" (by an energy counter), "estimated" (by a power that was stated or assumed) or "not
    measured". ``joules``, ``grams`` of CO2 equivalents, mean ``watts`` and ``seconds`` are None when not known.
    ``grams_per_kwh`` and ``grid`` are the intensity of the electricity and its source. ``how`` says by what it was
    measured, which assumptions were made, or why there is no figure.
    """

    kind: str
    joules: float | None
    grams: float | None
    watts: float | None
    seconds: float | None
    grams_per_kwh: float
    grid: str
    how: str

    def per_1000_texts(self, texts: int) -> PerThousandTexts:
        """The same for 1,000 texts, when the block worked on ``texts``; unknown when these are none."""
        if self.joules is None or self.grams is None or texts < 1:
            return PerThousandTexts(joules=None, grams=None)
        return PerThousandTexts(joules=self.joules * 1000 / texts, grams=self.grams * 1000 / texts)

    def row(self, texts: int) -> dict[str, Any]:
        """All fields, and those per 1,000 texts, as JSON values."""
        thousand = self.per_1000_texts(texts)
        return asdict(self) | {"joules_per_1000_texts": thousand.joules, "grams_per_1000_texts": thousand.grams}

    def describe(self, texts: int) -> str:
        """One line for people."""
        thousand = self.per_1000_texts(texts)
        if thousand.joules is None or thousand.grams is None:
            return f"{NOT_MEASURED}: {self.how if self.joules is None else 'there were no texts'}"
        figures = f"{thousand.joules:.3g} J and {thousand.grams:.3g} g CO2e per 1,000 texts"
        return f"{figures}, {self.kind}: {self.how}; {self.grams_per_kwh:g} g/kWh ({self.grid})"


class EnergyMeter:
    """Measures the block of a ``with``; afterwards ``energy`` holds the result. One meter for one block.

    Taken is the first of these that can be had: the power that was stated, times the seconds; what CodeCarbon reads
    from an energy counter; what CodeCarbon guesses, marked as an estimate; on a CPU, 4 W per busy core, marked as an
    estimate. Otherwise, as for a GPU without CodeCarbon, nothing is measured and the reason is given.

    Inside the block and at its end the meter never raises and never changes the work; an exception of the work
    passes through.

    Args:
        device: where the work runs.
        watts: mean power of the machine, or its part, that the work is to answer for; above 0.
        grams_per_kwh, region: intensity of the electricity, see ``grid.grid``.

    Raises ValueError for settings that cannot be, before any work.

    Example:
        >>> with EnergyMeter(watts=65, grams_per_kwh=56) as meter:
        ...     answers = clf(texts)
        >>> print(meter.energy.describe(len(texts)))
    """

    def __init__(
        self,
        *,
        device: torch.device | str = "cpu",
        watts: float | None = None,
        grams_per_kwh: float | None = None,
        region: str | None = None,
    ) -> None:
        if watts is not None and not 0 < watts < math.inf:
            raise ValueError(f"watts must be above 0, got {watts}")
        self._device = torch.device(device)
        self._watts = watts
        self._grid = grid(grams_per_kwh=grams_per_kwh, region=region)
        self._meter: CodeCarbonMeter | None = None
        self._problem: str | None = None
        self.energy = self._nothing("the block has not ended")

    def __enter__(self) -> EnergyMeter:
        if self._watts is None:
            try:
                meter = CodeCarbonMeter(gpu=self._device.type != "cpu")
                meter.start()
                self._meter = meter
            except ImportError as error:
                missing = isinstance(error, ModuleNotFoundError) and error.name == "codecarbon"
                self._problem = "CodeCarbon is not installed" if missing else f"CodeCarbon cannot be loaded: {error}"
            except Exception as error:
                self._problem = f"CodeCarbon failed: {_words(error)}"
        self._started, self._busy = time.perf_counter(), time.process_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            busy = time.process_time() - self._busy
            seconds = time.perf_counter() - self._started
            self.energy = self._result(seconds, busy)
        except Exception as problem:
            self.energy = self._nothing(f"the meter failed: {_words(problem)}")

    def _result(self, seconds: float, busy: float) -> Energy:
        if self._watts is not None:
            how = f"{self._watts:g} W (stated) for {seconds:.3g} s"
            return self._some(ESTIMATED, self._watts * seconds, seconds, how)
        if self._meter is not None:
            try:
                reading = self._meter.stop()
                return self._some(MEASURED if reading.counted else ESTIMATED, reading.joules, seconds, reading.how)
            except Exception as error:
                self._problem = _words(error)
        if self._device.type != "cpu":
            return self._nothing(f"{self._problem}, and nothing is assumed of a {self._device.type}: state its watts")
        how = f"{WATTS_PER_CORE:g} W per busy core (assumed) for {busy:.3g} core-seconds; {self._problem}"
        return self._some(ESTIMATED, WATTS_PER_CORE * busy, seconds, how)

    def _some(self, kind: str, joules: float, seconds: float, how: str) -> Energy:
        if not (0 < joules < math.inf and seconds > 0):
            return self._nothing(f"{joules:g} J in {seconds:g} s is no figure ({how})")
        return Energy(
            kind=kind,
            joules=joules,
            grams=joules / JOULES_PER_KWH * self._grid.grams_per_kwh,
            watts=joules / seconds,
            seconds=seconds,
            grams_per_kwh=self._grid.grams_per_kwh,
            grid=self._grid.source,
            how=how,
        )

    def _nothing(self, why: str) -> Energy:
        return Energy(
            kind=NOT_MEASURED,
            joules=None,
            grams=None,
            watts=None,
            seconds=None,
            grams_per_kwh=self._grid.grams_per_kwh,
            grid=self._grid.source,
            how=why,
        )


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
