"""A large job on paper: the arithmetic by hand, and the page's tables as the command prints them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from budgetformer.metering.large_job import Prices, large_job

ROOT = Path(__file__).parent.parent.parent
SCRIPT, PAGE = ROOT / "benchmarks" / "large_job.py", ROOT / "docs" / "scale.md"


def test_the_arithmetic_by_hand() -> None:
    prices = Prices(price_per_core_hour=0.05, watts_per_core=10, overhead=1.2, grams_per_kwh=100, busy=0.5)
    job = large_job(
        texts=7.2e6, hours=3, texts_per_second=200, cores=2, tokens_per_text=50, macs_per_text=1e6, prices=prices
    )
    assert job.tokens == 3.6e8
    assert job.macs == 7.2e12
    assert job.core_hours == pytest.approx(40)  # 36,000 s on 2 cores are 20 hours, in half of the time
    assert job.cores == 14
    assert job.money == pytest.approx(2.0)
    assert job.kwh == pytest.approx(0.24)
    assert job.grams == pytest.approx(24)


@pytest.mark.parametrize(
    ("field", "value"),
    [("busy", 0), ("busy", 1.1), ("overhead", 0.9), ("watts_per_core", 0), ("price_per_core_hour", -1)],
)
def test_prices_that_cannot_be_are_named(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must .* got {value}"):
        Prices(**{field: value})


@pytest.mark.parametrize("field", ["texts", "hours", "texts_per_second", "cores", "tokens_per_text", "macs_per_text"])
def test_measurements_that_cannot_be_are_named(field: str) -> None:
    numbers = {"texts": 1.0, "hours": 1.0, "texts_per_second": 1.0, "cores": 1, "tokens_per_text": 1.0}
    with pytest.raises(ValueError, match=f"{field} must be above 0, got 0"):
        large_job(**(numbers | {"macs_per_text": 1.0} | {field: 0}))


def test_the_tables_of_the_page_are_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    command = re.search(r"^python benchmarks/large_job\.py (.*)$", page, re.M)
    assert command is not None
    runpy.run_path(str(SCRIPT))["main"](command[1].split())
    printed = capsys.readouterr().out.strip()
    asked = set(re.findall(r"--commit (\w+)", command[1]))
    assert set(re.findall(r", commit (\w+)", printed)) == asked  # every commit has a table, and no other
    assert printed.count("| model |") >= len(asked)
    assert printed in page


def test_other_assumptions_give_other_figures(capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(SCRIPT))["main"]
    main(["--commit", "f3c14ab", "--price", "0"])
    free = capsys.readouterr().out
    main(["--commit", "f3c14ab", "--texts", "1e6"])
    few = capsys.readouterr().out
    assert "0 per core and hour" in free
    assert "1e+06 texts like ag\\_news" in few or "1e+06 texts like ag_news" in few
    assert free.splitlines()[3:] != few.splitlines()[3:]
