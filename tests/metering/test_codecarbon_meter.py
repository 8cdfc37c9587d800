"""CodeCarbon itself: silent, offline, without traces, and its guesses told apart from its measurements."""

from __future__ import annotations

import json
import logging
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from budgetformer.metering.carbon import EnergyMeter
from budgetformer.metering.grid import grid

from ..model_folders import run_python

pytest.importorskip("codecarbon", reason="CodeCarbon is not installed: pip install '.[carbon]'")

WORK = """
import json, sys, threading, time
def work(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
"""
WATCHED = """
import logging, os, random, signal
import numpy, torch
from budgetformer.metering.carbon import EnergyMeter
opened, sockets = [], []
def watch(event, args):
    if event == "open" and not isinstance(args[0], int) and args[1] is not None and set(str(args[1])) & set("wax+"):
        opened.append(str(args[0]))
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        sockets.append(f"{event} {args}")
def state():
    log = logging.getLogger("codecarbon")
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    return dict(os.environ), torch.get_num_threads(), handlers, log.level, log.handlers, log.filters, os.getcwd()
def drawn():
    return random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
before = state(), drawn()
os.dup2(1, 2)  # a word on standard error would be in what the test reads
sys.addaudithook(watch)
with EnergyMeter() as meter:
    work(1.2)
assert (state(), drawn()) == before
until = time.monotonic() + 30
while threading.active_count() > 1 and time.monotonic() < until:
    time.sleep(0.05)
assert threading.active_count() == 1, threading.enumerate()
print(json.dumps({"row": meter.energy.row(10), "opened": opened, "sockets": sockets}))
"""
COUNTING = """
import os
from pathlib import Path
from codecarbon.core import cpu
from codecarbon.external import hardware
base = sys.argv[1]
counter = Path(base, "intel-rapl", "intel-rapl:0", "energy_uj")
cpu._get_candidate_bases = lambda folder: [base]
taken = hardware.CPU.__init__.__defaults__
hardware.CPU.__init__.__defaults__ = tuple(base if isinstance(d, str) and d.startswith("/sys") else d for d in taken)
ended = threading.Event()
def count():
    value = 10**9
    while not ended.wait(0.01):
        value += 250_000  # 25 W
        counter.with_suffix(".new").write_text(str(value))
        os.replace(counter.with_suffix(".new"), counter)
if os.access(counter, os.R_OK) and counter.is_file():
    threading.Thread(target=count, daemon=True).start()
from budgetformer.metering.carbon import EnergyMeter
with EnergyMeter(grams_per_kwh=360) as meter:
    work(1.0)
ended.set()
print(json.dumps(meter.energy.row(10)))
"""
DROP_RIGHTS = """
import ctypes
header, rights = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
libc = ctypes.CDLL(None, use_errno=True)
assert libc.capget(header, rights) == 0
for place in (0, 1):  # effective, permitted
    rights[place] &= ~0b110  # root's right to read every file
assert libc.capset(header, rights) == 0
"""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Two processes that metered at the same time, in the presence of a lock of a third one.

    ``configured`` found a configuration of CodeCarbon that asks for files, a server and a lock; ``plain`` none.
    """

    folder: Path
    plain: dict[str, Any]
    configured: dict[str, Any]


CONFIGURATION = """[codecarbon]
output_methods = csv,api
save_to_file = true
allow_multiple_runs = false
emissions_endpoint = http://127.0.0.1:9/
co2_signal_api_token = token
country_iso_code = FRA
force_cpu_power = 40
pue = 1.5
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("plain", "configured", "temporary", "home-plain", "home-configured"):
        (folder / name).mkdir()
    (folder / "home-configured" / ".codecarbon.config").write_text(CONFIGURATION)
    (folder / "temporary" / ".codecarbon.lock").write_text("")

    def metered(name: str) -> dict[str, Any]:
        places = {"HOME": str(folder / f"home-{name}"), "TMPDIR": str(folder / "temporary")}
        return json.loads(run_python(WORK + WATCHED, folder=folder / name, **places))

    with ThreadPoolExecutor(2) as pool:
        plain, configured = pool.map(metered, ("plain", "configured"))
    return Runs(folder=folder, plain=plain, configured=configured)


