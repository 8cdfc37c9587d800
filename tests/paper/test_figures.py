"""Figures 1 to 3 from runs at the smoke scale to the report, and what their claims read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from budgetformer.reporting.results import read_rows
from budgetformer_paper.claims_of_figures import classes_and_layers, difficulty_rises, maps_are_sharper
from budgetformer_paper.figures import pictures
from budgetformer_paper.groups import by_class, by_difficulty
from budgetformer_paper.recipes import figure1, figure2, figure3, figure4, table2_budgetformer, table2_transformer
from budgetformer_paper.report import write
from budgetformer_paper.run import Running, model_folder, plan, reproduce
from budgetformer_paper.scales import smoke
from budgetformer_paper.summary import Summary
from budgetformer_paper.verdict import OPEN


def summary(**row: Any) -> Summary:
    return Summary(recipe="figure2/snli/difficulty", what="", scale="cpu", data="snli", rows=[{"seed": 0} | row])


def test_figures_share_the_models_of_table_2_and_end_in_the_report(running: Running, tmp_path: Path) -> None:
    recipes = [smoke(figure(name)) for figure, name in ((figure1, "snli"), (figure2, "snli"), (figure3, "snli"))]
    assert [row.trains for row in plan(recipes, seeds=1, running=running)] == [True, True, False]
    assert reproduce(recipes, seeds=1, running=running).written == 3
    models = {folder.name for folder in (running.work / "models" / "smoke").iterdir()}
    tabled = (smoke(table2_budgetformer("snli")), smoke(table2_transformer("snli")))
    assert models == {model_folder(recipe, 0, running).name for recipe in tabled}
    rows = read_rows(running.results)
    assert all(0 <= entry["accuracy"] <= 1 for entry in rows[0]["curves"]["training"])
    thirds = rows[1]["budget_by_difficulty"]["loss of the Transformer"]
    assert sum(group["rows"] for group in thirds.values()) == 32
    assert set(rows[2]["entropy_by_class"]) == {"entailment", "neutral", "contradiction"}
    written = write(rows, tmp_path / "report")
    assert written.html.read_text(encoding="utf-8").count("<figure") == 3
    pictures = sorted(file.name for file in written.markdown.parent.glob("*.png"))
    assert pictures == ["picture-1.png", "picture-2.png", "picture-3.png"]
    assert all(name in written.markdown.read_text(encoding="utf-8") for name in pictures)


@pytest.mark.parametrize("logged", [True, False])
def test_figure_1_has_the_accuracy_in_training_where_a_row_has_it(logged: bool) -> None:
    training = [{"epoch": e, "mean_budget": 0.5} | ({"accuracy": 0.3 * e} if logged else {}) for e in (1, 2, 3)]
    curves = {"training": training, "validation": [{"epoch": 3, "eval_mean_budget": 0.4, "eval_accuracy": 0.7}]}
    row = {"experiment": "figure1", "seed": 0, "curves": curves, "rows": {"validated_on": "its own rows"}}
    row["config"] = {"training": {"config": {}}}
    (picture,) = pictures([Summary(recipe="figure1/snli/curves", what="", scale="cpu", data="snli", rows=[row])])
    right = picture.figure.axes[1]
    drawn = [list(line.get_ydata()) for line in right.get_lines()]
    assert drawn == ([pytest.approx([0.3, 0.6, 0.9])] if logged else []) + [[0.7]]
    assert ("was not logged" in picture.caption) is not logged


def test_groups_are_what_they_say() -> None:
    budget_R, loss_R = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), np.array([0.0, 0.1, 1.0, 1.1, 2.0, 2.1])
    texts = ["a", "it isn't b", "a b c d e f", "a not b", "nothing here at all", "knot b"]
    groups = by_difficulty(budget_R, loss_R, texts)
    means = [group["mean"] for group in groups["loss of the Transformer"].values()]
    assert means == pytest.approx([0.15, 0.35, 0.55])
    assert groups["negation"]["with"]["rows"] == 3
    assert groups["length"]["long"]["mean"] == pytest.approx((0.3 + 0.5) / 2)
    classes = by_class(np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.5]]), np.array([0, 0, 2]), ["x", "y", "z"])
    assert set(classes) == {"x", "z"}
    assert classes["x"]["mean"] == pytest.approx([0.2, 0.3])
    assert classes["x"]["std"] == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize(
    ("means", "answer"), [((0.1, 0.2, 0.3), "held"), ((0.3, 0.2, 0.1), "failed"), ((0.1, 0.101, 0.102), OPEN)]
)
def test_a_rise_must_be_larger_than_chance(means: tuple[float, ...], answer: str) -> None:
    names = ("simple", "hard", "very hard")
    groups = {name: {"rows": 100, "mean": mean, "std": 0.1} for name, mean in zip(names, means, strict=True)}
    (verdict,) = difficulty_rises(summary(budget_by_difficulty={"loss of the Transformer": groups}))
    assert verdict.answer == answer


def test_order_of_classes_and_course_over_layers() -> None:
    budgets = {
        name: {"rows": 1000, "mean": [mean] * 3, "std": [0.1 * mean, 0.3 * mean, 0.2 * mean]}
        for name, mean in (("neutral", 0.5), ("contradiction", 0.4), ("entailment", 0.3))
    }
    entropies = {
        name: {"rows": 1000, "mean": [1.0, 0.5, 0.6], "std": [0.01] * 3}
        | ({"mean": [1.1, 0.6, 0.7]} if name == "entailment" else {})
        for name in budgets
    }
    found = {
        v.claim: v.answer for v in classes_and_layers(summary(budget_by_class=budgets, entropy_by_class=entropies))
    }
    assert found == {
        "mean budget: neutral > contradiction > entailment": "held",
        "spread of the budget: neutral > contradiction > entailment": "held",
        "entropy of the relevance: neutral > contradiction > entailment": "failed",
        "the spread of the budget peaks in middle layers": "held",
        "entropy falls with depth": "failed",
    }
    few, unsure = (
        {name: group | {"rows": 3} for name, group in groups.items()}
        for groups in (budgets, {name: group | {"std": [1.0] * 3} for name, group in entropies.items()})
    )
    found = {v.claim: v.answer for v in classes_and_layers(summary(budget_by_class=few, entropy_by_class=unsure))}
    assert found["spread of the budget: neutral > contradiction > entailment"] == OPEN
    assert found["the spread of the budget peaks in middle layers"] == OPEN
    assert found["entropy falls with depth"] == OPEN


@pytest.mark.parametrize(("mean", "answer"), [(0.2, "held"), (-0.2, "failed"), (0.01, OPEN)])
def test_sharper_maps_must_be_more_than_chance(mean: float, answer: str) -> None:
    entropy = {"rows": 64, "shown": 4, "lead": {"mean": mean, "std": 0.2}}
    (verdict,) = maps_are_sharper(summary(attention_entropy=entropy))
    assert verdict.answer == answer


def test_figure_4_has_the_papers_pair_and_the_entropy_of_heads_by_rank(running: Running, tmp_path: Path) -> None:
    recipes = [smoke(figure4())]
    assert recipes[0].training_digest() == smoke(table2_budgetformer("snli")).training_digest()
    assert reproduce(recipes, seeds=1, running=running).written == 1
    (row,) = read_rows(running.results)
    maps, entropy = row["attention_maps"], row["attention_entropy"]
    assert (maps["text"], maps["pair"]) == ("A man is playing guitar on a stage.", "A man is sleeping in a bed.")
    tokens = len(maps["tokens"])
    assert np.shape(maps["maps"]) == (2, 4, tokens, tokens)
    assert np.sum(maps["maps"], axis=-1) == pytest.approx(1, abs=0.03)
    relevance = np.take_along_axis(np.array(maps["relevance"]), np.array(maps["heads"]), axis=1)
    assert (np.diff(relevance, axis=1) <= 0).all()
    assert np.shape(entropy["by_rank"]) == (2, 8)
    lead = np.mean(entropy["by_rank"], axis=0)
    assert entropy["lead"]["mean"] == pytest.approx(lead[4:].mean() - lead[:4].mean(), abs=1e-6)
    written = write([row], tmp_path / "report")
    text = written.markdown.read_text(encoding="utf-8")
    assert len(list(tmp_path.glob("report/picture-*.png"))) == 2
    assert "Attention entropy in nats by relevance rank, mean over 32 test rows" in text
    assert "relevant heads have sharper maps" in text
    assert text.count("snli, scale smoke, seed 0") == 4  # two layers, two tables
