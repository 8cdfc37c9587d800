"""The tables of docs/reliability.md, made from rows: of each part those that its last commit wrote."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from budgetformer.reporting.results import read_rows
from budgetformer.reporting.tables import NONE, Table

ROOT = Path(__file__).parent.parent
DOCUMENT, RESULTS = ROOT / "docs" / "reliability.md", ROOT / "results" / "reliability.jsonl"
MARKS = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
MIB = 2.0**20
Row = dict[str, Any]
Cells = dict[str, Callable[[Row], str]]


def number(name: str, form: str = "{:,}", *, unit: float = 1) -> Callable[[Row], str]:
    """A cell with the field ``name``."""
    return lambda row: NONE if row[name] is None else form.format(row[name] if unit == 1 else row[name] / unit)


def words(name: str) -> Callable[[Row], str]:
    """A cell with the field ``name`` as it is, a list with spaces."""
    return lambda row: " ".join(map(str, row[name])) if isinstance(row[name], list) else str(row[name])


def held(mark: int) -> Callable[[Row], str]:
    """Memory after a request, in MiB; none where a shorter run did not come to it."""
    return lambda row: number(str(mark), "{:,.0f}", unit=MIB)({str(mark): None} | row["memory_after"])


def grown(row: Row) -> str:
    """Growth of memory between the last two marks."""
    return number("growth", "{:.1%}")(row) if "2000" in row["memory_after"] else NONE


CLIENTS: Cells = {"clients": number("clients")}
ENDS: Cells = {"wrong": number("wrong"), "lost": number("lost")}
COLUMNS: dict[str, Cells] = {
    "load": CLIENTS
    | {"answered": number("answered"), "per second": number("per_second", "{:,.1f}")}
    | {"p50 ms": number("p50_ms", "{:,.0f}"), "p99 ms": number("p99_ms", "{:,.0f}")}
    | {"refused with 429": number("busy"), "other failures": number("failed")}
    | ENDS,
    "memory": {"requests": number("requests"), "answered": number("answered")}
    | {"MiB at start": number("memory_at_start", "{:,.0f}", unit=MIB)}
    | {f"after {mark:,}": held(mark) for mark in (100, 500, 2000)}
    | {"growth from 500 to 2,000": grown},
    "refusals": {"kinds": number("kinds"), "tried": number("tried"), "refused with 4xx and JSON": number("refused")}
    | {"other answers": words("amiss"), "server alive": words("alive")}
    | {"good requests beside them": number("good_answered")}
    | {"wrong": number("good_wrong"), "lost": number("good_lost")},
    "kill": CLIENTS
    | {"ready again after s": number("ready_after_s", "{:.1f}"), "answered": number("answered")}
    | {"connections broken": number("disconnected")}
    | ENDS,
    "term": CLIENTS
    | {"accepted": number("accepted"), "accepted and not answered": number("accepted_lost")}
    | {"refused with 503": number("unavailable"), "wrong": number("wrong")}
    | {"ended after s": number("ended_after_s", "{:.1f}"), "exit code": number("exit_code")},
    "swap": CLIENTS
    | {"swaps": number("swaps"), "answered": number("answered")}
    | {"by version 1": number("of_version_1"), "by version 2": number("of_version_2")}
    | {"503 and asked again": number("unavailable"), "broken and asked again": number("disconnected")}
    | ENDS
    | {"exit codes": words("exit_codes")},
    "disk": {"what is full": lambda row: "the file system" if row["way"] == "disk" else "the size of a file"}
    | {"records": number("records"), "kept": number("kept_records"), "exit codes": words("exit_codes")}
    | {"output equal": words("equal"), "left over": words("left_over")},
}


def table_of(part: str, rows: list[Row]) -> Table:
    """The rows of the last commit that measured a part; there must be some."""
    own = [row for row in rows if row["part"] == part]
    last = own[-1]
    shown = [row for row in own if (row["commit"], row["shape"]) == (last["commit"], last["shape"])]
    busy = max(row["load"] for row in shown)
    caption = (
        f"Shape {last['shape']}, {last['server_threads']} thread, {last['cores']} cores of {last['cpu']}, "
        f"{last['date'][:10]}, commit {str(last['commit'])[:10]}{' with changes' if last['dirty'] else ''}; "
        f"load average of the machine at most {busy:.1f}."
    )
    columns = COLUMNS[part]
    return Table(
        caption=caption, columns=list(columns), rows=[[cell(row) for cell in columns.values()] for row in shown]
    )


def with_tables(text: str, rows: list[Row]) -> str:
    """The document with its tables made anew; a part without rows is said to have none."""
    measured = {row["part"] for row in rows}

    def made(part: str) -> str:
        return table_of(part, rows).to_markdown() if part in measured else "Not measured yet."

    return MARKS.sub(lambda m: f"{m[1]}{made(m[2])}\n{m[3]}", text)


def write_tables(document: Path, results: Path) -> None:
    """Put the tables made from ``results`` into the document."""
    text = document.read_text(encoding="utf-8")
    document.write_text(with_tables(text, read_rows(results)), encoding="utf-8")
