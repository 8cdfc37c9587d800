"""What a job of many texts takes, on paper: from one measured speed and from stated prices."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .carbon import WATTS_PER_CORE
from .grid import WORLD_GRAMS_PER_KWH


@dataclass(frozen=True, kw_only=True)
class Prices:
    """What is assumed of machines and electricity; every number is the reader's to change.

    price_per_core_hour: money for one core (a virtual one, as clouds sell them) for an hour, in any currency.
    watts_per_core: mean power of a busy core.
    overhead: power at the meter over power of the cores: memory, fans, cooling, losses; at least 1.
    grams_per_kwh: CO2 equivalents of the electricity.
    busy: share of the hired time in which the cores compute, in (0, 1]: starting, waiting for files, the last parts.
    """

    price_per_core_hour: float = 0.04
    watts_per_core: float = WATTS_PER_CORE
    overhead: float = 1.5
    grams_per_kwh: float = WORLD_GRAMS_PER_KWH
    busy: float = 0.9

    def __post_init__(self) -> None:
        for name in ("price_per_core_hour", "grams_per_kwh"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be 0 or above, got {getattr(self, name)}")
        if not 0 < self.watts_per_core < math.inf:
            raise ValueError(f"watts_per_core must be above 0, got {self.watts_per_core}")
        if not 1 <= self.overhead < math.inf:
            raise ValueError(f"overhead must be at least 1, got {self.overhead}")
        if not 0 < self.busy <= 1:
            raise ValueError(f"busy must lie in (0, 1], got {self.busy}")


@dataclass(frozen=True, kw_only=True)
class LargeJob:
    """``tokens`` and ``macs`` of all texts, hired ``core_hours``, ``cores`` to be done in time, ``money``, energy in
    ``kwh`` and ``grams`` of CO2 equivalents."""

    tokens: float
    macs: float
    core_hours: float
    cores: int
    money: float
    kwh: float
    grams: float


def large_job(
    *,
    texts: float,
    hours: float,
    texts_per_second: float,
    cores: int,
    tokens_per_text: float,
    macs_per_text: float,
    prices: Prices | None = None,
) -> LargeJob:
    """Scale a measured speed up.

    ``core_hours = texts · cores / texts_per_second / 3600 / busy``, the cores needed are ``core_hours / hours``
    rounded up, ``kwh = core_hours · busy · watts · overhead / 1000``: idle cores are paid for, and their power is in
    the overhead. More cores than the measurement's are taken to be as fast as its own, since parts share nothing
    but the files.

    Args:
        texts: to be answered. hours: in which they must be.
        texts_per_second, cores: what was measured, on how many cores.
        tokens_per_text, macs_per_text: means of the measured texts.

    Raises ValueError for a number that is not above 0.
    """
    prices = prices or Prices()
    numbers = {"texts": texts, "hours": hours, "texts_per_second": texts_per_second, "cores": cores}
    for name, value in (numbers | {"tokens_per_text": tokens_per_text, "macs_per_text": macs_per_text}).items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be above 0, got {value}")
    computed = texts * cores / texts_per_second / 3600.0
    hired = computed / prices.busy
    kwh = computed * prices.watts_per_core * prices.overhead / 1000.0
    return LargeJob(
        tokens=texts * tokens_per_text,
        macs=texts * macs_per_text,
        core_hours=hired,
        cores=math.ceil(hired / hours),
        money=hired * prices.price_per_core_hour,
        kwh=kwh,
        grams=kwh * prices.grams_per_kwh,
    )
