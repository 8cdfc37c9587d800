"""The curve of one checkpoint, and the smallest budget that keeps its accuracy."""

from __future__ import annotations

from pathlib import Path

import datasets
import numpy as np
import pytest

from budgetformer import Classifier
from budgetformer.curve import (
    BudgetCurve,
    BudgetPoint,
    check_target,
    default_sentence,
    measure_curve,
    smallest_budget,
)
from budgetformer.evaluation import evaluate
from budgetformer.method import random_policy
from budgetformer.reporting.intervals import paired_difference

from .conftest import WORDS, sentences
from .model_folders import NAMES, make_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("m"))


@pytest.fixture(scope="module")
def rows() -> datasets.Dataset:
    pairs = sentences(30, labels=list(WORDS), seed=9)
    return datasets.Dataset.from_dict(
        {"text": [text for text, _ in pairs], "label": [NAMES.index(label) for _, label in pairs]}
    )


def test_every_number_of_heads_is_measured_with_learned_and_random_heads(folder: Path, rows: datasets.Dataset) -> None:
    classifier = Classifier.from_pretrained(folder, device="cpu")
    curve = measure_curve(classifier, rows, seed=3)
    assert [p.figures["mean_heads"] for p in curve.learned] == [p.figures["mean_heads"] for p in curve.random]
    assert [p.figures["mean_heads"] for p in curve.learned] == [1, 2, 3, 4]
    macs = [p.figures["macs"] for p in curve.learned]
    assert macs == sorted(macs)
    assert macs[-1] == pytest.approx(curve.own.figures["macs_dense"], rel=0.02)  # the nets f and g come on top
    assert curve.own.figures["accuracy"] == evaluate(classifier, rows).figures["accuracy"]
    by_chance = evaluate(classifier, rows, budget=0.5, policy=random_policy(3))
    assert np.array_equal(curve.random[1].correct, by_chance.correct)
    assert [row["choice"] for row in curve.rows()] == ["own", *["learned"] * 4, *["random"] * 4]
    assert all(row["rows"] == 30 for row in curve.rows())


def test_the_own_budgets_are_measured_whatever_the_default_of_the_folder(folder: Path, rows: datasets.Dataset) -> None:
    classifier = Classifier.from_pretrained(folder, device="cpu")
    before = measure_curve(classifier, rows, random=False)
    assert before.random == ()
    classifier.config.default_budget = 0.25
    after = measure_curve(classifier, rows, random=False)
    assert [p.figures["mean_heads"] for p in after.learned] == [p.figures["mean_heads"] for p in before.learned]
    assert after.own.figures["mean_heads"] == before.own.figures["mean_heads"] > 1


def test_fewer_heads_than_a_model_keeps_at_least_are_not_asked_for(tmp_path: Path, rows: datasets.Dataset) -> None:
    classifier = Classifier.from_pretrained(make_folder(tmp_path, min_heads=3), device="cpu")
    assert [p.asked for p in measure_curve(classifier, rows, random=False).learned] == [3, 4]


def test_layers_that_lost_heads_have_a_curve_too(tmp_path: Path, rows: datasets.Dataset) -> None:
    classifier = Classifier.from_pretrained(make_folder(tmp_path / "m", min_heads=0), device="cpu")
    classifier.model.prune_heads({0: [1], 1: [0, 1, 2]})
    curve = measure_curve(classifier, rows, random=False)
    assert [p.asked for p in curve.learned] == [1, 2, 3]
    assert curve.learned[-1].figures["mean_heads"] == 2.0
    assert curve.learned[-1].figures["macs"] == curve.own.figures["macs_dense"]
    classifier.model.prune_heads({0: [0, 2, 3], 1: [3]})
    none = measure_curve(classifier, rows, random=False)
    assert [p.figures["mean_heads"] for p in (none.own, *none.learned)] == [0.0, 0.0]
    assert smallest_budget(none, target=0.0).drop == 0.0


def test_full_attention_has_no_curve(tmp_path: Path, rows: datasets.Dataset) -> None:
    classifier = Classifier.from_pretrained(make_folder(tmp_path, budgeted=False), device="cpu")
    with pytest.raises(ValueError, match="has no curve of budgets"):
        measure_curve(classifier, rows)


def point(asked: int | None, right: str, *, heads: float | None = None) -> BudgetPoint:
    """A point of a model of 4 heads; ``right`` has a 1 for every row that it gets right."""
    correct = np.array([mark == "1" for mark in right])
    kept = float(asked or 4) if heads is None else heads
    figures = {"mean_heads": kept, "accuracy": correct.mean()}
    return BudgetPoint(
        choice="own" if asked is None else "learned", asked=asked, all_heads=4, figures=figures, correct=correct
    )


