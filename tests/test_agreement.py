"""How far another number format is from float32."""

from __future__ import annotations

from pathlib import Path

import datasets
import pytest

from budgetformer import Classifier
from budgetformer.agreement import agreement

from .conftest import WORDS, sentences
from .model_folders import make_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def rows() -> datasets.Dataset:
    return datasets.Dataset.from_dict({"text": [text for text, _ in sentences(40, labels=list(WORDS), seed=3)]})


def test_a_model_agrees_with_itself_completely(folder: Path, rows: datasets.Dataset) -> None:
    one, other = (Classifier.from_pretrained(folder, device="cpu") for _ in range(2))
    found = agreement(one, other, rows)
    same = {"labels": 1.0, "heads": 1.0, "head_sets": 1.0, "score_difference": 0.0}
    assert found == same | {"accuracy_float32": None}


def test_the_accuracy_in_float32_is_that_of_the_rows_with_a_label(folder: Path, rows: datasets.Dataset) -> None:
    exact, other = (Classifier.from_pretrained(folder, device="cpu", precision=p) for p in ("float32", "bf16"))
    places = {name: i for i, name in enumerate(exact.labels)}
    labels = [places[answer.label] for answer in exact(rows["text"])]
    labels[:20] = [(label + 1) % 3 for label in labels[:20]]
    labels[10:30] = [-100] * 20
    labelled = rows.add_column("label", labels)
    assert agreement(other, exact, labelled)["accuracy_float32"] == 0.5
    unlabelled = rows.add_column("label", [-100] * 40)
    assert agreement(other, exact, unlabelled)["accuracy_float32"] is None


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_another_format_agrees_nearly_and_not_to_the_bit(folder: Path, rows: datasets.Dataset, precision: str) -> None:
    exact = Classifier.from_pretrained(folder, device="cpu")
    found = agreement(Classifier.from_pretrained(folder, device="cpu", precision=precision), exact, rows)
    assert found["labels"] >= 0.9
    assert found["heads"] >= 0.95
    assert found["heads"] >= found["head_sets"]
    assert 0 < found["score_difference"] < 0.5


def test_other_heads_are_counted(folder: Path, rows: datasets.Dataset) -> None:
    """Static choices of different heads: two of eight differ in each layer, so no set is equal."""
    from budgetformer.method import static_policy

    class Turned(Classifier):
        def stream(self, inputs, **request):  # type: ignore[no-untyped-def]
            heads = self.config.num_attention_heads
            return super().stream(inputs, **request | {"policy": static_policy([*range(1, heads), 0])})

    plain, turned = Classifier.from_pretrained(folder, device="cpu"), Turned.from_pretrained(folder, device="cpu")
    heads = plain.config.num_attention_heads
    found = agreement(turned, plain, rows, budget=1 / heads, policy=static_policy(list(range(heads))))
    assert found["heads"] == pytest.approx(1 - 2 / heads)
    assert found["head_sets"] == 0


def test_full_attention_has_no_heads_to_compare(tmp_path: Path, rows: datasets.Dataset) -> None:
    folder = make_folder(tmp_path, budgeted=False)
    one, other = (Classifier.from_pretrained(folder, device="cpu", precision=p) for p in ("bf16", "float32"))
    assert agreement(one, other, rows)["heads"] == 1.0


def test_no_rows_are_refused(folder: Path) -> None:
    clf = Classifier.from_pretrained(folder, device="cpu")
    with pytest.raises(ValueError, match="no rows"):
        agreement(clf, clf, datasets.Dataset.from_dict({"text": []}))
