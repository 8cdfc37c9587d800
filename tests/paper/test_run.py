"""Runs at the smoke scale: rows with all figures, shared models, skipping, going on, failing."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from budgetformer.locking import alone_in
from budgetformer.reporting.results import append_row, read_rows
from budgetformer.training import NonFiniteError
from budgetformer_paper import run as runs
from budgetformer_paper import trained
from budgetformer_paper.recipe import Recipe
from budgetformer_paper.recipes import (
    experiments,
    table2_budgetformer,
    table2_tfidf,
    table2_transformer,
    table3_asked,
    table3_fixed,
    table4_random,
    table4_static,
    table6,
    with_config,
)
from budgetformer_paper.run import Running, model_folder, plan, reproduce
from budgetformer_paper.scales import smoke

from .test_report import row as row_of

FIELDS = {"recipe", "scale", "config", "seed", "commit", "cpu", "torch", "accuracy", "interval", "macro_f1", "rows"}
MODEL = {"mean_heads", "heads_per_layer", "effective_heads_per_layer", "macs", "macs_dense", "paper_macs"}
MODEL |= {
    "paper_grams",
    "training_seconds",
    "training_energy",
    "peak_memory",
    "energy",
    "curves",
    "updates",
    "parameters",
}


def smoked(*recipes: Recipe) -> list[Recipe]:
    return [smoke(recipe) for recipe in recipes]


def test_table_2_gives_one_whole_row_each(running: Running) -> None:
    recipes = smoked(table2_transformer("snli"), table2_budgetformer("snli"), table2_tfidf("snli"))
    assert reproduce(recipes, seeds=1, running=running).written == 3
    dense, budgeted, words = read_rows(running.results)
    assert all(set(row) >= FIELDS for row in (dense, budgeted, words))
    assert all(set(row) >= MODEL for row in (dense, budgeted))
    assert (dense["mean_heads"], dense["macs"]) == (8, dense["macs_dense"])
    assert len(budgeted["effective_heads_per_layer"]) == 2
    assert all(1 <= heads <= 8 for heads in budgeted["effective_heads_per_layer"])
    for row in (dense, budgeted):
        energy = row["training_energy"]
        assert energy["kind"] in ("measured", "estimated")
        assert energy["joules"] > 0
        assert energy["seconds"] == pytest.approx(row["training_seconds"], abs=3)
    assert words["interval"][0] <= words["accuracy"] <= words["interval"][1]
    assert budgeted["curves"]["validation"][-1]["eval_mean_budget"] > 0
    assert budgeted["rows"]["rows"] == {"train": 64, "test": 32, "validation": 16}
    assert budgeted["config"]["training"]["config"]["hidden_size"] == 48


def test_one_model_answers_several_questions(running: Running) -> None:
    recipes = smoked(
        table2_budgetformer("imdb"),
        table3_asked("imdb", 0.5),
        table3_asked("imdb", 0.1, min_heads=0),
        table3_asked("imdb", 1.0, rescale_gates=True),
        table4_random("imdb"),
        table4_static("imdb"),
    )
    planned = plan(recipes, seeds=1, running=running)
    assert [row.trains for row in planned] == [True, *[False] * 5]
    reproduce(recipes, seeds=1, running=running)
    learned, half, none, all_heads, random, static = read_rows(running.results)
    assert len(list((running.work / "models" / "smoke").iterdir())) == 1
    assert (half["mean_heads"], half["mean_budget"]) == (4, 0.5)
    assert (none["mean_heads"], all_heads["mean_heads"]) == (0, 8)
    assert random["heads_per_layer"] == learned["heads_per_layer"]
    assert all(heads == int(heads) >= 1 for heads in static["heads_per_layer"])
    assert static["paper_macs"] is None
    assert half["curves"] == learned["curves"]
    assert not list(running.work.rglob("checkpoint-*"))


def test_effective_heads_are_those_of_the_question(running: Running) -> None:
    """The first layer sees the same texts whatever is asked; what the second one sees depends on the heads below."""
    one_head = table3_asked("imdb", 0.1)
    asking = (one_head, table3_asked("imdb", 1.0, rescale_gates=True), table4_random("imdb"), table4_static("imdb"))
    reproduce(smoked(table2_budgetformer("imdb"), *asking), seeds=1, running=running)
    learned, *asked = read_rows(running.results)
    assert len(asked) == len(asking)
    for row in asked:
        assert row["effective_heads_per_layer"][0] == pytest.approx(learned["effective_heads_per_layer"][0])
        assert row["effective_heads_per_layer"][1] != learned["effective_heads_per_layer"][1]
        for label, group in row["entropy_by_class"].items():
            assert group["mean"][1] != learned["entropy_by_class"][label]["mean"][1]


def test_a_fixed_budget_is_trained_and_costs_what_it_says(running: Running) -> None:
    reproduce(smoked(table3_fixed("imdb", 0.25)), seeds=1, running=running)
    (row,) = read_rows(running.results)
    assert (row["mean_heads"], row["mean_budget"]) == (2, 0.25)


def test_finished_rows_are_skipped_and_further_seeds_are_added(running: Running) -> None:
    recipes = smoked(table2_tfidf("ag_news"))
    assert reproduce(recipes, seeds=1, running=running).written == 1
    more = reproduce(recipes, seeds=2, running=running)
    assert (more.written, more.skipped) == (1, 1)
    assert [row["seed"] for row in read_rows(running.results)] == [0, 1]
    (*_, third) = plan(recipes, seeds=3, running=running)
    assert third.seconds == read_rows(running.results)[1]["seconds"]


def test_a_changed_recipe_is_run_anew(running: Running) -> None:
    (recipe,) = smoked(table2_budgetformer("imdb"))
    append_row(running.results, row_of(table2_budgetformer("imdb"), 0.5, scale="smoke"))
    assert [row.done for row in plan([recipe], seeds=1, running=running)] == [True]
    assert [row.done for row in plan([with_config(recipe, gamma=1.0)], seeds=1, running=running)] == [False]


def test_a_broken_run_goes_on_from_its_checkpoint(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained, "drop_checkpoints", lambda folder: None)
    (recipe,) = smoked(table2_budgetformer("imdb"))
    assert recipe.training is not None
    recipe = replace(recipe, training=replace(recipe.training, epochs=2))
    folder = model_folder(recipe, 0, running)
    reproduce([recipe], seeds=1, running=running)
    whole = torch.load(folder / "checkpoints" / "checkpoint-8" / "optimizer.pt", weights_only=True)
    shutil.rmtree(folder / "checkpoints" / "checkpoint-8")  # as if stopped after the first epoch
    for name in ("config.json", "training.json", "measured.json", "model.safetensors"):
        (folder / name).unlink()
    running.results.unlink()
    reproduce([recipe], seeds=1, running=running)
    (row,) = read_rows(running.results)
    assert row["resumed"] is True
    again = torch.load(folder / "checkpoints" / "checkpoint-8" / "optimizer.pt", weights_only=True)
    first, second = (next(iter(state["state"].values()))["exp_avg"] for state in (whole, again))
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no such label"), "no such label"),
        (NonFiniteError("update 3: the gradients are not finite"), "update 3: the gradients are not finite"),
        (RuntimeError("out of memory"), "RuntimeError: out of memory"),
        (KeyError("label"), "KeyError: 'label'"),
        (MemoryError(), "MemoryError: "),
    ],
)
def test_a_run_that_fails_does_not_end_the_night(
    running: Running,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    said: str,
) -> None:
    good, bad = smoked(table2_tfidf("ag_news"), table2_tfidf("imdb"))
    run_row = runs.run_row

    def failing(recipe: Recipe, **rest: object) -> None:
        if recipe.data.name == "imdb":
            raise error
        run_row(recipe, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "run_row", failing)
    outcome = reproduce([bad, good], seeds=1, running=running)
    assert outcome.failed == [("table2/imdb/tfidf, seed 0", said)]
    assert (outcome.written, outcome.left) == (1, 0)
    assert [row["data"] for row in read_rows(running.results)] == ["ag_news"]
    assert "failed: table2/imdb/tfidf" in capsys.readouterr().err


def test_a_training_that_ends_in_nan_does_not_stop_the_others(running: Running) -> None:
    bad, good = smoked(table2_transformer("imdb"), table2_tfidf("ag_news"))
    assert bad.training is not None
    bad = replace(bad, training=replace(bad.training, learning_rate=1e30, warmup=0.0))
    outcome = reproduce([bad, good], seeds=1, running=running)
    assert outcome.written == 1
    ((name, said),) = outcome.failed
    assert name.startswith("table2/imdb/transformer")
    assert "gradients are not finite" in said


def test_a_set_that_is_missing_does_not_stop_the_others(running: Running, data_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(data_folder / "ag_news", tmp_path / "part" / "ag_news")
    there = replace(running, data_folder=tmp_path / "part")
    outcome = reproduce(smoked(table2_tfidf("imdb"), table2_tfidf("ag_news")), seeds=1, running=there)
    assert outcome.written == 1
    assert "imdb/train.jsonl.gz" in outcome.failed[0][1]
    assert [row["data"] for row in read_rows(running.results)] == ["ag_news"]


def test_at_the_time_limit_the_training_is_saved_and_goes_on_later(running: Running) -> None:
    (long, next_one) = smoked(table2_budgetformer("imdb"), table2_tfidf("imdb"))
    assert long.training is not None
    long = replace(long, training=replace(long.training, epochs=2000))
    reproduce([next_one], seeds=1, running=replace(running, results=running.results.with_name("other.jsonl")))
    short = replace(running, time_limit=1.5)
    outcome = reproduce([long, next_one], seeds=1, running=short)
    assert (outcome.written, outcome.left, outcome.failed) == (0, 2, [])
    folder = model_folder(long, 0, running)
    first = trained.newest_checkpoint(folder)
    assert first is not None
    assert reproduce([long, next_one], seeds=1, running=short).left == 2
    second = trained.newest_checkpoint(folder)
    assert second is not None
    assert int(second.name.split("-")[1]) > int(first.name.split("-")[1])
    assert not running.results.exists()


def test_the_seconds_of_a_training_are_those_of_all_its_parts(running: Running) -> None:
    (recipe,) = smoked(table2_budgetformer("imdb"))
    assert recipe.training is not None
    recipe = replace(recipe, training=replace(recipe.training, epochs=8))
    reproduce([recipe], seeds=1, running=replace(running, time_limit=0.8))
    spent = model_folder(recipe, 0, running) / "checkpoints" / trained.SPENT
    noted = json.loads(spent.read_text(encoding="utf-8"))
    assert noted["energy"]["joules"] > 0
    noted["seconds"] = 1000
    noted["energy"] |= {"joules": 5e6, "seconds": 1000}
    spent.write_text(json.dumps(noted), encoding="utf-8")
    told = spent.with_name("run.json")
    kept = told.read_text()
    told.write_text(kept.replace('"processes": 1', '"processes": 2'))
    assert "number of processes was 2" in reproduce([recipe], seeds=1, running=running).failed[0][1]
    told.write_text(kept)
    reproduce([recipe], seeds=1, running=running)
    (row,) = read_rows(running.results)
    assert row["training_seconds"] > 1000
    assert 5e6 < row["training_energy"]["joules"] < 5.1e6
    assert row["training_energy"]["seconds"] > 1000
    assert row["resumed"] is True


def test_the_energy_of_a_training_is_that_of_all_its_parts_or_not_known() -> None:
    counted = {"kind": "measured", "joules": 10.0, "grams": 1.0, "watts": 5.0, "seconds": 2.0, "how": "a counter"}
    guessed = counted | {"kind": "estimated", "how": "assumed"}
    unknown = dict.fromkeys(counted) | {"kind": "not measured"}
    assert trained.whole_energy({"seconds": 0.0}, counted, resumed=False) == counted
    both = trained.whole_energy({"seconds": 2.0, "energy": guessed}, counted, resumed=True)
    assert both == counted | {"kind": "estimated", "joules": 20.0, "grams": 2.0, "seconds": 4.0}
    for before in (None, {"seconds": 2.0}, {"seconds": 2.0, "energy": None}, {"seconds": 2.0, "energy": unknown}):
        assert trained.whole_energy(before, counted, resumed=True) is None


def test_ctrl_c_keeps_finished_rows_and_the_same_call_goes_on(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = smoked(table2_tfidf("ag_news"), table2_tfidf("imdb"))
    run_row = runs.run_row

    def stopped(recipe: Recipe, **rest: object) -> None:
        if recipe.data.name == "imdb":
            raise KeyboardInterrupt
        run_row(recipe, **rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(runs, "run_row", stopped)
        with pytest.raises(KeyboardInterrupt):
            reproduce([first, second], seeds=1, running=running)
    assert [row["data"] for row in read_rows(running.results)] == ["ag_news"]
    again = reproduce([first, second], seeds=1, running=running)
    assert (again.written, again.skipped) == (1, 1)


def test_missing_data_end_it_before_anything_is_written(running: Running, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"labels\.txt"):
        reproduce(
            smoked(*experiments(["imdb"])["table2"]),
            seeds=1,
            running=replace(running, data_folder=tmp_path / "elsewhere"),
        )
    assert not running.work.exists()
    assert not running.results.exists()


def test_budgets_of_every_test_row_are_written_on_request(running: Running, tmp_path: Path) -> None:
    reproduce(smoked(table2_budgetformer("imdb")), seeds=1, running=replace(running, keep_budgets=tmp_path / "budgets"))
    (file,) = (tmp_path / "budgets").iterdir()
    assert file.name == "table2-imdb-budgetformer-smoke-seed0.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        found = list(csv.DictReader(lines))
    assert list(found[0]) == ["row", "label", "predicted", "correct", "layer0", "layer1"]
    (row,) = read_rows(running.results)
    (drawn,) = (running.work / "rows").glob("imdb-*/test.jsonl")
    assert [(int(one["row"]), one["label"]) for one in found] == [
        (number, json.loads(line)["label"]) for number, line in enumerate(drawn.read_text("utf-8").splitlines())
    ]
    assert [one["correct"] == "1" for one in found] == [one["label"] == one["predicted"] for one in found]
    assert sum(one["correct"] == "1" for one in found) / len(found) == row["accuracy"]
    assert 0 < sum(one["correct"] == "1" for one in found) < len(found)
    mean = sum(float(one["layer0"]) + float(one["layer1"]) for one in found) / (2 * len(found))
    assert mean == pytest.approx(row["mean_budget"], abs=1e-4)


def test_budgets_of_a_row_that_is_there_are_written_from_its_model(running: Running, tmp_path: Path) -> None:
    recipes = smoked(table2_budgetformer("imdb"), table2_transformer("imdb"), table2_tfidf("imdb"))
    reproduce(recipes, seeds=1, running=running)
    asked = replace(running, keep_budgets=tmp_path / "budgets")
    outcome = reproduce(recipes, seeds=1, running=asked)
    assert (outcome.written, outcome.skipped, outcome.no_budgets) == (0, 3, 0)
    assert [path.name for path in (tmp_path / "budgets").iterdir()] == ["table2-imdb-budgetformer-smoke-seed0.csv"]
    assert len(read_rows(running.results)) == 3
    (tmp_path / "budgets" / "table2-imdb-budgetformer-smoke-seed0.csv").unlink()
    shutil.rmtree(running.work / "models")
    assert reproduce(recipes, seeds=1, running=asked).no_budgets == 1


def test_a_model_of_other_rows_is_not_asked(running: Running, tmp_path: Path) -> None:
    recipes = smoked(table2_budgetformer("imdb"))
    reproduce(recipes, seeds=1, running=running)
    running.results.unlink()
    assert running.data_folder is not None
    shutil.rmtree(running.work / "rows")
    other = tmp_path / "other"
    shutil.copytree(running.data_folder / "imdb", other / "imdb")
    train = other / "imdb" / "train.jsonl"
    train.write_text(train.read_text().replace("river", "bank"))
    outcome = reproduce(recipes, seeds=1, running=replace(running, data_folder=other))
    assert (outcome.written, outcome.mistakes) == (0, 1)
    assert "was trained on other rows than" in outcome.failed[0][1]
    assert not running.results.exists()


def test_a_training_is_not_gone_on_with_on_other_rows(running: Running) -> None:
    (recipe,) = smoked(table2_budgetformer("imdb"))
    assert recipe.training is not None
    recipe = replace(recipe, training=replace(recipe.training, epochs=2000))
    short = replace(running, time_limit=1.5)
    assert reproduce([recipe], seeds=1, running=short).left == 1
    assert running.data_folder is not None
    source = running.data_folder / "imdb" / "train.jsonl"
    source.write_text(source.read_text(encoding="utf-8").replace("river", "bank"), encoding="utf-8")
    outcome = reproduce([recipe], seeds=1, running=short)
    folder = model_folder(recipe, 0, running)
    assert (len(outcome.failed), outcome.mistakes) == (1, 1)
    assert f"the training in {folder} was begun on other rows than" in outcome.failed[0][1]
    shutil.rmtree(folder)
    assert reproduce([recipe], seeds=1, running=short).left == 1


def test_a_training_that_another_run_holds_is_left_as_it_is(running: Running) -> None:
    (recipe,) = smoked(table2_budgetformer("imdb"))
    folder = model_folder(recipe, 0, running)
    (folder / "checkpoints").mkdir(parents=True)
    with alone_in(folder):
        outcome = reproduce([recipe], seeds=1, running=running)
    assert "another run is writing there" in outcome.failed[0][1]
    assert list((folder / "checkpoints").iterdir()) == []


def test_budgets_that_cannot_be_written_do_not_end_the_others(
    running: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good, new = smoked(table2_budgetformer("imdb"), table2_budgetformer("ag_news"), table2_tfidf("imdb"))
    reproduce([bad, good], seeds=1, running=running)
    notes = model_folder(bad, 0, running) / "measured.json"
    notes.write_text(json.dumps(json.loads(notes.read_text()) | {"trained_on": "other rows"}))
    asked = replace(running, keep_budgets=tmp_path / "budgets")
    outcome = reproduce([bad, good, new], seeds=1, running=asked)
    assert (outcome.written, outcome.skipped, outcome.left, outcome.mistakes) == (1, 2, 0, 1)
    ((name, reason),) = outcome.failed
    assert name == "budgets of table2/imdb/budgetformer, seed 0"
    assert "was trained on other rows than" in reason
    assert f"failed: {name}: " in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "budgets").iterdir()] == ["table2-ag_news-budgetformer-smoke-seed0.csv"]


def test_no_budgets_of_old_rows_are_begun_when_the_time_is_over(running: Running, tmp_path: Path) -> None:
    recipes = smoked(table2_budgetformer("imdb"), table2_tfidf("imdb"))
    reproduce(recipes, seeds=1, running=running)
    asked = replace(running, keep_budgets=tmp_path / "budgets")
    outcome = reproduce(recipes, seeds=1, running=replace(asked, time_limit=1e-9))
    assert (outcome.skipped, outcome.budgets_left, outcome.left, outcome.failed) == (2, 1, 0, [])
    assert not (tmp_path / "budgets").exists()
    assert reproduce(recipes, seeds=1, running=asked).budgets_left == 0
    assert len(list((tmp_path / "budgets").iterdir())) == 1


def test_a_row_of_another_commit_is_not_the_one_that_was_asked_for(running: Running) -> None:
    recipes = smoked(table2_tfidf("imdb"))
    reproduce(recipes, seeds=1, running=running)
    assert [row.done for row in plan(recipes, seeds=1, running=running)] == [True]
    asked = replace(running, revisions={"imdb": "abc"})
    assert [row.done for row in plan(recipes, seeds=1, running=asked)] == [False]
    text = running.results.read_text()
    running.results.write_text(text.replace('"revision": null', '"revision": "abc"'))
    assert [row.done for row in plan(recipes, seeds=1, running=asked)] == [True]


def test_what_an_unfinished_training_needs_goes_when_it_is_finished_after_all(running: Running) -> None:
    """Killed between the last update and the removal of the checkpoints."""
    recipes = smoked(table2_budgetformer("imdb"))
    reproduce(recipes, seeds=1, running=running)
    (model,) = (running.work / "models" / "smoke").iterdir()
    (model / "checkpoints").mkdir()
    running.results.unlink()
    assert reproduce(recipes, seeds=1, running=running).written == 1
    assert not (model / "checkpoints").exists()
    (model / "training.json").write_text("")
    running.results.unlink()
    ((_, reason),) = reproduce(recipes, seeds=1, running=running).failed
    assert "training.json is damaged: delete the folder" in reason


def test_the_smallest_share_of_the_smallest_scale_runs(running: Running) -> None:
    outcome = reproduce(smoked(table6("dbpedia14", 0.1)), seeds=1, running=running)
    assert (outcome.written, outcome.failed) == (1, [])


def test_texts_that_share_no_word_are_a_mistake(running: Running, tmp_path: Path) -> None:
    own = tmp_path / "own" / "imdb"
    own.mkdir(parents=True)
    (own / "labels.txt").write_text("neg\npos\n")
    for split in ("train", "test"):
        rows = (json.dumps({"text": f"{split}word{i}", "label": i % 2}) for i in range(40))
        (own / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    outcome = reproduce(smoked(table2_tfidf("imdb")), seeds=1, running=replace(running, data_folder=own.parent))
    assert outcome.mistakes == 1
    assert "TF-IDF counts words that at least 2 training texts have" in outcome.failed[0][1]
