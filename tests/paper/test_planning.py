"""Expected times: a model that several rows ask is trained once, and only where it is missing."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from budgetformer.reporting.results import append_row
from budgetformer_paper.groups import THIRDS
from budgetformer_paper.recipe import Recipe
from budgetformer_paper.recipes import figure2, table2_transformer, table3_adaptive, table3_asked, table3_fixed
from budgetformer_paper.run import Running, model_folder, plan
from budgetformer_paper.scales import expected_seconds, smoke

from .test_report import row as row_of

ADAPTIVE, ASKED, FIXED = (
    smoke(recipe) for recipe in (table3_adaptive("imdb"), table3_asked("imdb", 0.5), table3_fixed("imdb", 1.0))
)
TRAINED = 350.0


def timed(recipe: Recipe, seconds: float, **more: Any) -> dict[str, Any]:
    """A row with its configuration, as ``run`` writes it; of JSON."""
    config = {"data": asdict(recipe.data), "training": recipe.settings(), "ask": asdict(recipe.ask)}
    named = {"experiment": recipe.experiment, "recipe": recipe.label, "data": recipe.data.name}
    told = named | {"digest": recipe.row_digest(), "config": config, "seconds": seconds} | more
    if recipe.ask.difficulty:
        group = {"rows": 2, "mean": 0.5, "std": 0.1, "quantiles": [0.5] * 5}
        told["budget_by_difficulty"] = {"loss of the Transformer": dict.fromkeys(THIRDS, group)}
    made: dict[str, Any] = json.loads(json.dumps(row_of(table2_transformer("imdb"), 0.5, scale="smoke") | told))
    return made


def put(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("config.json", "training.json"):
        (folder / name).write_text("{}")


def test_a_shared_training_is_counted_once(running: Running) -> None:
    append_row(running.results, timed(ADAPTIVE, 356.0, training_seconds=TRAINED))
    append_row(running.results, timed(ASKED, 20.0, training_seconds=TRAINED))
    append_row(running.results, timed(FIXED, 130.0, training_seconds=125.0))
    planned = plan([ADAPTIVE, ASKED, FIXED], seeds=2, running=running)
    assert [row.seconds for row in planned[:3]] == [0, 0, 0]
    assert [(row.measuring, row.training) for row in planned[3:]] == [(6, TRAINED), (20, 0), (5, 125)]
    assert [row.seconds for row in planned[3:]] == [356, 20, 130]


def test_the_first_row_that_asks_for_a_model_trains_it_unless_it_is_there(running: Running) -> None:
    append_row(running.results, timed(ADAPTIVE, 356.0, training_seconds=TRAINED))
    append_row(running.results, timed(ASKED, 20.0, training_seconds=TRAINED))
    (_, asked) = plan([ASKED], seeds=2, running=running)
    assert (asked.trains, asked.measuring, asked.training) == (True, 20, TRAINED)
    put(model_folder(ADAPTIVE, 1, running))
    assert [row.seconds for row in plan([ADAPTIVE, ASKED], seeds=2, running=running)] == [0, 0, 6, 20]


def test_a_twin_takes_as_long_as_where_it_was_trained_for_another_row(running: Running) -> None:
    twin, difficulty = smoke(table2_transformer("snli")), smoke(figure2("snli"))
    append_row(running.results, timed(twin, 103.0, training_seconds=100.0))
    (planned,) = plan([difficulty], seeds=1, running=running)
    mine = expected_seconds(difficulty) - expected_seconds(difficulty, train=False)
    assert planned.training == pytest.approx(100 + mine)
    append_row(running.results, timed(difficulty, 9.0, training_seconds=40.0))
    (_, second) = plan([difficulty], seeds=2, running=running)
    assert (second.measuring, second.training) == (9, 140)


def test_what_was_left_of_a_training_is_no_time_of_measuring(running: Running) -> None:
    append_row(running.results, timed(ADAPTIVE, 250.0, training_seconds=TRAINED, resumed=True))
    (_, planned) = plan([ADAPTIVE], seeds=2, running=running)
    assert (planned.measuring, planned.training) == (expected_seconds(ADAPTIVE, train=False), TRAINED)


def test_without_rows_the_times_are_those_of_the_multiply_adds(running: Running) -> None:
    first, second = plan([ADAPTIVE, ASKED], seeds=1, running=replace(running, results=running.work / "none.jsonl"))
    assert first.seconds == pytest.approx(expected_seconds(ADAPTIVE))
    assert second.seconds == pytest.approx(expected_seconds(ASKED, train=False))
