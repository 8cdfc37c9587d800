"""A billion texts on paper: tokens, core-hours, cores, money and grams, from measured rows and stated prices.

    python benchmarks/large_job.py
    python benchmarks/large_job.py --texts 2e8 --days 1 --price 0.031 --watts 7 --grams-per-kwh 56
    python benchmarks/large_job.py --commit 1fcbb0f --commit 45d84c0     only rows of these commits, as in docs/scale.md

Reads results/inference.jsonl and writes nothing. The newest row of a shape and a data set counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from budgetformer.metering.large_job import Prices, large_job
from budgetformer.reporting.results import read_rows
from budgetformer.reporting.tables import Table

ROWS = Path(__file__).parent.parent / "results" / "inference.jsonl"


def newest(rows: Sequence[dict[str, Any]], commits: Sequence[str]) -> list[dict[str, Any]]:
    """The last row of every shape and data set, of these commits alone when there are some."""
    found = {}
    for row in rows:
        if not commits or any(row["commit"].startswith(commit) for commit in commits):
            found[row["shape"], row["data"]] = row
    return list(found.values())


def job_table(row: dict[str, Any], *, texts: float, hours: float, prices: Prices) -> Table:
    """One measurement as a table: a line for every candidate that answers with budgets of its own, or is a peer."""
    lines = []
    for candidate in row["rows"]:
        if candidate["kind"] == "ours" and candidate["asked"] is not None:
            continue
        speeds = candidate["texts_per_second"], *candidate["quartiles"]
        job, slow, fast = (
            large_job(
                texts=texts,
                hours=hours,
                texts_per_second=speed,
                cores=row["threads"],
                tokens_per_text=row["tokens"],
                macs_per_text=candidate["macs"],
                prices=prices,
            )
            for speed in speeds
        )
        lines.append(
            [
                candidate["name"],
                f"{speeds[0] / row['threads']:.1f}",
                f"{job.macs:.2e}",
                f"{job.core_hours:,.0f} ({fast.core_hours:,.0f} to {slow.core_hours:,.0f})",
                f"{job.cores:,}",
                f"{job.money:,.0f}",
                f"{job.kwh:,.0f}",
                f"{job.grams / 1000:,.0f}",
            ]
        )
    columns = ["model", "texts/s and core", "multiply-adds", "core-hours", "cores", "money", "kWh", "kg CO2e"]
    caption = (
        f"{texts:.3g} texts like {row['data']} ({row['tokens']:.0f} tokens, {texts * row['tokens']:.3g} in all), shape "
        f"{row['shape']}, in {hours / 24:g} days; measured on {row['threads']} cores ({row['cpu']}), "
        f"commit {row['commit'][:7]}"
    )
    return Table(caption=caption, columns=columns, rows=lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a Markdown table for every measurement, and what was assumed."""
    own = Prices()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--commit", action="append", default=[], help="default: every row")
    parser.add_argument("--texts", type=float, default=1e9)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--price", type=float, default=own.price_per_core_hour, help="money for a core and hour")
    parser.add_argument("--watts", type=float, default=own.watts_per_core, help="of a busy core")
    parser.add_argument("--overhead", type=float, default=own.overhead, help="power at the meter over the cores'")
    parser.add_argument("--grams-per-kwh", type=float, default=own.grams_per_kwh)
    parser.add_argument("--busy", type=float, default=own.busy, help="share of the hired time that is computed in")
    options = parser.parse_args(arguments)
    prices = Prices(
        price_per_core_hour=options.price,
        watts_per_core=options.watts,
        overhead=options.overhead,
        grams_per_kwh=options.grams_per_kwh,
        busy=options.busy,
    )
    print(
        f"Assumed: {prices.price_per_core_hour:g} per core and hour, {prices.watts_per_core:g} W per busy core times "
        f"{prices.overhead:g}, {prices.grams_per_kwh:g} g CO2e per kWh, cores busy for {prices.busy:.0%} of the time.\n"
    )
    for row in newest(read_rows(options.rows), options.commit):
        table = job_table(row, texts=options.texts, hours=24 * options.days, prices=prices)
        print(f"{table.to_markdown()}\n")


if __name__ == "__main__":
    main()
