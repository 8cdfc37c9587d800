"""Energy of a block of work: what is stated is used, a guess is called a guess, and the work is never disturbed."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from budgetformer.metering.carbon import Energy, EnergyMeter
from budgetformer.metering.grid import grid


def work(seconds: float = 0.05) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


@pytest.fixture
def no_codecarbon(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where it is not installed."""
    monkeypatch.setitem(sys.modules, "codecarbon", None)


@pytest.fixture
def broken_codecarbon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Installs a CodeCarbon whose source is given; what it does wrong it really does."""

    def install(source: str) -> None:
        for name in [n for n in sys.modules if n.partition(".")[0] == "codecarbon"]:
            monkeypatch.delitem(sys.modules, name)
        (tmp_path / "codecarbon.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)

    yield install
    sys.modules.pop("codecarbon", None)


def known(**changes: Any) -> Energy:
    fields: dict[str, Any] = {"kind": "estimated", "joules": 20.0, "grams": 0.002, "watts": 10.0, "seconds": 2.0}
    return Energy(**fields | {"grams_per_kwh": 360.0, "grid": "stated", "how": "10 W (stated) for 2 s"} | changes)


def test_stated_watts_and_grid_are_used_and_named() -> None:
    started = time.perf_counter()
    with EnergyMeter(watts=65, grams_per_kwh=56) as meter:
        time.sleep(0.05)
    seconds = time.perf_counter() - started
    energy = meter.energy
    assert energy.kind == "estimated"
    assert energy.seconds is not None
    assert 0.05 <= energy.seconds <= seconds
    assert energy.joules == pytest.approx(65 * energy.seconds)
    assert energy.grams == pytest.approx(65 * energy.seconds / 3.6e6 * 56)
    assert energy.watts == pytest.approx(65)
    assert "65 W (stated)" in energy.how
    assert (energy.grams_per_kwh, energy.grid) == (56, "stated")


@pytest.mark.usefixtures("no_codecarbon")
def test_without_codecarbon_busy_cores_are_counted_at_a_power_that_is_named_as_assumed() -> None:
    with EnergyMeter() as meter:
        work(0.1)
        time.sleep(0.2)
    energy = meter.energy
    assert energy.kind == "estimated"
    assert energy.joules is not None
    assert 4 * 0.1 <= energy.joules < 4 * 0.2
    assert "4 W per busy core (assumed)" in energy.how
    assert "CodeCarbon is not installed" in energy.how
    assert (energy.grams_per_kwh, energy.grid) == (475, "world average, IEA 2019")


@pytest.mark.usefixtures("no_codecarbon")
def test_nothing_is_assumed_of_a_gpu_but_stated_watts_are_used() -> None:
    with EnergyMeter(device="cuda") as meter:
        work()
    energy = meter.energy
    assert energy.kind == "not measured"
    assert (energy.joules, energy.grams, energy.watts, energy.seconds) == (None, None, None, None)
    assert energy.how == "CodeCarbon is not installed, and nothing is assumed of a cuda: state its watts"
    with EnergyMeter(device="cuda", watts=300) as meter:
        work()
    assert meter.energy.kind == "estimated"


BROKEN = {
    "import fails": ("1 / 0", "CodeCarbon failed: division by zero"),
    "other version": ("", "CodeCarbon cannot be loaded: cannot import name 'OfflineEmissionsTracker'"),
    "start fails": (
        "class OfflineEmissionsTracker:\n"
        "    def __init__(self, **options): pass\n"
        "    def start(self): raise PermissionError('energy_uj: permission denied')\n",
        "CodeCarbon failed: energy_uj: permission denied",
    ),
    "stop fails": (
        "class OfflineEmissionsTracker:\n"
        "    def __init__(self, **options): pass\n"
        "    def start(self): pass\n"
        "    def stop(self): raise OSError('counter went away')\n",
        "counter went away",
    ),
    "failure is swallowed": (
        "import logging\n"
        "class OfflineEmissionsTracker:\n"
        "    def __init__(self, **options): pass\n"
        "    def start(self):\n"
        "        try: 1 / 0\n"
        "        except Exception: logging.getLogger('codecarbon').warning('graceful', exc_info=True)\n"
        "    def stop(self): logging.getLogger('codecarbon').warning('never started')\n",
        "CodeCarbon gave no figure: ZeroDivisionError: division by zero",
    ),
    "no figure": (
        "import logging\n"
        "class OfflineEmissionsTracker:\n"
        "    def __init__(self, **options): pass\n"
        "    def start(self): pass\n"
        "    def stop(self): logging.getLogger('codecarbon').warning('out of counters')\n",
        "CodeCarbon gave no figure: out of counters",
    ),
    "zero": (
        "from types import SimpleNamespace as S\n"
        "class CPU: _mode, _tdp = 'intel_rapl', None\n"
        "class OfflineEmissionsTracker:\n"
        "    def __init__(self, **options): self._hardware = [CPU()]\n"
        "    def start(self): pass\n"
        "    def stop(self): self.final_emissions_data = S(gpu_count=0, cpu_energy=0.0, ram_energy=1.0, pue=1)\n",
        "the energy counter did not move",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_meter_that_breaks_never_stops_the_work_and_never_shows_zero(
    broken_codecarbon: Any, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    source, words = BROKEN[kind]
    broken_codecarbon(source)
    done = []
    with EnergyMeter() as meter:
        work()
        done.append(True)
    assert done
    assert meter.energy.kind == "estimated"
    assert meter.energy.joules is not None
    assert meter.energy.joules > 0
    assert words in meter.energy.how
    with EnergyMeter(device="cuda") as meter:
        pass
    assert meter.energy.kind == "not measured"
    assert capfd.readouterr() == ("", "")


def test_a_clock_that_breaks_is_the_meters_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    with EnergyMeter(watts=10) as meter:
        monkeypatch.setattr(time, "process_time", lambda: 1 / 0)
    assert meter.energy.kind == "not measured"
    assert meter.energy.how == "the meter failed: division by zero"


@pytest.mark.parametrize("watts", [None, 10.0])
def test_an_error_of_the_work_passes_through(watts: float | None) -> None:
    meter = EnergyMeter(watts=watts)
    assert meter.energy.how == "the block has not ended"
    with pytest.raises(KeyError, match="of the work"), meter:
        raise KeyError("of the work")
    assert meter.energy.how != "the block has not ended"


def test_per_1000_texts() -> None:
    thousand = known().per_1000_texts(50)
    assert (thousand.joules, thousand.grams) == pytest.approx((400.0, 0.04))
    assert known().per_1000_texts(0).joules is None
    unknown = known(kind="not measured", joules=None, grams=None, watts=None, seconds=None, how="no counter")
    assert (unknown.per_1000_texts(50).joules, unknown.per_1000_texts(50).grams) == (None, None)
    assert unknown.describe(50) == "not measured: no counter"
    assert known().describe(0) == "not measured: there were no texts"
    assert known().describe(50) == (
        "400 J and 0.04 g CO2e per 1,000 texts, estimated: 10 W (stated) for 2 s; 360 g/kWh (stated)"
    )


def test_the_row_is_json() -> None:
    row = json.loads(json.dumps(known().row(50), allow_nan=False))
    assert row["kind"] == "estimated"
    assert row["joules_per_1000_texts"] == pytest.approx(400)
    assert row["grams_per_1000_texts"] == pytest.approx(0.04)


@pytest.mark.parametrize("watts", [0, -5, float("nan"), float("inf")])
def test_impossible_watts_are_refused_before_the_work(watts: float) -> None:
    with pytest.raises(ValueError, match="watts must be above 0"):
        EnergyMeter(watts=watts)


def test_a_grid_without_carbon_may_be_stated_and_impossible_ones_are_refused() -> None:
    assert grid(grams_per_kwh=0).grams_per_kwh == 0
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="grams_per_kwh must be 0 or above"):
            grid(grams_per_kwh=wrong)
    with pytest.raises(ValueError, match=r"grams_per_kwh \(56\) or region \(FRA\), not both"):
        grid(grams_per_kwh=56, region="FRA")


@pytest.mark.usefixtures("no_codecarbon")
def test_a_region_needs_codecarbons_table() -> None:
    with pytest.raises(
        ValueError, match=r"pip install '\.\[carbon\]' in a checkout of BudgetFormer, or state the grams per kWh"
    ):
        EnergyMeter(region="FRA")