def curve_of(own: BudgetPoint, *learned: str) -> BudgetCurve:
    return BudgetCurve(own=own, learned=tuple(point(k, right) for k, right in enumerate(learned, start=1)))


@pytest.mark.parametrize(
    ("target", "asked", "budget"), [(0, 4, 1.0), (9, 4, 1.0), (10, 3, 0.75), (30, 2, 0.5), (60, 1, 0.25)]
)
def test_the_fewest_heads_within_the_target_are_chosen(target: float, asked: int, budget: float) -> None:
    own = point(None, "0000000000", heads=0.5)
    curve = curve_of(own, "1111000000", "1111111000", "1111111110", "1111111111")
    choice = smallest_budget(curve, target=target)
    assert (choice.point.asked, choice.budget) == (asked, budget)
    assert choice.drop <= target
    assert choice.reference is curve.learned[-1]


def test_the_own_budgets_are_chosen_where_they_are_the_cheapest() -> None:
    curve = curve_of(point(None, "1111111110", heads=1.4), "1000000000", "1111111100", "1111111111", "1111111111")
    choice = smallest_budget(curve, target=10)
    assert choice.budget is None
    assert default_sentence(choice) == "The folder answers with its own budgets when a call names none."


def test_more_heads_are_chosen_where_the_own_budgets_lose_too_much() -> None:
    curve = curve_of(point(None, "1111100000", heads=1.4), "1000000000", "1111111110", "1111111111", "1111111111")
    choice = smallest_budget(curve, target=10)
    assert choice.budget == 0.5
    assert "default_budget in config.json" in default_sentence(choice)


def test_own_budgets_better_than_all_heads_are_what_a_point_is_held_against() -> None:
    curve = curve_of(point(None, "1111111111", heads=2.5), "1111110000", "1111111000", "1111111000", "1111111000")
    assert smallest_budget(curve, target=20).point is curve.own
    choice = smallest_budget(curve, target=30)
    assert (choice.point.asked, choice.drop) == (2, pytest.approx(30))


def test_a_choice_says_how_sure_it_is() -> None:
    few = smallest_budget(curve_of(point(None, "0" * 10), *["1" * 10] * 4), target=0.5).sentences()
    assert few[0].startswith("Smallest budget within 0.5 percentage points: 1 of 4 heads for every text (budget 0.25)")
    assert "So these rows cannot tell that it stays within 0.5 points" in few[2]
    assert few[3] == "One row is 10 points, more than the 0.5 that may be lost."
    one = smallest_budget(curve_of(point(None, "0"), *["1"] * 4), target=0.5).sentences()
    assert one[-1] == "One row is 100 points, more than the 0.5 that may be lost."
    better = smallest_budget(curve_of(point(None, "0000"), "1110", *["1100"] * 3), target=50).sentences()
    assert better[1].startswith("It gains 25.00 points on these 4 rows; on others like them, with 95% confidence, it")
    many = smallest_budget(curve_of(point(None, "0" * 4000), *["1" * 4000] * 4), target=0.5).sentences()
    assert len(many) == 2
    alone = smallest_budget(curve_of(point(None, "0" * 4000), *["0" * 4000] * 3, "1" * 4000), target=0.5)
    assert len(alone.sentences()) == 1
    assert alone.row() == {
        "target_accuracy_drop": 0.5,
        "budget": 1.0,
        "asked": 4,
        "drop": 0.0,
        "drop_low": alone.interval.low,
        "drop_high": alone.interval.high,
        "reference": "all of 4 heads",
        "rows": 4000,
    }


@pytest.mark.parametrize("target", [-0.1, 100, float("nan"), float("inf"), True, "0.5"])
def test_what_is_no_loss_in_points_is_refused(target: object) -> None:
    with pytest.raises(ValueError, match="in percentage points, from 0 to below 100"):
        check_target(target)


def test_the_interval_of_a_paired_difference_covers_as_often_as_it_says() -> None:
    random, truth, covered = np.random.default_rng(0), 0.04 - 0.02, 0
    for _ in range(400):
        lost, gained, _ = random.multinomial(300, (0.04, 0.02, 0.94))
        reach = paired_difference(int(lost), int(gained), 300)
        covered += reach.low <= truth <= reach.high
    assert 0.92 <= covered / 400 <= 0.99
    assert paired_difference(0, 0, 10).high > 0.1
    with pytest.raises(ValueError, match="together at most rows"):
        paired_difference(6, 5, 10)
