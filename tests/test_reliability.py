"""The reliability benchmark: its parts in miniature, and a page whose figures are those of the rows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from budgetformer.reporting.results import read_rows

from .cli.commands import environment

ROOT = Path(__file__).parent.parent
BENCHMARKS = str(ROOT / "benchmarks")


def test_the_page_holds_what_the_rows_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from reliability_tables import COLUMNS, DOCUMENT, RESULTS, with_tables

    text = DOCUMENT.read_text(encoding="utf-8")
    assert re.findall(r"<!-- table: (\w+) -->", text) == list(COLUMNS)
    assert text.count("<!-- end -->") == len(COLUMNS)
    assert with_tables(text, read_rows(RESULTS)) == text


@pytest.mark.parametrize(
    ("revision", "body", "right"),
    [
        ("one", {"answers": [{"scores": {"a": 0.75, "b": 0.25}}]}, True),
        ("one", {"answers": [{"scores": {"a": 0.25, "b": 0.75}}]}, False),  # the answer to the other text
        ("two", {"answers": [{"scores": {"a": 0.75, "b": 0.25}}]}, False),
        ("one", {"answers": []}, False),
        ("one", {"detail": "something else"}, False),
    ],
)
def test_an_answer_that_is_not_the_texts_own_counts_as_wrong(
    monkeypatch: pytest.MonkeyPatch, revision: str, body: dict[str, object], right: bool
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from reliability_servers import Crowd, Model

    def served(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=body, headers={"X-Model-Revision": revision, "X-Request-ID": "1"})

    model = Model(folder=Path(), revision="one", known={"text": (0.75, 0.25), "other": (0.25, 0.75)})
    crowd = Crowd(lambda: "http://here", [model], ["text"], clients=0, retries=True)
    with httpx.Client(transport=httpx.MockTransport(served)) as client:
        assert crowd._ask(client, "text")
    assert (crowd.tally.answered, crowd.tally.wrong) == (1, int(not right))


@pytest.mark.slow
def test_every_part_runs_and_nothing_is_lost(tmp_path: Path) -> None:
    output = tmp_path / "rows.jsonl"
    small = ["--shape", "tiny", "--seconds", "2", "--clients", "2", "--clients", "6"]
    small += ["--requests", "1500", "--texts", "40", "--times", "1"]
    parts = ["load", "memory", "refusals", "kill", "term", "swap", "disk"]
    subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "reliability.py"), *parts, *small, "--output", str(output)],
        check=True,
        env=environment(),
        timeout=500,
    )
    rows: dict[str, list[dict[str, object]]] = {part: [] for part in parts}
    for row in read_rows(output):
        rows[str(row["part"])].append(row)
    assert [len(rows[part]) for part in parts] == [2, 1, 1, 1, 1, 1, 2]
    for part in ("load", "kill", "term", "swap"):
        assert all(row["answered"] and not row["wrong"] and not row["lost"] for row in rows[part]), part
    assert rows["load"][1]["busy"]
    assert rows["memory"][0]["answered"] == 1500
    [refusals] = rows["refusals"]
    assert (refusals["amiss"], refusals["alive"], refusals["good_wrong"]) == ([], True, 0)
    [term] = rows["term"]
    assert (term["exit_code"], term["accepted_lost"]) == (0, 0)
    [swap] = rows["swap"]
    assert swap["of_version_1"]
    assert swap["of_version_2"]
    for row in rows["disk"]:
        if row["possible"]:
            assert (row["exit_codes"], row["equal"], row["left_over"]) == ([1, 0], True, [])
            assert "make room" in str(row["said"])
