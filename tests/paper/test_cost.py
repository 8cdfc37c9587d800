"""Steps of training beside those of the twin, and the memory of attention: measured without any data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from budgetformer.reporting.results import read_rows
from budgetformer_paper import cost as costs
from budgetformer_paper.recipes import cost
from budgetformer_paper.run import Running, plan, reproduce
from budgetformer_paper.scales import smoke


def test_a_row_of_cost_needs_no_data_and_trains_no_model(running: Running, tmp_path: Path) -> None:
    recipe = smoke(cost("imdb"))
    nowhere = replace(running, data_folder=tmp_path / "nowhere")
    assert [row.trains for row in plan([recipe], seeds=1, running=nowhere)] == [False]
    assert reproduce([recipe], seeds=1, running=nowhere).written == 1
    assert not running.work.exists()
    (row,) = read_rows(running.results)
    assert row["batch"] == [16, 32]
    assert min(row["step_seconds"].values()) > 0
    low, high = row["step_ratio"]["interval"]
    assert low <= row["step_ratio"]["median"] <= high
    assert row["step_memory"]["budgetformer"] > row["step_memory"]["transformer"] > 0
    memory = row["attention_memory"]
    assert [one["heads"] for one in memory] == list(range(1, 9))
    assert memory[0]["allocated"] < memory[-1]["allocated"]
    assert memory[1]["closed_form"] == 2 * memory[0]["closed_form"]


def test_the_interval_of_a_median_holds_it_and_narrows_with_more_values() -> None:
    few, many = (costs._interval_of_median([float(i % 10) for i in range(count)]) for count in (10, 1000))
    assert few[0] <= 4.5 <= few[1]
    assert many[1] - many[0] < few[1] - few[0]
    assert costs._interval_of_median([1.0]) == [1.0, 1.0]
    assert costs._interval_of_median([3.0, 1.0, 2.0]) == [1.0, 3.0]
