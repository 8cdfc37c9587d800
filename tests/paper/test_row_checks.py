"""Rows that no table could show are named by file, line, field and value."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

from budgetformer.reporting.results import append_row
from budgetformer_paper import map_figures, report
from budgetformer_paper.figures import pictures
from budgetformer_paper.recipe import Printed
from budgetformer_paper.recipes import table2_transformer
from budgetformer_paper.report import report_tables, rows_to_report
from budgetformer_paper.row_checks import complaint, read_checked
from budgetformer_paper.summary import summaries

from .test_report import row

COMMITTED = Path(__file__).parent.parent.parent / "results" / "reproduction.jsonl"
PRINTED = asdict(Printed())
ROWS = [one for one in map(json.loads, COMMITTED.read_text(encoding="utf-8").splitlines()) if one["scale"] != "cpu"]
FIRST = {one["experiment"]: one for one in reversed(ROWS)}
CHOSEN = [*FIRST.values(), next(one for one in ROWS if one["recipe"] == "table2/ag_news/budgetformer")]
DEEP = ("printed", "rows", "energy", "training_energy", "curves", "budget_by_difficulty", "budget_by_class")
DEEP += (
    "entropy_by_class",
    "attention_maps",
    "attention_entropy",
    "step_seconds",
    "step_ratio",
    "step_memory",
    "batch",
)
DEEP += ("attention_memory",)
"""Fields that are changed inside as well."""
GONE = object()
Place = tuple[str | int, ...]


def test_committed_rows_are_good() -> None:
    assert len(read_checked(COMMITTED)) > 70


def places(value: Any, start: Place) -> Iterator[Place]:
    """This place and all that lie in it; of lists the first value."""
    yield start
    inner = list(value) if isinstance(value, dict) else [0] if isinstance(value, list) and value else []
    for name in inner:
        yield from places(value[name], (*start, name))


def changed(one: dict[str, Any], place: Place, value: object) -> dict[str, Any]:
    made = dict(one) | {place[0]: copy.deepcopy(one[str(place[0])])}
    inner: Any = made
    for name in place[:-1]:
        inner = inner[name]
    if value is GONE:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return made


def complaint_of(file: Path) -> str | None:
    try:
        read_checked(file)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize("one", CHOSEN, ids=lambda one: one["recipe"])
def test_a_changed_row_is_shown_or_named(one: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any field taken away, null, a text or too large, beside the other rows of its data set."""
    monkeypatch.setattr(report, "pictures", lambda found: [])
    monkeypatch.setattr(map_figures, "maps_of_a_layer", lambda *_, **__: Figure())
    others = [
        other
        for other in ROWS
        if other["data"] == one["data"]
        and other is not one
        and (other["experiment"] == "table2" or other["recipe"].endswith(("/adaptive", "/fixed-1", "/learned")))
    ]
    training = one["config"]["training"] or {}
    found: list[Place] = [(name,) for name in one] + [("config", "training", name) for name in training]
    deep = [("config", "training", "config", name) for name in training.get("config", ())]
    deep += [place for name in DEEP if name in one for place in list(places(one[name], (name,)))[1:]]
    file, named = tmp_path / "rows.jsonl", 0
    for value in (GONE, None, "x", 10**400):
        taken = one
        for place in [*found, *reversed(deep)]:  # what lies in a field before the field
            row = changed(one, place, value)
            said = complaint(row)
            if said is not None:
                named += 1
                assert str(place[0]) in said, (place, value)
                if len(place) == 1 and value is None:
                    file.write_text(f"\n{json.dumps(row)}\n", encoding="utf-8")
                    assert complaint_of(file) == f"{file}, line 2: {said}; mend or delete this line"
            elif place in deep:  # all of them together
                both = changed(taken, place, value)
                taken = taken if complaint(both) else both
            elif value != 10**400:
                report._sections(summaries([*others, row]), [*others, row], whole=True)
        report._sections(summaries([*others, taken]), [*others, taken], whole=True)
        pictures(summaries([taken]))
        plt.close("all")
    assert named > 50


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
        ({"printed": {"accuracy": None}}, "there is no field 'printed.mean_budget'"),
        ({"printed": PRINTED | {"accuracy": "high"}}, "field 'printed.accuracy' is 'high', not a number or null"),
        ({"curves": None}, "field 'curves' is None, not an object with two lists"),
        ({"energy": "x"}, "field 'energy' is 'x'"),
        ({"rows": {"classes": 0}}, "field 'rows.classes' is 0, not a whole number above 0"),
        ({"macs": float("inf")}, "field 'macs' is inf, not a number or null"),
        ({"macs": 10**400}, "field 'macs' is 1000"),
        ({"test_rows": 10**400}, "field 'test_rows' is 1000"),
        ({"experiment": "table3"}, "field 'experiment' is 'table3', not what field 'recipe' begins with"),
        ({"cpu": "a processor"}, "there is no field 'cores'"),
        ({"torch": "2.9"}, "there is no field 'transformers'"),
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