def test_no_word_no_file_no_network_no_lock_and_the_process_stays_as_it_was(runs: Runs) -> None:
    for found in (runs.plain, runs.configured):
        assert found["sockets"] == []
        assert [name for name in found["opened"] if not name.startswith("/dev/")] == []
    left = [p.relative_to(runs.folder) for p in runs.folder.rglob("*") if p.is_file()]
    assert sorted(map(str, left)) == ["home-configured/.codecarbon.config", "temporary/.codecarbon.lock"]


@pytest.mark.skipif(Path("/sys/class/powercap").exists(), reason="this machine has energy counters")
def test_without_a_counter_codecarbon_guesses_and_the_result_says_so(runs: Runs) -> None:
    row = runs.plain["row"]
    assert row["kind"] == "estimated"
    assert "no energy counter that it may read" in row["how"]
    assert "a guess" in row["how"]
    assert "memory" in row["how"]
    assert row["joules"] == pytest.approx(row["watts"] * row["seconds"])
    assert row["grams"] == pytest.approx(row["joules"] / 3.6e6 * 475)


def test_what_the_user_told_codecarbon_of_the_machine_is_used_and_named(runs: Runs) -> None:
    assert runs.configured["row"]["kind"] == "estimated"
    assert "rated 40 W" in runs.configured["row"]["how"]
    assert "PUE 1.5" in runs.configured["row"]["how"]


def test_two_meters_at_once_in_one_process() -> None:
    with EnergyMeter() as outer:
        with EnergyMeter() as inner:
            time.sleep(0.3)
        assert inner.energy.joules is not None
    assert outer.energy.joules is not None
    assert outer.energy.joules > inner.energy.joules > 0


def test_meters_that_overlap_give_the_log_back_and_each_hears_why() -> None:
    logger = logging.getLogger("codecarbon")

    def state() -> tuple[object, ...]:
        return logger.level, logger.handlers[:], logger.filters[:], logger.propagate

    before = state()
    first, second = EnergyMeter(), EnergyMeter()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert state() != before
    second.__exit__(None, None, None)
    assert state() == before
    reasons = [meter.energy.how.partition("so a guess")[0] for meter in (first, second)]
    assert reasons[0] == reasons[1]


def counted(base: Path, *, before: str = "") -> dict[str, Any]:
    """A meter in a process whose CodeCarbon looks for the counters of the processor in ``base``."""
    return json.loads(run_python(WORK + before + COUNTING.replace("sys.argv[1]", repr(str(base)))))


def domain(base: Path) -> Path:
    """A folder as the kernel shows the energy counter of a processor; ``COUNTING`` counts it up."""
    place = base / "intel-rapl" / "intel-rapl:0"
    place.mkdir(parents=True)
    (place / "name").write_text("package-0\n")
    (place / "max_energy_range_uj").write_text("262143328850\n")
    return place


def test_a_counter_that_can_be_read_is_a_measurement(tmp_path: Path) -> None:
    (domain(tmp_path) / "energy_uj").write_text("1000000000\n")
    row = counted(tmp_path)
    assert row["kind"] == "measured", row["how"]
    assert "energy counter of the processor (RAPL)" in row["how"]
    assert "guess" not in row["how"]
    assert 2 < row["watts"] < 30
    assert row["grams"] == pytest.approx(row["joules"] / 3.6e6 * 360)


def test_a_counter_that_cannot_be_read_is_no_measurement(tmp_path: Path) -> None:
    (domain(tmp_path) / "energy_uj").mkdir()  # reading fails, for root too
    row = counted(tmp_path)
    assert row["kind"] == "estimated"
    assert row["joules"] > 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="rights as Linux has them")
def test_a_counter_without_the_right_to_read_it_is_no_measurement_and_is_named(tmp_path: Path) -> None:
    file = domain(tmp_path) / "energy_uj"
    file.write_text("1000000000\n")
    file.chmod(0)
    row = counted(tmp_path, before=DROP_RIGHTS)
    assert row["kind"] == "estimated"
    assert "Permission denied reading RAPL file" in row["how"]


def test_regions_come_from_codecarbons_table() -> None:
    france = grid(region="fra")
    assert 20 < france.grams_per_kwh < 100
    assert "France" in france.source
    assert grid(region="POL").grams_per_kwh > 400
    for wrong in ("FR", "Atlantis", ""):
        with pytest.raises(ValueError, match="region must be the ISO code of a country in three letters"):
            grid(region=wrong)
