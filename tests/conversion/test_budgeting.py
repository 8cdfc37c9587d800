"""Budgets of a pretrained model: kept accuracy with fewer heads, two phases, going on, and what is refused."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from safetensors.torch import load_file

from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification, Classifier
from budgetformer.conversion import budget_classifier, convert, to_transformers, train_from
from budgetformer.conversion.budgeting import BUDGET_BIAS, begin_budgets, start_of, warm_config
from budgetformer.conversion.importance import head_importance
from budgetformer.conversion.source import load_source
from budgetformer.data.bbc_news import load_bbc_news
from budgetformer.data.encoding import Encoded
from budgetformer.training.phases import BEGUN
from budgetformer.training.start import TEACHER

from ..cli.commands import texts, write_csv
from ..data.tokenizers_at_hand import minilm
from .sources import LABELS, write_source

FAST: dict[str, Any] = {"device": "cpu", "quiet": True, "batch_size": 16}
STEADY = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("data") / "train.csv", texts(240))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A small BERT classifier that has learned the task, as ``transformers`` keeps it."""
    folder = tmp_path_factory.mktemp("classifier")
    source = write_source(folder / "random", "bert", **STEADY)
    dense = {"epochs": 6, "learning_rate": 2e-3, "config": {"budgeted": False}}
    result = train_from(source, train=data, output=folder / "trained", **dense, **FAST)
    assert result.metrics["accuracy"] > 0.95
    to_transformers(folder / "trained", output=folder / "learned")
    return folder / "learned"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("encoder") / "source", "bert", "Model")


def test_a_classifier_keeps_its_accuracy_with_half_of_its_heads(classifier: Path, data: Path, tmp_path: Path) -> None:
    result = budget_classifier(
        classifier,
        train=data,
        output=tmp_path / "out",
        epochs=6,
        learning_rate=1e-3,
        gate_learning_rate=1e-2,
        config={"s_max": 0.6},
        **FAST,
    )
    assert result.metrics["accuracy"] > 0.9
    assert result.metrics["mean_heads"] <= 2.5
    assert 0.07 <= result.metrics["mean_budget"] <= 0.61
    budgets = [row["mean_budget"] for row in result.history if "task_loss" in row]
    assert budgets[0] == pytest.approx(torch.tensor(BUDGET_BIAS).sigmoid().item(), abs=1e-3)
    assert any(row.get("distillation_loss", 0.0) > 0 for row in result.history)
    made = Classifier.from_pretrained(tmp_path / "out", device="cpu")
    assert made.model.config.id2label == dict(enumerate(LABELS))
    assert made(["money back charge"])[0].label == "refund"
    taught = BudgetFormerForSequenceClassification.from_pretrained(tmp_path / "out" / "checkpoints" / TEACHER)
    convert(classifier, output=tmp_path / "plain")
    plain = load_file(tmp_path / "plain" / "model.safetensors")
    assert all(torch.equal(tensor, plain[name]) for name, tensor in taught.state_dict().items())


def test_the_budgets_begin_ranked_by_importance(classifier: Path) -> None:
    model = start_of(load_source(str(classifier))).model({})
    rows, labels = [[2, 5, 9, 3], [2, 7, 3], [2, 11, 12, 13, 3]], [0, 1, 2]
    none = (False,) * 3
    importance_LH = head_importance(model, Encoded(input_ids=rows, truncated=none, empty=none), labels)
    begin_budgets(model, datasets.Dataset.from_dict({"input_ids": rows, "labels": labels}))
    out = model(torch.tensor([[2, 5, 3]]), output_budgets=True)
    assert out.heads.tolist() == [[3, 3, 3]]  # ⌊.95 · 4⌋
    order = out.relevance[0].argsort(dim=-1, descending=True)
    assert torch.equal(order, importance_LH.argsort(dim=-1, descending=True))


def test_an_encoder_is_tuned_with_all_heads_and_then_budgeted(encoder: Path, data: Path, tmp_path: Path) -> None:
    result = train_from(encoder, train=data, output=tmp_path / "out", epochs=3, eval_steps=7, warmup=0.0, **FAST)
    history = [row for row in result.history if "task_loss" in row]
    assert [row["mean_heads"] for row in history[:14]] == [4.0] * 14
    assert all(row["mean_heads"] < 4 for row in history[14:])
    assert [row["distillation_loss"] > 0 for row in history if "distillation_loss" in row] == [True] * 28
    rates = [row["learning_rate"] for row in history]
    assert rates[0] == rates[14] == pytest.approx(1e-4)
    assert rates[13] == pytest.approx(1e-4 / 14)
    scores = [row["eval_score"] for row in result.history if "eval_score" in row]
    assert max(scores[:1]) < -0.9  # all heads are no result
    config = Classifier.from_pretrained(tmp_path / "out", device="cpu").model.config
    assert (config.alpha_base, config.alpha_max) == (pytest.approx(20 / 3), pytest.approx(20 / 3))
    assert (config.sigma_max, config.s_max_start, config.ceiling_until, config.distillation) == (0.1, 1.0, 0.4, 1.0)
    assert config.attention_probs_dropout_prob == 0.0
    assert set(config.id2label.values()) == set(LABELS)


