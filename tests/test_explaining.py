"""``explain``: the numbers are those of an ordinary call, and the maps are what the heads compute."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from budgetformer import Classifier, Explanation, Pair, explain
from budgetformer.baselines import random_policy
from budgetformer.data.encoding import collate
from budgetformer.execution.int8 import unsupported
from budgetformer.explanation import by_relevance

from .model_folders import make_folder

TEXT = "the film was good and the chair it was bad"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("explain") / "model", segments=True)


def loaded(folder: Path, **options: Any) -> Classifier:
    return Classifier.from_pretrained(folder, device="cpu", **options)


def made(tmp_path: Path, **changes: Any) -> Classifier:
    return loaded(make_folder(tmp_path / "model", **changes))


def outputs(classifier: Classifier, text: str | Pair, **request: Any) -> Any:
    batch = collate(classifier.encode([text]), pad_token_id=classifier.config.pad_token_id)
    with torch.inference_mode():
        return classifier.model(
            **batch, **request, output_budgets=True, output_attentions=True, output_hidden_states=True
        )


@pytest.mark.parametrize("execution", ["packed", "reference"])
@pytest.mark.parametrize("item", [TEXT, Pair(TEXT, "it was a door")])
def test_heads_that_ran_have_the_maps_of_the_answer_and_the_others_maps_of_their_own(
    folder: Path, execution: str, item: str | Pair
) -> None:
    classifier = loaded(folder, execution=execution)
    explained = explain(classifier, item, heads=4)
    output = outputs(classifier, item)
    assert 0 < explained.kept_LH.sum() < explained.kept_LH.size
    for layer, maps_BHNN in enumerate(output.attentions):
        for place, head in enumerate(explained.shown_LK[layer]):
            expected = maps_BHNN[0, head].numpy()
            found = explained.maps_LKNN[layer, place]
            if explained.kept_LH[layer, head]:
                np.testing.assert_allclose(found, expected, atol=1e-6)
            else:
                assert not expected.any()  # not computed for the answer
            np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_every_map_is_the_softmax_of_the_layers_own_queries_and_keys(tmp_path: Path, norm_position: str) -> None:
    classifier = made(tmp_path, norm_position=norm_position)
    explained = explain(classifier, TEXT, heads=4)
    states = outputs(classifier, TEXT).hidden_states
    for index, layer in enumerate(classifier.model.budgetformer.layers):
        x_ND = states[index][0]
        with torch.inference_mode():
            x_ND = layer.attention_norm(x_ND) if norm_position == "pre" else x_ND
            qkv = layer.attention.qkv(x_ND).view(len(x_ND), 4, 3, 8)
            scores_HNN = torch.einsum("nhd,mhd->hnm", qkv[:, :, 0], qkv[:, :, 1]) / math.sqrt(8)
            maps_HNN = torch.softmax(scores_HNN, dim=-1).numpy()
        np.testing.assert_allclose(explained.maps_LKNN[index], maps_HNN[explained.shown_LK[index]], atol=1e-5)


@pytest.mark.parametrize("request_", [{}, {"budget": 0.25}, {"max_budget": 0.5}, {"policy": random_policy(3)}])
def test_answer_budgets_and_heads_are_those_of_a_call(folder: Path, request_: dict[str, Any]) -> None:
    classifier = loaded(folder)
    explained = explain(classifier, TEXT, **request_)
    answer = classifier(TEXT, **request_, details=True)
    assert explained.prediction.scores == answer.scores
    assert explained.kept_LH.sum(axis=1).tolist() == answer.heads
    assert answer.kept is not None
    assert (explained.kept_LH == answer.kept).all()
    np.testing.assert_allclose(explained.relevance_LH, answer.relevance, atol=1e-6)
    np.testing.assert_allclose(explained.budget_L, answer.budgets, atol=1e-6)
    assert ((explained.gates_LH != 0) == explained.kept_LH).all()
    assert explained.maps_LKNN.shape == (2, 4, answer.tokens, answer.tokens)


def test_heads_are_ranked_as_the_model_ranks_them() -> None:
    kept_LH = np.array([[False, True, False, True], [False, False, False, True]])
    relevance_LH = np.array([[0.1, 0.2, 0.0, 0.7], [0.0, 0.0, 0.0, 1.0]])
    assert by_relevance(kept_LH, relevance_LH).tolist() == [[3, 1, 0, 2], [3, 0, 1, 2]]
    underflow = np.array([[0.0, 0.0, 0.0, 1.0]])  # heads 2 and 3 ran, though p of 2 was rounded to 0
    assert by_relevance(np.array([[False, False, True, True]]), underflow).tolist() == [[3, 2, 0, 1]]
    assert by_relevance(np.ones((1, 3), dtype=bool), None).tolist() == [[0, 1, 2]]


def test_entropies_are_those_of_the_maps(folder: Path) -> None:
    explained = explain(loaded(folder), TEXT, heads=4)
    maps = explained.maps_LKNN.astype(np.float64)
    expected_LK = -(maps * np.log(maps)).sum(axis=-1).mean(axis=-1)
    np.testing.assert_allclose(explained.entropy_by_rank_LH, expected_LK, atol=1e-4)
    assert explained.highest_entropy == pytest.approx(math.log(len(explained.tokens)))
    assert (explained.as_share(explained.entropy_LH) <= 1 + 1e-6).all()
    kept, other = explained.entropy_LH[explained.kept_LH], explained.entropy_LH[~explained.kept_LH]
    assert explained.mean_entropy(kept=True) == pytest.approx(kept.mean())
    assert explained.mean_entropy(kept=False) == pytest.approx(other.mean())
    one = explained.entropy_LH[1][explained.kept_LH[1]]
    assert explained.mean_entropy(kept=True, layer=1) == pytest.approx(one.mean())


def test_full_attention_has_no_relevance_and_every_head_ran(tmp_path: Path) -> None:
    explained = explain(made(tmp_path, budgeted=False), TEXT, heads=2)
    assert explained.relevance_LH is None
    assert explained.budget_L is None
    assert explained.kept_LH.all()
    assert explained.shown_LK.tolist() == [[0, 1], [0, 1]]
    assert math.isnan(explained.mean_entropy(kept=False))
    numbers(explained)


def test_layers_that_keep_no_head_are_explained_too(tmp_path: Path) -> None:
    explained = explain(made(tmp_path, min_heads=0), TEXT, budget=0.1)
    assert not explained.kept_LH.any()
    assert numbers(explained)["entropy"]["nats"]["kept"] is None
    np.testing.assert_allclose(explained.maps_LKNN.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_other_number_formats_have_maps(folder: Path, precision: str) -> None:
    if precision == "int8" and (reason := unsupported(torch.device("cpu"))):
        pytest.skip(reason)
    explained = explain(loaded(folder, precision=precision), TEXT)
    np.testing.assert_allclose(explained.maps_LKNN.sum(axis=-1), 1, atol=0.02)
    assert np.isfinite(explained.entropy_LH).all()


@pytest.mark.parametrize(
    "text", ["", " \u200b\n", "x" * 5000, "نص عربي שלום", "👩‍👩‍👧 😀", "\ud800", "<b>&[SEP]</b>\0"]
)
def test_any_text_can_be_explained(folder: Path, text: str) -> None:
    explained = explain(loaded(folder), text)
    found = numbers(explained)
    assert len(found["tokens"]) == explained.prediction.tokens == explained.maps_LKNN.shape[-1] <= 32
    assert all(found["tokens"])


def test_the_numbers_for_json_are_all_there(folder: Path) -> None:
    explained = explain(loaded(folder), Pair(TEXT, "a door"), heads=3)
    found = numbers(explained)
    assert found["pair"] == "a door"
    assert found["tokens"][0] == "[CLS]"
    assert found["tokens"].count("[SEP]") == 2
    assert found["label"] == explained.prediction.label
    for layer, row in enumerate(found["layers"]):
        assert [head["head"] for head in row["heads"]] == explained.order_LH[layer].tolist()
        assert sum(head["kept"] for head in row["heads"]) == row["heads_kept"]
        assert sum("map" in head for head in row["heads"]) == 3
        assert sum(head["relevance"] for head in row["heads"]) == pytest.approx(1, abs=1e-4)
        assert row["entropy"]["nats"]["by_rank"] == [head["entropy"] for head in row["heads"]]
    mean = np.mean([row["entropy"]["nats"]["by_rank"] for row in found["layers"]], axis=0)
    np.testing.assert_allclose(found["entropy"]["nats"]["by_rank"], mean, atol=1e-5)
    assert found["entropy"]["share"]["kept"] == pytest.approx(
        found["entropy"]["nats"]["kept"] / math.log(len(explained.tokens)), abs=1e-5
    )


def test_what_cannot_be_explained_is_refused(folder: Path, tmp_path: Path) -> None:
    classifier = loaded(folder)
    for wrong in (["a text"], ("a", "b"), None, 3):
        with pytest.raises(ValueError, match="one text or Pair"):
            explain(classifier, wrong)  # type: ignore[arg-type]
    for heads in (0, 5, -1, True, 1.5):
        with pytest.raises(ValueError, match="heads must be a whole number from 1 to 4"):
            explain(classifier, TEXT, heads=heads)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="budget must be one number"):
        explain(classifier, TEXT, budget=2)
    with pytest.raises(ValueError, match="no layers"):
        explain(made(tmp_path, num_hidden_layers=0), TEXT)


def numbers(explained: Explanation) -> dict[str, Any]:
    """As they come back from JSON without NaN."""
    return json.loads(json.dumps(explained.to_dict(), allow_nan=False))
