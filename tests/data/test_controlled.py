"""The controlled task: its answers, its balance, and that only attention solves it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from budgetformer.data.controlled import RELATIONS, ControlledData, ControlledTask

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "controlled.py"
SETTINGS = [{}, {"marker_repeats": 3}, {"groups": 4, "marker_repeats": 1}, {"groups": 6}]


def answers_by_reading(task: ControlledTask, ids: list[int]) -> tuple[list[bool], list[int]]:
    """Which relations a row names and what they answer, found by looking at the tokens one by one."""
    named = [task.name_token + r in ids for r in range(4)]
    query = next(i for i, token in enumerate(ids) if token >= task.query_token)
    k = ids[query] - task.query_token
    coins = [token for token in ids if task.coin_token <= token < task.letter_token]
    letter = [token for token in ids if token in (task.letter_token + 2 * k, task.letter_token + 2 * k + 1)]
    bracket = [token for token in ids if token in (task.bracket_token + 2 * k, task.bracket_token + 2 * k + 1)]
    assert len(letter) == len(bracket) == 2
    return named, [
        ids[query - 2] - task.digit_token,
        coins[k] - task.coin_token,
        letter[0] - task.letter_token - 2 * k,
        bracket[1] - task.bracket_token - 2 * k,
    ]


@pytest.mark.parametrize("settings", SETTINGS)
def test_labels_are_what_a_plain_reading_of_the_tokens_gives(settings: dict[str, int]) -> None:
    task = ControlledTask(**settings)
    data = task.generate(300, seed=3)
    for row in range(300):
        named, answers = answers_by_reading(task, data.input_ids[row].tolist())
        assert named == data.named[row].tolist()
        assert answers == data.answers[row].tolist()
        assert data.labels[row] == sum(2**r for r in range(4) if named[r] and answers[r])
        assert data.difficulty[row] == sum(named)


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_bag_of_tokens_is_the_same_but_for_markers_and_query(settings: dict[str, int]) -> None:
    task = ControlledTask(**settings)
    data = task.generate(500, seed=0)
    assert data.input_ids.shape == data.attention_mask.shape == (500, task.length)
    assert data.input_ids.min() >= 1
    assert data.input_ids.max() < task.vocab_size
    rest = np.sort(
        np.where(data.input_ids >= task.query_token, task.query_token, data.input_ids)[:, task.store_start :]
    )
    assert (rest == rest[0]).all()


def test_difficulties_and_relations_occur_equally_often() -> None:
    data = ControlledTask().generate(5000, seed=1)
    assert np.bincount(data.difficulty).tolist() == [1000] * 5
    assert np.abs(data.named.mean(axis=0) - 0.5).max() < 0.03
    assert np.abs(data.answers.mean(axis=0) - 0.5).max() < 0.03
    assert np.abs(np.corrcoef(data.answers.T) - np.eye(4)).max() < 0.05


def test_a_seed_gives_the_same_data_and_another_seed_others() -> None:
    task = ControlledTask()
    one, same, other = (task.generate(200, seed=seed) for seed in (5, 5, 6))
    assert (one.input_ids == same.input_ids).all()
    assert (one.labels == same.labels).all()
    assert (one.input_ids != other.input_ids).any()


def unigrams(task: ControlledTask, data: ControlledData) -> np.ndarray:
    return np.stack([np.bincount(row, minlength=task.vocab_size) for row in data.input_ids]).astype(float)


def tokens_in_places(task: ControlledTask, data: ControlledData) -> np.ndarray:
    return np.eye(task.vocab_size)[data.input_ids].reshape(len(data.input_ids), -1)


@pytest.mark.parametrize("features", [unigrams, tokens_in_places])
def test_token_counts_and_tokens_in_places_say_nothing_about_an_answer(features) -> None:
    task = ControlledTask()
    train, test = task.generate(6000, seed=0), task.generate(3000, seed=1)
    for r in range(len(RELATIONS)):
        model = LogisticRegression(max_iter=1000).fit(features(task, train), train.answers[:, r])
        assert abs(model.score(features(task, test), test.answers[:, r]) - 0.5) < 0.04


def test_the_label_cannot_be_had_from_token_counts() -> None:
    task = ControlledTask()
    train, test = task.generate(6000, seed=0), task.generate(3000, seed=1)
    model = LogisticRegression(max_iter=1000).fit(unigrams(task, train), train.labels)
    right = model.predict(unigrams(task, test)) == test.labels
    for difficulty in range(1, 5):
        assert right[test.difficulty == difficulty].mean() < 0.5**difficulty + 0.06


def test_dataset_has_the_columns_of_a_trainer() -> None:
    data = ControlledTask().generate(10, seed=0)
    rows = data.dataset()
    assert rows.column_names == ["input_ids", "attention_mask", "labels"]
    assert rows[3]["input_ids"].tolist() == data.input_ids[3].tolist()
    assert data.first(4).labels.tolist() == data.labels[:4].tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"groups": 3}, "groups must be an even number, at least 2, got 3"),
        ({"groups": 0}, "groups must be an even number, at least 2, got 0"),
        ({"marker_repeats": 0}, "marker_repeats must be at least 1, got 0"),
    ],
)
def test_settings_that_cannot_be_balanced_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ControlledTask(**settings)


def test_zero_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="rows must be at least 1, got 0"):
        ControlledTask().generate(0, seed=0)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_only_attention_solves_the_task_and_budgets_solve_it_with_fewer_heads(tmp_path: Path) -> None:
    output = tmp_path / "rows.jsonl"
    for variant, steps in (("attention_free", 250), ("full", 1150), ("price", 2200)):
        command = [sys.executable, str(SCRIPT), "--output", str(output), "--only", variant, "--steps", str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr[-2000:]
    rows = {row["variant"]: row for row in map(json.loads, output.read_text().splitlines())}
    free, full, price = rows["attention_free"], rows["full"], rows["price"]
    for difficulty in range(1, 5):
        assert free["accuracy_by_difficulty"][difficulty] < 0.5**difficulty + 0.08
    assert full["accuracy"] > 0.9
    assert price["accuracy"] > free["accuracy"] + 0.3
    assert price["mean_heads"] < 6
    assert price["heads_by_difficulty"][4] > price["heads_by_difficulty"][0] + 0.5
    assert price["rank_correlation_budget"] > 0.5
