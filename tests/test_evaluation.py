"""Measuring a classifier: figures by hand, rows without a label, mistakes, and the use of heads."""

from __future__ import annotations

from pathlib import Path

import datasets
import numpy as np
import pytest

from budgetformer import Classifier
from budgetformer.configuration import IGNORED
from budgetformer.evaluation import Mistake, evaluate
from budgetformer.metering.macs import dense_macs, executed_macs
from budgetformer.method import random_policy

from .conftest import WORDS, sentences
from .model_folders import NAMES, make_folder


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return Classifier.from_pretrained(make_folder(tmp_path_factory.mktemp("m")), device="cpu")


@pytest.fixture(scope="module")
def rows() -> datasets.Dataset:
    """24 texts, of which two have no label, one is empty and one too long."""
    pairs = [*sentences(22, labels=list(WORDS), seed=9), ("", "praise"), ("very " * 50, "refund")]
    labels = [NAMES.index(label) for _, label in pairs]
    labels[3] = labels[7] = IGNORED
    return datasets.Dataset.from_dict(
        {"text": [text for text, _ in pairs], "label": labels, "row": list(range(2, len(pairs) + 2))}
    )


def test_the_figures_are_those_of_the_answers(classifier: Classifier, rows: datasets.Dataset) -> None:
    mistakes: list[Mistake] = []
    result = evaluate(classifier, rows, on_mistake=mistakes.append, details=True)
    figures = result.figures
    known = [row for row in rows if row["label"] != IGNORED]
    answers = classifier([row["text"] for row in known])
    right = [a.label == NAMES[row["label"]] for a, row in zip(answers, known, strict=True)]
    assert figures["accuracy"] == pytest.approx(sum(right) / len(right))
    assert (figures["rows"], figures["rows_read"], figures["rows_without_label"]) == (22, 24, 2)
    assert (figures["truncated"], figures["without_tokens"]) == (1, 1)
    assert [m.row for m in mistakes] == [row["row"] for row, ok in zip(known, right, strict=True) if not ok]
    assert all(m.prediction.label != m.label for m in mistakes)
    heads = np.array([a.heads for a in answers])
    assert figures["heads_per_layer"] == pytest.approx(heads.mean(axis=0))
    assert figures["mean_heads"] == pytest.approx(heads.mean())
    assert figures["mean_budget"] == pytest.approx(np.mean([a.budgets for a in answers]), abs=1e-6)
    tokens = np.array([a.tokens for a in answers])
    assert figures["macs"] == pytest.approx(np.mean([a.macs for a in answers]))
    assert figures["macs"] == pytest.approx(executed_macs(classifier.config, tokens, heads).mean())
    assert figures["macs_dense"] == pytest.approx(dense_macs(classifier.config, tokens).mean())
    confusion = np.array(figures["confusion"])
    assert figures["labels"] == list(NAMES)
    assert confusion.sum() == 22
    assert confusion.trace() == sum(right)
    assert confusion.sum(axis=1).tolist() == [sum(row["label"] == c for row in known) for c in range(3)]
    use = result.heads
    assert use is not None
    assert use.budget_RL.shape == (22, 2)
    assert use.use_LH.sum(axis=1) == pytest.approx(heads.mean(axis=0))
    assert use.relevance_CLH.sum(axis=-1) == pytest.approx(np.ones((3, 2)), abs=1e-5)


def test_budgets_asked_for_show_in_heads_and_cost(classifier: Classifier, rows: datasets.Dataset) -> None:
    one, capped, free = (
        evaluate(classifier, rows, **asked).figures for asked in ({"budget": 0.25}, {"max_budget": 0.5}, {})
    )
    assert one["mean_heads"] == 1.0
    assert one["mean_budget"] == 0.25
    assert capped["mean_heads"] <= 2.0
    assert capped["mean_budget"] <= 0.5
    assert one["macs"] < capped["macs"] < free["macs"] < free["macs_dense"]
    assert one["macs_dense"] == free["macs_dense"]


def test_random_heads_are_as_many_but_others(classifier: Classifier, rows: datasets.Dataset) -> None:
    learned, random = (
        evaluate(classifier, rows, budget=0.25, policy=policy, details=True) for policy in (None, random_policy(seed=1))
    )
    assert random.figures["mean_heads"] == learned.figures["mean_heads"]
    assert not np.allclose(random.heads.use_LH, learned.heads.use_LH)


def test_full_attention_reports_all_heads(tmp_path: Path, rows: datasets.Dataset) -> None:
    dense = Classifier.from_pretrained(make_folder(tmp_path / "dense", budgeted=False), device="cpu")
    result = evaluate(dense, rows, details=True)
    assert result.heads is None
    assert result.figures["mean_heads"] == 4.0
    assert result.figures["mean_budget"] == 1.0
    assert result.figures["macs"] == result.figures["macs_dense"]
    with pytest.raises(ValueError, match="budget has no effect"):
        evaluate(dense, rows, budget=0.5)


def test_a_class_without_rows_and_a_part_with_one_class_are_fine(
    classifier: Classifier, rows: datasets.Dataset
) -> None:
    one = rows.filter(lambda row: row["label"] == 1, load_from_cache_file=False)
    result = evaluate(classifier, one, details=True)
    assert 0 <= result.figures["macro_f1"] <= 1
    assert np.isnan(result.heads.use_CLH[0]).all()
    assert np.isfinite(result.heads.use_CLH[1]).all()


def test_nothing_to_score_is_refused(classifier: Classifier, rows: datasets.Dataset) -> None:
    with pytest.raises(ValueError, match="none of the 1 rows has a label"):
        evaluate(classifier, rows.select([3]))
