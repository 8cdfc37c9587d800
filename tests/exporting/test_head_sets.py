"""A fixed set of heads: how it is chosen, and that cutting the others out changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from budgetformer import Classifier
from budgetformer.exporting import HeadSets, measure_head_sets
from budgetformer.exporting.fixed_heads import with_fixed_heads

from ..conftest import WORDS, sentences
from ..model_folders import make_folder

TEXTS = [text for text, _ in sentences(30, labels=list(WORDS))]
RANKINGS = ((3, 1, 0, 2), (0, 1, 2, 3), (2, 0, 3, 1))


def sets(*, budget: float = 0.5, heads: int = 2) -> HeadSets:
    return HeadSets(budget=budget, heads=heads, rankings=RANKINGS, texts=1, same_labels=1.0)


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    """Seven inputs of up to 21 tokens, one of them without real tokens."""
    torch.manual_seed(1)
    lengths_B = torch.tensor([21, 1, 5, 0, 13, 20, 2])
    mask_BN = torch.arange(21) < lengths_B.unsqueeze(-1)
    return {"input_ids": torch.randint(1, 120, (7, 21)), "attention_mask": mask_BN.long()}


@pytest.mark.parametrize(
    ("changes", "fixed"),
    [
        ({}, sets()),
        ({}, sets(budget=1.0, heads=4)),
        ({"min_heads": 0}, sets(budget=0.2, heads=0)),
        ({"selection": "soft"}, sets()),
        ({"selection": "soft", "fixed_budget": 0.75, "norm_position": "pre"}, sets(budget=0.25, heads=1)),
        ({"pooling": "first", "position_embedding_type": "learned", "type_vocab_size": 2}, sets()),
    ],
    ids=str,
)
@torch.inference_mode()
def test_a_model_without_the_other_heads_answers_as_the_static_policy(
    small_model: Any, batch: dict[str, torch.Tensor], changes: dict[str, Any], fixed: HeadSets
) -> None:
    model = small_model(**changes, initializer_range=0.1)
    asked = model(**batch, budget=fixed.budget, policy=fixed.policies(), output_budgets=True)
    assert asked.heads.unique().tolist() == [fixed.heads]
    kept = [tuple(row.nonzero().squeeze(-1).tolist()) for row in asked.kept[0]]
    assert kept == list(fixed.kept)
    model.set_execution("reference")
    cut = with_fixed_heads(model, fixed)
    assert torch.allclose(cut(**batch).logits, asked.logits, atol=1e-5)
    if changes.get("selection") != "soft":
        own = model(**batch).logits
        assert (own - asked.logits).abs().max() > 1e-3
    parameters = [sum(p.numel() for p in m.budgetformer.layers.parameters()) for m in (cut, model)]
    assert parameters[0] < parameters[1]


def test_heads_are_ranked_by_how_many_texts_keep_them(tmp_path: Path) -> None:
    classifier = Classifier.from_pretrained(make_folder(tmp_path / "m"), device="cpu")
    found = measure_head_sets(classifier, TEXTS, budget=0.5)
    answers = classifier(TEXTS, budget=0.5, details=True)
    assert found.heads == 2
    assert found.texts == 30
    for layer, ranking in enumerate(found.rankings):
        assert sorted(ranking) == [0, 1, 2, 3]
        use = [sum(int(answer.kept[layer][h]) for answer in answers if answer.kept is not None) for h in ranking]
        assert use == sorted(use, reverse=True)
        assert found.kept[layer] == tuple(sorted(ranking[:2]))
    own, fixed = classifier(TEXTS), classifier(TEXTS, budget=0.5, policy=found.policies())
    same = [a.label == b.label for a, b in zip(own, fixed, strict=True)]
    assert found.same_labels == pytest.approx(sum(same) / 30)


def test_of_equal_heads_the_lower_index_comes_first(tmp_path: Path) -> None:
    classifier = Classifier.from_pretrained(make_folder(tmp_path / "m"), device="cpu")
    for name, parameter in classifier.model.named_parameters():
        if "relevance_net" in name:
            parameter.data.zero_()
    found = measure_head_sets(classifier, TEXTS, budget=0.25)
    assert found.rankings == ((0, 1, 2, 3),) * 2
    assert found.same_labels == sum(
        a.label == b.label for a, b in zip(classifier(TEXTS), classifier(TEXTS, budget=0.25), strict=True)
    ) / len(TEXTS)


def test_what_cannot_have_fixed_heads_is_refused(tmp_path: Path, small_model: Any) -> None:
    dense = Classifier.from_pretrained(make_folder(tmp_path / "dense", budgeted=False), device="cpu")
    with pytest.raises(ValueError, match="this model has full attention"):
        measure_head_sets(dense, TEXTS, budget=0.5)
    classifier = Classifier.from_pretrained(make_folder(tmp_path / "m"), device="cpu")
    with pytest.raises(ValueError, match="give at least one"):
        measure_head_sets(classifier, [], budget=0.5)
    with pytest.raises(ValueError, match=r"budget must be one number in \(0, 1\], got 1.5"):
        measure_head_sets(classifier, TEXTS, budget=1.5)
    with pytest.raises(ValueError, match=r"one per layer \(2\), got 3"):
        classifier(TEXTS, policy=sets().policies())
    with pytest.raises(ValueError, match="policy must be a function"):
        classifier(TEXTS, policy=[])