@pytest.mark.parametrize("stopped", [5, 6, 8])
def test_going_on_in_either_phase_repeats_the_whole_run(
    encoder: Path, data: Path, tmp_path: Path, stopped: int
) -> None:
    """Budgets begin before update 6: a run stopped earlier, just there, and later."""
    settings: dict[str, Any] = {"train": data, "max_steps": 10, "eval_steps": stopped, "dense_share": 0.6} | FAST
    whole = train_from(encoder, output=tmp_path / "run", **settings)
    weights = load_file(tmp_path / "run" / "model.safetensors")
    checkpoints = tmp_path / "run" / "checkpoints"
    for folder in checkpoints.glob("checkpoint-*"):
        if folder.name != f"checkpoint-{stopped}":
            shutil.rmtree(folder)
    if stopped <= 6:
        shutil.rmtree(checkpoints / TEACHER)
        (checkpoints / BEGUN).unlink()
    resumed = train_from(encoder, output=tmp_path / "run", resume=True, **settings)
    names = ("step", "task_loss", "learning_rate", "mean_budget", "distillation_loss")
    first, second = (
        [[row.get(name, 0.0) for name in names] for row in run.history if "task_loss" in row and row["step"] > stopped]
        for run in (whole, resumed)
    )
    assert len(first) == 10 - stopped
    for one, other in zip(first, second, strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    again = load_file(tmp_path / "run" / "model.safetensors")
    assert all((tensor - again[name]).abs().max() <= 1e-6 for name, tensor in weights.items())
    assert (checkpoints / BEGUN).is_file()


def test_settings_that_do_not_fit_are_refused_and_nothing_is_written(
    classifier: Path, data: Path, tmp_path: Path
) -> None:
    for changes, said in (
        ({"preset": "tiny"}, "preset has no effect with a pretrained model"),
        ({"max_length": 500}, "max_length must be at most 48"),
        ({"config": {"selection": "soft"}}, "selection must be straight_through"),
        ({"config": {"s_max": 2}}, "s_max must lie in"),
        ({"config": {"budgeted": False}, "dense_share": 0.5}, "dense_share has no effect with full attention"),
    ):
        with pytest.raises(ValueError, match=said):
            train_from(classifier, train=data, output=tmp_path / "out", **(FAST | changes))
        assert not (tmp_path / "out").exists()


def test_one_end_of_the_interval_moves_the_other_out_of_its_way() -> None:
    for told, interval in (
        ({}, (0.25, 0.35)),
        ({"s_max": 0.2}, (0.2, 0.2)),
        ({"s_max": 0.5}, (0.25, 0.5)),
        ({"s_min": 0.5}, (0.5, 0.5)),
        ({"s_min": 0.1, "s_max": 0.9}, (0.1, 0.9)),
    ):
        fields = warm_config(told, layers=2)
        assert (fields["s_min"], fields["s_max"]) == interval
        assert BudgetFormerConfig(**fields).s_max == interval[1]


@pytest.mark.slow
def test_minilm_learns_real_articles_with_a_third_of_its_heads(tmp_path: Path) -> None:
    """The weights and the articles that pip brings; 240 short texts, so accuracy is far from what the data allow."""
    articles = load_bbc_news()
    for name, part, most in (("train", articles.train, 240), ("test", articles.test, 100)):
        some = part.shuffle(seed=0).select(range(most)).to_dict()
        with (tmp_path / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *zip(some["text"], some["label"], strict=True)])
    result = train_from(
        minilm().name_or_path,
        train=tmp_path / "train.csv",
        validation=tmp_path / "test.csv",
        output=tmp_path / "out",
        max_length=32,
        epochs=3,
        **(FAST | {"batch_size": 8}),
    )
    evaluations = [row for row in result.history if "eval_accuracy" in row]
    dense, last = evaluations[0], evaluations[-1]
    assert dense["eval_mean_heads"] == 12
    assert dense["eval_accuracy"] > 0.6
    assert last["eval_accuracy"] > dense["eval_accuracy"] - 0.03
    assert last["eval_mean_heads"] < 4.5
