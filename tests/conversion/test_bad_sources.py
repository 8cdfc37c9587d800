"""A source that cannot be converted is refused in one line that says why, and nothing is written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from budgetformer import convert
from budgetformer.cli import run

from ..conftest import sentences
from ..data.tokenizers_at_hand import wordpiece
from .sources import BERT, LABELS, change_config, random_model, tokenizer_of, write_source

WORKS = (
    "What works: encoders and sequence classifiers of BERT, RoBERTa, XLM-RoBERTa, DistilBERT, ELECTRA and ModernBERT"
)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("bert") / "source", "bert")


@pytest.fixture
def copy(bert: Path, tmp_path: Path) -> Path:
    return shutil.copytree(bert, tmp_path / "source")


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """Convert, expect a refusal that matches, and that nothing was written."""

    def check(source: str | Path, match: str, **options: Any) -> str:
        before = {p.name for p in tmp_path.iterdir()}
        with pytest.raises(ValueError, match=match) as caught:
            convert(source, output=tmp_path / "out", **options)
        assert {p.name for p in tmp_path.iterdir()} == before
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return check


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"model_type": "albert", "architectures": ["AlbertModel"]}, "its layers share one set of weights"),
        ({"model_type": "deberta-v2", "architectures": ["DebertaV2Model"]}, "its attention uses relative positions"),
        ({"model_type": "mpnet", "architectures": ["MPNetModel"]}, "its attention uses relative positions"),
        ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "it is a decoder or has one"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "it is a decoder or has one"),
        ({"model_type": "bert", "is_decoder": True}, "it is a decoder or has one"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "relative positions .position_embedding"),
        ({"model_type": "bert", "architectures": ["BertForQuestionAnswering"]}, "it is a BertForQuestionAnswering"),
        ({"model_type": "bert", "auto_map": {"AutoModel": "x.Y"}}, "code of its own"),
        ({"model_type": "bert", "quantization_config": {"bits": 4}}, "its weights are quantised"),
        ({"model_type": "perceiver"}, "models of this type are not known here"),
        ({}, "models of this type are not known here"),
        ({"model_type": "budgetformer"}, "it is a BudgetFormer already"),
    ],
    ids=lambda v: v if isinstance(v, str) else v.get("model_type", "none"),
)
def test_another_model_is_refused_by_name_with_what_works(
    tmp_path: Path, refused: Callable[..., str], config: dict[str, Any], why: str
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file({"x": torch.zeros(1)}, folder / "model.safetensors")
    said = refused(folder, why)
    assert WORKS in said
    assert repr(config.get("model_type")) in said


def test_a_real_deberta_is_refused(tmp_path: Path, refused: Callable[..., str]) -> None:
    config = transformers.DebertaV2Config(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    transformers.DebertaV2ForSequenceClassification(config).save_pretrained(tmp_path / "deberta")
    refused(tmp_path / "deberta", "'deberta-v2' cannot be converted: its attention uses relative positions")


def test_pickled_weights_are_refused_by_name_and_never_read(copy: Path, refused: Callable[..., str]) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(copy / "ran"),)

    (copy / "model.safetensors").unlink()
    torch.save({"x": Trap()}, copy / "pytorch_model.bin")
    said = refused(copy, "has its weights in pytorch_model.bin only, a format that can run code")
    assert "only safetensors are read" in said
    assert not (copy / "ran").exists()
    (copy / "pytorch_model.bin").unlink()
    refused(copy, "has no model.safetensors, so there are no weights")


def test_pickled_weights_beside_safetensors_are_not_read(copy: Path, tmp_path: Path) -> None:
    (copy / "pytorch_model.bin").write_bytes(b"no pickle")
    convert(copy, output=tmp_path / "out")


def test_a_missing_tokenizer_is_refused(tmp_path: Path, refused: Callable[..., str]) -> None:
    source = write_source(tmp_path / "source", "bert", with_tokenizer=False)
    refused(source, "has no tokenizer .tokenizer.json, vocab.txt")


def test_a_tokenizer_of_another_model_is_refused(copy: Path, refused: Callable[..., str]) -> None:
    tokenizer = wordpiece()
    tokenizer.add_tokens([f"word{i}" for i in range(300)])
    tokenizer.save_pretrained(copy)
    refused(copy, "the tokenizer gives token ids up to")


def test_what_is_no_model_is_refused(tmp_path: Path, refused: Callable[..., str], monkeypatch: Any) -> None:
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "holds no model: it has no config.json")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    refused(tmp_path / "file", "is a file; give the folder of a model")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    refused("no-one/no-such-model", "neither a folder nor a model that the hub or its local cache gave")
    (tmp_path / "empty" / "config.json").write_text("{", encoding="utf-8")
    refused(tmp_path / "empty", "config.json is not readable as a configuration")


@pytest.mark.parametrize("content", ["[]", "3", "null", '"x"'])
def test_a_configuration_that_is_no_object_is_refused(copy: Path, content: str, refused: Callable[..., str]) -> None:
    (copy / "config.json").write_text(content, encoding="utf-8")
    refused(copy, r"config.json (is not readable as a configuration|holds no JSON object)")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"problem_type": "multi_label_classification"}, "the problem type 'multi_label_classification'"),
        ({"problem_type": "regression"}, "the problem type 'regression'"),
        ({"id2label": {"0": "score"}, "label2id": {"score": 0}}, "one output, a regression"),
        ({"id2label": None, "label2id": None, "num_labels": 1}, "one output, a regression"),
        ({"hidden_act": "laplace"}, "hidden_act must be one of gelu"),
        ({"id2label": {"0": "a", "1": "a", "2": "b"}, "label2id": None}, "id2label must give every class"),
    ],
    ids=str,
)
def test_classifiers_of_another_kind_are_refused(
    copy: Path, refused: Callable[..., str], changes: dict[str, Any], said: str
) -> None:
    refused(change_config(copy, **changes), said)


def test_missing_unknown_and_misshapen_tensors_are_named(copy: Path, refused: Callable[..., str]) -> None:
    file = copy / "model.safetensors"
    state = load_file(file)
    name = "bert.encoder.layer.1.attention.self.query.weight"

    def write(changed: dict[str, torch.Tensor]) -> None:
        save_file(changed, file, metadata={"format": "pt"})

    write({key: value for key, value in state.items() if key != name})
    refused(copy, f"missing: {name}")
    write(state | {"bert.encoder.layer.9.output.dense.bias": torch.zeros(3)})
    refused(copy, "unknown: bert.encoder.layer.9.output.dense.bias")
    write(state | {name: torch.zeros(4, 4)})
    refused(copy, f"of another shape than config.json says: {name}")
    write(state | {name: torch.full((32, 32), torch.nan)})
    refused(copy, f"NaN or infinity: {name}")
    write({key: value for key, value in state.items() if not key.startswith("classifier")})
    refused(copy, "missing: classifier.bias, classifier.weight")
    write(state)
    refused(change_config(copy, num_hidden_layers=2), "unknown: bert.encoder.layer.2")
    file.write_bytes(b"broken")
    refused(copy, "cannot be read")


def test_another_class_count_than_the_weights_is_named(copy: Path, refused: Callable[..., str]) -> None:
    names = {"0": "a", "1": "b"}
    refused(
        change_config(copy, id2label=names, label2id={"a": 0, "b": 1}),
        "of another shape than config.json says: classifier.bias, classifier.weight",
    )


def test_other_heads_are_left_out_and_said(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", "bert", "ForMaskedLM")
    result = convert(source, output=tmp_path / "out")
    assert any("left out, of another head: cls.predictions" in note for note in result.notes)
    assert result.config.classifier_activation is None  # a language model brings no pooler


@pytest.mark.parametrize("what", ["file", "folder", "model", "link"])
def test_an_output_that_holds_something_is_never_touched(copy: Path, tmp_path: Path, what: str) -> None:
    output = tmp_path / "out"
    said = "is not empty"
    if what == "file":
        output.write_text("mine", encoding="utf-8")
        said = "is a file"
    elif what == "folder":
        output.mkdir()
        (output / "notes.txt").write_text("mine", encoding="utf-8")
    elif what == "model":
        convert(copy, output=output)
    else:
        output.symlink_to(tmp_path / "nowhere")
        said = "is a link to"
    before = sorted(output.iterdir()) if output.is_dir() else output.is_symlink() or output.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        convert(copy, output=output)
    after = sorted(output.iterdir()) if output.is_dir() else output.is_symlink() or output.read_text(encoding="utf-8")
    assert after == before
    with pytest.raises(ValueError, match="is not empty"):
        convert(copy, output=copy)


def test_an_empty_folder_is_taken_and_a_failed_writing_leaves_nothing(
    copy: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    output = tmp_path / "new" / "out"
    output.mkdir(parents=True)
    convert(copy, output=output)
    names = {p.name for p in output.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md"} <= names
    assert list(output.parent.iterdir()) == [output]
    assert (output / "model.safetensors").stat().st_mode == (output / "config.json").stat().st_mode

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("budgetformer.conversion.folder.os.rename", full)
    with pytest.raises(OSError, match=r"cannot write the model folder .*No space left"):
        convert(copy, output=tmp_path / "second")
    assert not (tmp_path / "second").exists()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize(
    ("pooling", "wanted"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "first"),
        ({"pooling_mode": "cls"}, "first"),
        ({"pooling_mode_max_tokens": True}, None),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, None),
    ],
    ids=str,
)
def test_folders_of_sentence_transformers(
    tmp_path: Path, refused: Callable[..., str], pooling: dict[str, Any], wanted: str | None
) -> None:
    source = tmp_path / "source"
    write_source(source / "0_Transformer", "bert", "Model")
    (source / "1_Pooling").mkdir()
    kind = "sentence_transformers.models"
    modules = [
        {"type": f"{kind}.Transformer", "path": "0_Transformer"},
        {"type": f"{kind}.Pooling", "path": "1_Pooling"},
    ]
    for name, content in (
        ("modules.json", modules),
        ("1_Pooling/config.json", pooling),
        ("0_Transformer/sentence_bert_config.json", {"max_seq_length": 20}),
    ):
        (source / name).write_text(json.dumps(content), encoding="utf-8")
    if wanted is None:
        refused(source, "pools its tokens by .*max.*what works: mean, cls")
        return
    config = convert(source, output=tmp_path / "out").config
    assert (config.pooling, config.text_limit) == (wanted, 20)
    assert config.classifier_activation == ("tanh" if wanted == "first" else None)


@pytest.mark.parametrize("more", [["Normalize"], ["Dense", "Normalize"]], ids=str)
def test_a_module_that_is_left_out_is_named(
    tmp_path: Path, more: list[str], capsys: pytest.CaptureFixture[str], write_csv: Callable[..., Path]
) -> None:
    source = write_source(tmp_path / "source", "bert", "Model")
    names = ["Transformer", "Pooling", *more]
    modules = [
        {"type": f"sentence_transformers.models.{name}", "path": f"{i}_{name}" if i else ""}
        for i, name in enumerate(names)
    ]
    (source / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}', encoding="utf-8")
    note = "note: left out, of sentence-transformers: Dense (2_Dense); what is classified is read before it"
    assert run(["convert", str(source), "--output", str(tmp_path / "out")]) == 0
    assert (note in capsys.readouterr().err.splitlines()) == ("Dense" in more)
    data = str(write_csv(sentences(12, labels=list(LABELS[:2]))))
    asked = ["--max-steps", "1", "--batch-size", "4", "--device", "cpu"]
    assert run(["train", "--from", str(source), "--train", data, "--output", str(tmp_path / "trained"), *asked]) == 0
    assert (note in capsys.readouterr().err.splitlines()) == ("Dense" in more)


def test_the_card_names_model_and_licence(copy: Path, tmp_path: Path) -> None:
    (copy / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# Mine\n", encoding="utf-8")
    convert(copy, output=tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "license: apache-2.0" in card.split("\n---")[0]
    assert "converted from the BERT model `source`" in card
    assert "Licence of the source: apache-2.0." in card
    assert str(tmp_path) not in card + (tmp_path / "out" / "config.json").read_text(encoding="utf-8")


def test_half_precision_weights_become_float32(tmp_path: Path) -> None:
    model = random_model("bert").half()
    model.save_pretrained(tmp_path / "source")
    tokenizer_of("bert").save_pretrained(tmp_path / "source")
    convert(tmp_path / "source", output=tmp_path / "out")
    assert {t.dtype for t in load_file(tmp_path / "out" / "model.safetensors").values()} == {torch.float32}
    assert BERT["hidden_size"] == 32
