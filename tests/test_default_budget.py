"""The budget of a folder for calls that name none: who follows it, and what overrides it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from transformers import pipeline

from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification, Classifier
from budgetformer.agreement import agreement
from budgetformer.bench import bench
from budgetformer.bench.candidates import BenchSettings, ours
from budgetformer.evaluation import evaluate
from budgetformer.explaining import explain
from budgetformer.exporting import export_hub, export_onnx
from budgetformer.method import random_policy
from budgetformer.serving.shedding import Shedder

from .conftest import WORDS, sentences
from .exporting.onnx_at_hand import Runtime
from .exporting.varied import varied_folder
from .model_folders import NAMES

TEXTS = [text for text, _ in sentences(16, labels=list(WORDS), seed=4)]
HALF = 4
"""Heads of a layer at the default, of 8."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A varied model of 8 heads whose default budget is half of them."""
    folder = varied_folder(tmp_path_factory.mktemp("runs") / "model")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"default_budget": 0.5}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def classifier(folder: Path) -> Classifier:
    return Classifier.from_pretrained(folder, device="cpu")


def heads(answers: Any) -> set[int]:
    return {h for answer in answers for h in answer.heads}


def test_a_call_without_a_budget_gets_the_default_and_any_other_what_it_asks_for(classifier: Classifier) -> None:
    assert heads(classifier(TEXTS)) == {HALF}
    assert heads(classifier(TEXTS, budget=1.0)) == {8}
    assert heads(classifier(TEXTS, budget=0.25)) == {2}
    own = classifier(TEXTS, max_budget=1.0)
    assert len(heads(own)) > 3
    capped = classifier(TEXTS, max_budget=0.25)
    assert [a.heads[0] for a in capped] == [min(a.heads[0], 2) for a in own]
    assert [a.budgets[0] for a in classifier(TEXTS)] == [a.budgets[0] for a in own]  # what was learned is still told
    assert heads(classifier(TEXTS, policy=random_policy(1))) == {HALF}


def test_among_inputs_with_budgets_of_their_own_the_others_get_the_default(classifier: Classifier) -> None:
    three = TEXTS[:3]
    own = classifier(three, max_budget=1.0)
    assert [set(a.heads) for a in classifier(three, budget=[0.25, None, 1.0])] == [{2}, {HALF}, {8}]
    mixed = classifier(three, max_budget=[None, 1.0, 0.125])
    assert [set(mixed[0].heads), mixed[1].heads, set(mixed[2].heads)] == [{HALF}, own[1].heads, {1}]
    both = classifier(three, budget=[None, 0.25, None], max_budget=[None, None, 1.0])
    assert [set(both[0].heads), set(both[1].heads), both[2].heads] == [{HALF}, {2}, own[2].heads]


def test_figures_explanations_and_agreement_follow_it(folder: Path, classifier: Classifier) -> None:
    rows = datasets.Dataset.from_dict({"text": TEXTS, "label": [i % 3 for i in range(len(TEXTS))]})
    figures = evaluate(classifier, rows).figures
    assert (figures["mean_heads"], figures["mean_budget"], figures["default_budget"]) == (HALF, 0.5, 0.5)
    free = evaluate(classifier, rows, max_budget=1.0).figures
    assert (free["default_budget"], free["budget"]) == (None, None)
    assert free["mean_heads"] != HALF
    assert explain(classifier, TEXTS[0]).kept_LH.sum(axis=1).tolist() == [HALF] * 2
    other = Classifier.from_pretrained(folder, device="cpu", precision="bf16")
    assert agreement(other, classifier, rows)["heads"] > 0.8


