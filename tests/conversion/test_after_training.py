"""What a trained conversion says of its source, its default budget, and its way back to ``transformers``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSequenceClassification

from budgetformer import Classifier, to_transformers
from budgetformer.conversion import budget_classifier, train_from

from ..cli.commands import Here, texts, write_csv
from ..cli.conftest import here  # noqa: F401
from .sources import TEXTS, write_source

FAST: dict[str, Any] = {"device": "cpu", "quiet": True, "batch_size": 16, "max_steps": 4}
CARD = "---\nlanguage: en\nlicense: apache-2.0\n---\n# A classifier\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("data") / "train.csv", texts(60))


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """Of a BERT encoder, whose pooler the classifier of its class reads."""
    folder = tmp_path_factory.mktemp("tuned")
    source = write_source(folder / "encoder", "bert", "Model")
    train_from(source, train=data, output=folder / "out", **FAST)
    return folder / "out"


def test_the_card_names_the_source_its_licence_and_no_preset(data: Path, tmp_path: Path) -> None:
    source = write_source(tmp_path / "their-model", "bert")
    (source / "README.md").write_text(CARD, encoding="utf-8")
    budget_classifier(source, train=data, output=tmp_path / "out", target_accuracy_drop=99, **FAST)
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "\nlicense: apache-2.0\n" in card
    assert "The weights come from the BERT model `their-model` (`bert`), a text classifier" in card
    assert "Licence of the source: apache-2.0." in card
    assert "## At other budgets" in card
    record = json.loads((tmp_path / "out" / "training.json").read_text(encoding="utf-8"))
    assert record["settings"]["preset"] is None
    assert record["source"]["title"] == "their-model"
    assert str(tmp_path) not in card
    assert Classifier.from_pretrained(tmp_path / "out", device="cpu").config.default_budget == 0.25


def test_an_encoder_without_a_card_has_no_known_licence(tuned: Path) -> None:
    card = (tuned / "README.md").read_text(encoding="utf-8")
    assert "an encoder; the classifier on it was new" in card
    assert "Licence of the source: not stated in its card" in card
    assert "\nlicense:" not in card


def test_a_tuned_encoder_goes_back_as_a_classifier_of_transformers(tuned: Path, tmp_path: Path) -> None:
    to_transformers(tuned, output=tmp_path / "back")
    back = AutoModelForSequenceClassification.from_pretrained(tmp_path / "back")
    assert isinstance(back, transformers.BertForSequenceClassification)
    ours = Classifier.from_pretrained(tuned, device="cpu")
    assert [back.config.id2label[i] for i in range(3)] == ours.labels
    pipe = transformers.pipeline("text-classification", model=str(tmp_path / "back"), device="cpu")
    for given, expected in zip(pipe(TEXTS[1:3]), ours(TEXTS[1:3], budget=1.0), strict=True):
        assert given["label"] == expected.label
        assert given["score"] == pytest.approx(expected.score, abs=1e-4)


def test_a_tuned_encoder_goes_back_without_its_classifier(tuned: Path) -> None:
    back = to_transformers(tuned, encoder=True)
    assert isinstance(back, transformers.BertModel)
    tensor = load_file(tuned / "model.safetensors")["budgetformer.layers.0.intermediate.weight"]
    assert torch.equal(back.state_dict()["encoder.layer.0.intermediate.dense.weight"], tensor)


@pytest.mark.parametrize("family", ["roberta", "distilbert", "modernbert"])
def test_where_the_classifiers_class_reads_otherwise_the_encoder_goes_back(
    family: str, data: Path, tmp_path: Path
) -> None:
    source = write_source(tmp_path / "encoder", family, "Model")
    train_from(source, train=data, output=tmp_path / "out", **FAST)
    with pytest.raises(ValueError, match="cannot be taken back whole; encoder=True takes its encoder"):
        to_transformers(tmp_path / "out")
    to_transformers(tmp_path / "out", output=tmp_path / "back", encoder=True)
    back, before = AutoModel.from_pretrained(tmp_path / "back"), AutoModel.from_pretrained(source)
    assert type(back) is type(before)
    changed = [name for name, tensor in before.state_dict().items() if not torch.equal(back.state_dict()[name], tensor)]
    assert len(changed) > 5  # trained on
    ours = Classifier.from_pretrained(tmp_path / "out", device="cpu")
    batch = ours.tokenizer(TEXTS[1], return_tensors="pt")
    batch.pop("token_type_ids", None)
    with torch.inference_mode():
        theirs = back(**batch).last_hidden_state
        mine = ours.model.budgetformer(**batch, budget=1.0).last_hidden_state
    assert torch.allclose(theirs, mine, atol=1e-4)


def test_a_model_that_pools_as_its_sentence_encoder_did_goes_back_as_an_encoder(tuned: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tuned, tmp_path / "mean", ignore=shutil.ignore_patterns("checkpoints"))
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | {"pooling": "mean"}), encoding="utf-8")
    with pytest.raises(ValueError, match="has pooling 'first', and this model 'mean'"):
        to_transformers(folder)
    assert isinstance(to_transformers(folder, encoder=True), transformers.BertModel)


def test_a_target_that_cannot_be_is_refused_and_nothing_is_written(
    here: Here,  # noqa: F811
    data: Path,
    tmp_path: Path,
) -> None:
    source = write_source(tmp_path / "source", "bert")
    out = ("--output", tmp_path / "out")
    drop = ("--target-accuracy-drop", 0.5)
    less = write_csv(tmp_path / "less.csv", [("a text", "praise"), ("b text", "refund")] * 8)
    for command, said in (
        (("convert", source, "--data", data, "--target-accuracy-drop", -1), "in percentage points"),
        (("convert", source, *drop), "--target-accuracy-drop has no effect without --data"),
        (("convert", source, "--data", data, "--zero-shot", *drop), "--target-accuracy-drop has no effect with --zero"),
        (("convert", source, "--data", less, *drop), "rows of 2 of the classifier's 3 classes"),
        (("train", "--from", source, "--train", data, "--dense", *drop), "has no effect with --dense"),
        (("train", "--from", tmp_path / "none", "--train", data, *drop), "there is no folder"),
    ):
        assert said in here.mistake(*command, *out)
        assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="target_accuracy_drop has no effect with full attention"):
        train_from(source, train=data, output=tmp_path / "out", config={"budgeted": False}, target_accuracy_drop=1)
    assert not (tmp_path / "out").exists()
