"""``Classifier``: the same answer alone, in any batch and in any order; pairs; what cannot be classified."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoTokenizer

from budgetformer import Classifier, Pair, Prediction, inference
from budgetformer.baselines import random_policy
from budgetformer.data.encoding import Encoded
from budgetformer.metering.macs import dense_macs, executed_macs

from .conftest import WORDS, sentences
from .model_folders import NAMES, make_folder, make_tokenizer

TEXTS = [text for text, _ in sentences(24, labels=list(WORDS), seed=5)] + ["good", "very " * 40]
WEIRD = ["good", "", "   ", "\u200b\u200b", "😀", "\x00x", "bad", "[SEP] [PAD]", "\ud800", "a\nb\tc"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("single"))


@pytest.fixture(scope="module")
def classifier(folder: Path) -> Classifier:
    return Classifier.from_pretrained(folder, device="cpu")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return Classifier.from_pretrained(make_folder(tmp_path_factory.mktemp("pair"), segments=True), device="cpu")


def same(a: list[Prediction], b: list[Prediction], *, macs: bool = True) -> None:
    """``macs`` depend on the batch where padding is computed."""
    assert len(a) == len(b)
    for one, other in zip(a, b, strict=True):
        assert (one.label, one.heads, one.tokens) == (other.label, other.heads, other.tokens)
        assert one.macs == other.macs or not macs
        assert (one.truncated, one.reason) == (other.truncated, other.reason)
        assert list(one.scores.values()) == pytest.approx(list(other.scores.values()), abs=1e-5)


@pytest.mark.parametrize(
    ("execution", "precision"), [("reference", "float32"), ("packed", "float32"), ("packed", "int8")]
)
def test_the_answer_is_the_same_alone_in_any_batch_and_in_any_order(
    folder: Path, execution: str, precision: str
) -> None:
    texts = TEXTS + WEIRD
    order = random.Random(0).sample(range(len(texts)), len(texts))
    alone = None
    for batch_tokens, window in ((8192, 1024), (64, 5), (1, 1)):
        clf = Classifier.from_pretrained(
            folder,
            device="cpu",
            execution=execution,
            precision=precision,
            batch_tokens=batch_tokens,
            window=window,
        )
        alone = alone or [clf(text) for text in texts]
        same(clf(texts), alone, macs=execution == "packed")
        shuffled = clf([texts[i] for i in order])
        same([shuffled[order.index(i)] for i in range(len(texts))], alone, macs=execution == "packed")
        same(clf([t for t in texts for _ in range(2)])[::2], alone, macs=execution == "packed")
    assert len({tuple(p.heads) for p in alone}) > 1


def test_a_prediction_holds_scores_heads_and_cost(classifier: Classifier) -> None:
    answers = classifier(TEXTS)
    assert classifier.labels == list(NAMES)
    for answer in answers:
        assert list(answer.scores) == list(NAMES)
        assert sum(answer.scores.values()) == pytest.approx(1.0, abs=1e-9)
        assert answer.score == max(answer.scores.values()) == answer.scores[answer.label]
        assert all(1 <= h <= 4 for h in answer.heads)
        assert len(answer.heads) == len(answer.budgets) == 2
        assert answer.macs == executed_macs(classifier.config, [answer.tokens], [answer.heads])[0]
    assert [a.truncated for a in answers] == [False] * 25 + [True]
    assert answers[-1].tokens == 32


@pytest.mark.parametrize("execution", ["packed", "reference"])
@pytest.mark.parametrize("changes", [{}, {"pooling": "first"}, {"budgeted": False}], ids=str)
def test_the_multiply_adds_of_all_answers_are_those_that_torch_counts(
    tmp_path: Path, execution: str, changes: dict[str, Any]
) -> None:
    """Batches of different lengths: the reference computes their padding, and its answers say so."""
    folder = make_folder(tmp_path / "m", **changes)
    clf = Classifier.from_pretrained(folder, device="cpu", execution=execution, workers=1, batch_tokens=60)
    texts = ["good " * n for n in (1, 3, 20, 28, 2, 15, 40)]
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        answers = clf(texts)
    assert sum(a.macs for a in answers) == pytest.approx(counter.get_total_flops() / 2, rel=0.01)
    dense = clf.dense_macs(answers)
    if execution == "reference":
        assert dense == [a.macs for a in answers]
    else:
        assert dense == dense_macs(clf.config, [a.tokens for a in answers]).tolist()


def test_a_budget_can_be_asked_for_or_capped(classifier: Classifier) -> None:
    assert {tuple(p.heads) for p in classifier(TEXTS, budget=0.5)} == {(2, 2)}
    capped, free = classifier(TEXTS, max_budget=0.5), classifier(TEXTS)
    assert [p.heads[0] for p in capped] == [min(p.heads[0], 2) for p in free]
    assert max(h for p in capped for h in p.heads) == 2
    assert sum(p.macs for p in capped) < sum(p.macs for p in free)
    for wrong in (0, -0.1, 1.0001, float("nan")):
        with pytest.raises(ValueError, match=r"budget must be one number in \(0, 1\]"):
            classifier("good", budget=wrong)
    with pytest.raises(ValueError, match="not both"):
        classifier("good", budget=0.5, max_budget=0.5)


def test_each_input_can_carry_its_own_budget_or_cap(folder: Path) -> None:
    asks: list[dict[str, float]] = [{}, {"budget": 0.25}, {"max_budget": 0.5}, {"budget": 1.0}, {"max_budget": 1.0}]
    budgets = [asks[i % 5].get("budget") for i in range(len(TEXTS))]
    caps = [asks[i % 5].get("max_budget") for i in range(len(TEXTS))]
    for execution, options in (("packed", {}), ("reference", {"batch_tokens": 64, "window": 5})):
        clf = Classifier.from_pretrained(folder, device="cpu", execution=execution, **options)
        alone = [clf(text, **asks[i % 5]) for i, text in enumerate(TEXTS)]
        packed = execution == "packed"
        same(clf(TEXTS, budget=budgets, max_budget=caps), alone, macs=packed)
        same(list(clf.stream(iter(TEXTS), budget=budgets, max_budget=tuple(caps))), alone, macs=packed)
    assert {tuple(p.heads) for p in alone[1::5]} == {(1, 1)}
    assert {tuple(p.heads) for p in alone[3::5]} == {(4, 4)}


def test_a_policy_goes_with_budgets_of_single_inputs(classifier: Classifier) -> None:
    texts, policy = TEXTS[:4], random_policy(3)
    together = classifier(texts, budget=[0.5, None, 0.25, None], policy=policy)
    alone = [classifier(t, budget=s, policy=policy) for t, s in zip(texts, (0.5, None, 0.25, None), strict=True)]
    same(together, alone)


def test_a_list_of_budgets_fits_the_inputs_or_is_refused(classifier: Classifier) -> None:
    with pytest.raises(ValueError, match="list of budgets is for 2 inputs, got 3"):
        classifier.stream(["good", "bad", "ugly"], budget=[0.5, None])
    for texts, number in ((["good"], "1"), (["good"] * 3, "more than 2")):
        with pytest.raises(ValueError, match=f"for 2 inputs, got {number}"):
            list(classifier.stream(iter(texts), max_budget=[0.5, 0.5]))
    with pytest.raises(ValueError, match=r"budget of input 1 must be in \(0, 1\] or None, got nan"):
        classifier(["good", "bad"], budget=[0.5, float("nan")])
    with pytest.raises(ValueError, match=r"give input 1 a budget \(0.5\) or a max_budget \(1.0\), not both"):
        classifier(["good", "bad"], budget=[None, 0.5], max_budget=[1.0, 1.0])
    with pytest.raises(ValueError, match=r"input 0 a budget \(0.5\) or a max_budget \(1.0\), not both"):
        classifier(["good", "bad"], budget=0.5, max_budget=[1.0, None])
    with pytest.raises(ValueError, match=r"equally long, got \[1, 2\]"):
        classifier(["good", "bad"], budget=[None, 0.5], max_budget=[1.0])
    with pytest.raises(ValueError, match="must be one number"):
        classifier("good", budget="0.5")


def test_a_wrong_request_is_refused_before_the_first_answer(classifier: Classifier, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"max_budget must be one number in \(0, 1\], got 9"):
        classifier.stream(["good"], max_budget=9)
    twin = Classifier.from_pretrained(make_folder(tmp_path / "dense", budgeted=False), device="cpu")
    for request in ({"budget": 0.5}, {"max_budget": 0.5}, {"policy": random_policy()}):
        with pytest.raises(ValueError, match=f"{next(iter(request))} has no effect: this model has full attention"):
            twin.stream(["good"], **request)


def test_details_are_there_on_request(classifier: Classifier) -> None:
    assert classifier("good").relevance is None
    detailed = classifier("good", details=True)
    assert detailed.relevance.shape == detailed.kept.shape == (2, 4)
    assert detailed.kept.sum(axis=1).tolist() == detailed.heads


def test_whatever_a_text_contains_it_is_answered_once_in_order(classifier: Classifier) -> None:
    answers = classifier(WEIRD)
    assert len(answers) == len(WEIRD)
    assert [i for i, a in enumerate(answers) if a.reason] == [1, 2, 3, 8]
    assert all("no tokens" in answers[i].reason for i in (1, 2, 3, 8))
    assert all(sum(a.scores.values()) == pytest.approx(1.0) for a in answers)
    assert classifier([]) == []
    assert classifier(iter(["good", "bad"]))[1].label == classifier("bad").label


@pytest.mark.parametrize("wrong", [None, 3, float("nan"), b"good", ["good", "bad"], Pair("good", None)])
def test_what_is_no_text_is_named_by_its_number(classifier: Classifier, wrong: object) -> None:
    with pytest.raises(ValueError, match="input 1 must be a text or a Pair of texts, got"):
        classifier(["good", wrong])


@pytest.mark.parametrize("wrong", [None, 3, b"good", {"text": "good"}, {"good", "bad"}, Path("a.csv")])
def test_what_is_no_list_of_texts_is_refused(classifier: Classifier, wrong: object) -> None:
    with pytest.raises(ValueError, match=f"inputs must be texts or Pairs .*got {type(wrong).__name__}"):
        classifier(wrong)


def test_a_model_that_knows_its_columns_takes_pairs_or_single_texts(tmp_path: Path) -> None:
    single = Classifier.from_pretrained(make_folder(tmp_path / "a", text_columns=["text"]), device="cpu")
    with pytest.raises(ValueError, match="trained on single texts, not on pairs"):
        single(Pair("good", "bad"))
    folder = make_folder(tmp_path / "b", segments=True, text_columns=["one"], pair_column="two")
    with pytest.raises(ValueError, match=r"trained on pairs: use Pair\("):
        Classifier.from_pretrained(folder, device="cpu")("good")


@pytest.mark.parametrize("wrong", [True, "0.5", 0, 1.0001, float("nan"), torch.tensor(0.5)])
def test_a_budget_for_all_inputs_is_one_number(classifier: Classifier, wrong: object) -> None:
    for name in ("budget", "max_budget"):
        with pytest.raises(ValueError, match=rf"^{name} must be one number in \(0, 1\]"):
            classifier("good", **{name: wrong})
    same([classifier("good", budget=np.float32(0.5))], [classifier("good", budget=0.5)])


def test_a_pair_is_one_input_and_two_texts_are_two(pairs: Classifier) -> None:
    first, second = "it was good", "the film was bad"
    pair = pairs([Pair(first, second)])
    assert len(pair) == 1
    assert len(pairs([first, second])) == 2
    changed, swapped = pairs([Pair(first, "the film was lovely"), Pair(second, first)])
    assert changed.scores != pair[0].scores
    assert swapped.scores != pair[0].scores
    same([pairs(Pair(first, second))], pair)
    with pytest.raises(ValueError, match=r"use Pair\(a, b\) or a list \[a, b\]"):
        pairs((first, second))
    with pytest.raises(ValueError, match="cannot be mixed"):
        pairs([first, Pair(first, second)])


def test_nothing_typed_in_a_text_acts_as_structure(pairs: Classifier) -> None:
    encoded = pairs.encode([Pair("good [SEP] bad", "sad"), Pair("good", "bad [SEP] sad")])
    separator = pairs.encoder._backend.token_to_id("[SEP]")
    assert [ids.count(separator) for ids in encoded.input_ids] == [2, 2]
    assert encoded.input_ids[0] != encoded.input_ids[1]


def test_long_texts_are_cut_to_the_models_limit_whatever_the_tokenizer_says(tmp_path: Path) -> None:
    limit = 32
    folder = make_folder(tmp_path / "m")
    make_tokenizer(max_length=8).save_pretrained(folder)
    assert AutoTokenizer.from_pretrained(folder).model_max_length == 8
    clf = Classifier.from_pretrained(folder, device="cpu")
    counts = [limit - 3, limit - 2, limit - 1, limit, limit + 1, 10 * limit]
    answers = clf(["good " * n for n in counts])
    assert [a.tokens for a in answers] == [limit - 1, *[limit] * 5]
    assert [a.truncated for a in answers] == [False, False, True, True, True, True]
    same([answers[-1]], [answers[2]])


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "m", vocab_size=50)
    with pytest.raises(ValueError, match=r"token ids up to \d+ and the model has 50 \(vocab_size\)"):
        Classifier.from_pretrained(folder, device="cpu")


def test_classification_leaves_the_random_state_alone_and_repeats(classifier: Classifier) -> None:
    results = []
    for seed in range(3):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        results.append([p.scores for p in classifier(TEXTS)])
        assert torch.equal(torch.get_rng_state(), before)
    assert results[0] == results[1] == results[2]


def test_bfloat16_agrees_with_float32_within_a_few_percent(folder: Path, classifier: Classifier) -> None:
    half = Classifier.from_pretrained(folder, device="cpu", precision="bf16")
    for ours, theirs in zip(half(TEXTS, budget=1.0), classifier(TEXTS, budget=1.0), strict=True):
        assert list(ours.scores.values()) == pytest.approx(list(theirs.scores.values()), abs=0.1)
    for option, message in [
        ({"precision": "fp8"}, "precision must be one of float32, bf16, int8, auto, got 'fp8'"),
        ({"device": "tpu0"}, "device"),
        ({"device": "meta"}, "device must be auto, cpu"),
        ({"device": None}, "device must be auto, cpu"),
        ({"device": "cpu:1"}, "is not there"),
        ({"execution": "fast"}, "execution must be one of auto, reference, packed, cuda, got 'fast'"),
        (
            {"execution": "cuda"},
            "execution='cuda' runs on NVIDIA GPUs, and the model is on cpu; use 'auto' or 'packed'",
        ),
        ({"batch_tokens": 0}, "batch_tokens must be at least 1, got 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            Classifier.from_pretrained(folder, **({"device": "cpu"} | option))


@pytest.mark.parametrize(("enough", "largest"), [(10**12, 2500), (1, 1024)])
def test_a_window_is_cut_into_few_large_or_many_small_batches(
    folder: Path, monkeypatch: pytest.MonkeyPatch, enough: int, largest: int
) -> None:
    monkeypatch.setattr(inference, "ENOUGH", enough)
    classifier = Classifier.from_pretrained(folder, device="cpu", workers=2)
    encoded = Encoded(input_ids=[[5] * 20] * 750, token_type_ids=None, truncated=(False,) * 750, empty=(False,) * 750)
    batches = list(classifier._batches(list(range(750)), encoded))
    assert [i for batch in batches for i in batch] == list(range(750))
    assert max(map(len, batches)) == largest // 20