def test_the_plain_model_and_a_pipeline_follow_it_and_training_does_not(folder: Path, classifier: Classifier) -> None:
    model = BudgetFormerForSequenceClassification.from_pretrained(folder)
    batch = classifier.tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        asked = {"default": {}, "all": {"budget": 1.0}, "own": {"max_budget": torch.ones(len(TEXTS))}}
        kept = {name: model(**batch, **ask, output_budgets=True).heads for name, ask in asked.items()}
    assert set(kept["default"].flatten().tolist()) == {HALF}
    assert set(kept["all"].flatten().tolist()) == {8}
    assert len(set(kept["own"].flatten().tolist())) > 3
    trained = model.train()(**batch, labels=torch.zeros(len(TEXTS), dtype=torch.long), output_budgets=True)
    assert len(set(trained.heads.flatten().tolist())) > 3
    answers = pipeline("text-classification", model=str(folder), device="cpu")(TEXTS)
    for given, expected in zip(answers, classifier(TEXTS), strict=True):
        assert given["label"] == expected.label
        assert given["score"] == pytest.approx(expected.score, abs=1e-5)


def test_exported_files_and_folders_follow_it(folder: Path, classifier: Classifier, tmp_path: Path) -> None:
    done = export_onnx(folder, tmp_path / "model.onnx")
    runtime = Runtime(done.file)
    assert set(runtime.run(**runtime.encode(TEXTS))["heads"].flatten().tolist()) == {HALF}
    for scores, answer in zip(runtime.scores(TEXTS), classifier(TEXTS), strict=True):
        assert scores == pytest.approx(answer.scores, abs=1e-4)
    assert runtime.said["default_budget"] == "0.5"
    hub = export_hub(folder, tmp_path / "hub").folder
    assert json.loads((hub / "config.json").read_text(encoding="utf-8"))["default_budget"] == 0.5


def test_a_loaded_server_never_gives_more_than_the_default() -> None:
    shedder = Shedder(cap=0.25, at=0.5)
    shedder.watch(1.0)
    for default, given in ((None, (None, 0.25, 0.25)), (0.125, (None, None, None)), (0.5, (0.25, None, 0.25))):
        shedder.default = default
        answer = shedder.tightened(None, None)
        assert (answer.budget, answer.max_budget, answer.shed) == given
    assert shedder.tightened(None, 0.5).max_budget == 0.25
    assert shedder.tightened(None, 0.125).shed is None


def test_a_bench_measures_the_default_beside_the_own_budgets(classifier: Classifier) -> None:
    found = {c.name: c for c in ours({"float32": classifier}, BenchSettings(against=()))}
    assert heads(found["default budget 0.5"].answer(TEXTS)) == {HALF}
    assert len(heads(found["own budgets"].answer(TEXTS))) > 3


def test_a_bench_holds_own_and_default_budgets_against_the_reference_asked_alike(folder: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(folder, tmp_path / "model"))
    config = json.loads((copied / "config.json").read_text(encoding="utf-8"))
    (copied / "config.json").write_text(json.dumps(config | {"default_budget": 0.125}), encoding="utf-8")
    one = Classifier.from_pretrained(copied, device="cpu")
    labels = [[answer.label for answer in one(TEXTS, **ask)] for ask in ({}, {"max_budget": 1.0})]
    assert labels[0] != labels[1]
    settings = BenchSettings(against=("dense",), heads=(8,), rounds=1, warmup=1, latency_texts=0)
    rows = {row.name: row.labels_equal for row in bench({"float32": one}, TEXTS, settings).rows}
    assert len(rows) == 4
    assert set(rows.values()) == {1.0}, rows


@pytest.mark.parametrize("value", [0, -0.5, 1.5, float("nan"), True, "0.5"])
def test_what_is_no_share_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"default_budget must be None or lie in \(0, 1\]"):
        BudgetFormerConfig(default_budget=value)


def test_full_attention_has_no_default(classifier: Classifier) -> None:
    with pytest.raises(ValueError, match="default_budget must be None when budgeted is False"):
        BudgetFormerConfig(default_budget=0.5, budgeted=False)
    assert classifier.config.dense_twin().default_budget is None
    assert classifier.labels == list(NAMES)
