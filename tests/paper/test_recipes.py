"""Recipes: complete, at the sizes of their scale, and the figures of the paper that they carry are consistent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from budgetformer.metering.carbon import paper_grams
from budgetformer.metering.macs import paper_macs
from budgetformer.reporting.results import read_rows
from budgetformer_paper.printed import DATA
from budgetformer_paper.recipe import Recipe
from budgetformer_paper.recipes import (
    experiments,
    table2_budgetformer,
    table2_transformer,
    table3_adaptive,
    table3_asked,
    table4_random,
    table5,
    table6,
)
from budgetformer_paper.scales import SCALES, cpu, cpu_small, expected_seconds, paper, smoke

ALL = [recipe for recipes in experiments().values() for recipe in recipes]


def test_names_are_given_once_and_every_row_is_another_one() -> None:
    assert len({recipe.label for recipe in ALL}) == len(ALL)
    for recipes in experiments().values():
        assert len({recipe.row_digest() for recipe in recipes if recipe.training}) == sum(
            recipe.training is not None for recipe in recipes
        )


@pytest.mark.parametrize("scale", SCALES)
def test_every_recipe_is_a_model_that_can_be_built_at_every_scale(scale: str) -> None:
    for recipe in map(SCALES[scale], ALL):
        assert recipe.scale == scale
        assert expected_seconds(recipe) > 0
        if recipe.training is not None:
            recipe.model_config().check()


@pytest.mark.parametrize("name", DATA)
def test_the_printed_cost_of_table_2_comes_out_of_the_recipe(name: str) -> None:
    for recipe in (table2_transformer(name), table2_budgetformer(name)):
        config, printed = recipe.model_config(), recipe.printed
        assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (768, 4, 8)
        assert recipe.training is not None
        macs = paper_macs(
            config, length=recipe.training.max_length, rows=DATA[name].test_rows, budget=printed.mean_budget
        )
        assert macs == pytest.approx(printed.macs, rel=0.003)
        assert paper_grams(macs) == pytest.approx(printed.grams, abs=0.00015, rel=0.001)


def test_a_variant_changes_one_thing() -> None:
    budgeted, dense = table2_budgetformer("imdb"), table2_transformer("imdb")
    assert dense.training is not None
    assert budgeted.training is not None
    assert replace(dense.training, config=budgeted.training.config) == budgeted.training
    assert dense.training.config == budgeted.training.config | {"budgeted": False}


def test_rows_that_only_ask_share_the_model_of_table_2() -> None:
    model = table2_budgetformer("snli").training_digest()
    for recipe in (table3_adaptive("snli"), table3_asked("snli", 0.5, rescale_gates=True), table4_random("snli")):
        assert recipe.training_digest() == model
    assert table6("snli", 1.0).training_digest() == model
    assert table6("snli", 0.5).training_digest() != model


def test_the_rows_of_table_5_have_one_width_at_every_scale() -> None:
    for scale, expected in (("paper", 768), ("cpu", 120), ("smoke", 48)):
        shapes = [SCALES[scale](table5("imdb", *shape)) for shape in ((4, 8), (4, 12), (12, 12))]
        assert {recipe.model_config().hidden_size for recipe in shapes} == {expected}


def test_a_scale_changes_sizes_and_not_the_method() -> None:
    def method(recipe: Recipe) -> dict[str, object]:
        sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size", "max_position_embeddings")
        return {k: v for k, v in recipe.model_config().to_dict().items() if k not in sizes}

    whole = table2_budgetformer("imdb")
    assert method(smoke(whole)) == method(cpu_small(whole)) == method(cpu(whole)) == method(paper(whole))
    assert paper(whole).training == whole.training


def test_the_seed_is_no_part_of_the_digest() -> None:
    recipe = table2_budgetformer("imdb")
    assert recipe.training is not None
    other = replace(recipe, training=replace(recipe.training, seed=4))
    assert other.row_digest() == recipe.row_digest()


def test_an_ablation_changes_what_its_name_says() -> None:
    by_name = {recipe.name.split("/")[1]: recipe for recipe in experiments(["imdb"])["ablations"]}
    whole = by_name["all"].model_config()
    for name, field, value in (
        ("tau-floored", "tau_floored", True),
        ("beta-to-zero", "beta_end", 0.0),
        ("alpha-constant", "alpha_base", whole.alpha_max),
        ("unit-gates", "selection", "straight_through"),
        ("min-heads-0", "min_heads", 0),
    ):
        changed = by_name[name].model_config()
        assert {k for k, v in changed.to_dict().items() if v != whole.to_dict()[k]} == {field}
        assert getattr(changed, field) == value
    for name in ("soft-inference", "min-heads-0-asked"):
        assert by_name[name].training_digest() == by_name["all"].training_digest()


def test_a_new_question_does_not_rename_old_rows() -> None:
    assert table2_budgetformer("imdb").ask.said() == {}
    assert table3_asked("imdb", 0.5).ask.said() == {"budget": 0.5}


def test_at_the_papers_scale_the_rows_are_those_of_the_official_splits() -> None:
    part = paper(table2_budgetformer("snli")).data
    assert (part.whole, part.least_train, part.least_test) == (True, 549_367, 9_824)
    assert not SCALES["paper-shape"](table2_budgetformer("snli")).data.whole


def test_rows_that_the_project_holds_are_those_of_todays_recipes() -> None:
    """A new setting that changes nothing must not have every row measured again: name it in ``recipe.FREE``."""
    file = Path(__file__).parents[2] / "results/reproduction.jsonl"
    rows = [row for row in read_rows(file) if row["scale"] == "cpu-small"]
    today = {recipe.label: cpu_small(recipe).row_digest() for recipe in ALL}
    assert len(rows) > 50
    assert [row["recipe"] for row in rows if row["digest"] != today[row["recipe"]]] == []
