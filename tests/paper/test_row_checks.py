"""Rows that no table could show are named by file, line, field and value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from budgetformer.reporting.results import append_row
from budgetformer_paper.recipes import table2_transformer
from budgetformer_paper.report import report_tables, rows_to_report
from budgetformer_paper.row_checks import read_checked

from .test_report import row


def test_committed_rows_are_good() -> None:
    file = Path(__file__).parent.parent.parent / "results" / "reproduction.jsonl"
    assert len(read_checked(file)) > 70


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"accuracy": None}, "field 'accuracy' is None, not a number from 0 to 1"),
        ({"accuracy": float("nan")}, "field 'accuracy' is nan, not a number from 0 to 1"),
        ({"accuracy": 1.7}, "field 'accuracy' is 1.7, not a number from 0 to 1"),
        ({"accuracy": -1}, "field 'accuracy' is -1"),
        ({"accuracy": True}, "field 'accuracy' is True"),
        ({"test_rows": "x"}, "field 'test_rows' is 'x', not a whole number above 0"),
        ({"test_rows": 0}, "field 'test_rows' is 0"),
        ({"seed": "1"}, "field 'seed' is '1', not a whole number from 0 on"),
        ({"seed": []}, "field 'seed' is []"),
        ({"printed": None}, "field 'printed' is None, not an object with the paper's figures"),
        ({"printed": {"accuracy": "high"}}, "field 'printed' is {'accuracy': 'high'}"),
        ({"curves": None}, "field 'curves' is None, not an object with two lists"),
        ({"energy": "x"}, "field 'energy' is 'x'"),
        ({"rows": {"classes": 0}}, "field 'rows' is {'classes': 0}"),
        ({"macs": float("inf")}, "field 'macs' is inf, not a number or null"),
        ({"what": 3}, "field 'what' is 3, not a text"),
        ({"data": ["x" * 100]}, "…, not a text"),
        ({"config": []}, "field 'config' is []"),
        ({"seconds": "long"}, "field 'seconds' is 'long'"),
    ],
)
def test_a_bad_field_is_named_with_its_line(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    file, good = tmp_path / "rows.jsonl", row(table2_transformer("imdb"), 0.8)
    file.write_text(f"{json.dumps(good)}\n\n{json.dumps(good | change)}\n")
    with pytest.raises(ValueError, match="mend or delete this line") as caught:
        rows_to_report(file, None)
    assert f"{file}, line 3: " in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["experiment", "what", "data", "printed", "seed", "scale", "test_rows", "rows"])
def test_a_missing_field_is_named(name: str, tmp_path: Path) -> None:
    file, made = tmp_path / "rows.jsonl", row(table2_transformer("imdb"), 0.8)
    del made[name]
    append_row(file, made)
    with pytest.raises(ValueError, match=f"line 1: there is no field '{name}'"):
        read_checked(file)


def test_rows_of_other_commands_and_fields_that_are_null_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    append_row(file, {"experiment": "demo", "accuracy": None, "seed": "x"})
    append_row(file, row(table2_transformer("imdb"), 0.8, mean_budget=None, energy=None, seconds=None))
    assert len(report_tables(read_checked(file))) == 2


def test_a_line_that_is_nested_too_deeply_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("[" * 200_000 + "\n")
    with pytest.raises(ValueError, match=r"line 1 (is nested too deeply|is not JSON)"):
        read_checked(file)
