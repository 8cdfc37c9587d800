"""A folder loads completely or not at all, from safetensors alone, and a round trip changes nothing."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForSequenceClassification

from budgetformer import (
    AttentionParts,
    BudgetFormerConfig,
    BudgetFormerForSequenceClassification,
    BudgetFormerModel,
    Classifier,
)
from budgetformer.explaining import explain

from .model_folders import make_folder, run_python

IDS = torch.arange(5, 25).view(2, 10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "model")


def change(folder: Path, edit: Callable[[dict[str, Tensor]], Any]) -> None:
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def load(folder: Path, **options: Any) -> BudgetFormerForSequenceClassification:
    return BudgetFormerForSequenceClassification.from_pretrained(folder, **options).eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_round_trip_changes_nothing(folder: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    model = load(folder, dtype=dtype)
    model.save_pretrained(tmp_path / "again")
    again = load(tmp_path / "again")
    assert again.dtype is dtype
    with torch.no_grad():
        a, b = model(IDS, output_budgets=True), again(IDS, output_budgets=True)
    assert torch.equal(a.logits, b.logits)
    assert torch.equal(a.kept, b.kept)
    assert again.config.to_dict() == model.config.to_dict() | {"_name_or_path": again.config.to_dict()["_name_or_path"]}
    assert not [p.name for p in (tmp_path / "again").iterdir() if p.suffix in {".bin", ".pt", ".pkl"}]


GATE = "budgetformer.layers.1.attention.budget_net.0.weight"
NAMED = r"(budgetformer\.)?layers\.1\.attention\.budget_net\.0\.weight"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t.pop(GATE), rf"missing: {NAMED}"),
        (lambda t: t.update(stranger=torch.zeros(2)), "unknown: stranger"),
        (lambda t: t.update({GATE: t[GATE][:, :5].contiguous()}), rf"another shape than config.json says: {NAMED}"),
        (lambda t: t.update({"old.name": t.pop(GATE)}), rf"missing: {NAMED}; unknown: old.name"),
    ],
    ids=["missing", "unknown", "shape", "renamed"],
)
def test_tensors_that_do_not_fit_are_named(folder: Path, edit: Any, message: str) -> None:
    change(folder, edit)
    for cls in (
        BudgetFormerForSequenceClassification,
        AutoModelForSequenceClassification,
        BudgetFormerModel,
        AutoModel,
    ):
        with pytest.raises(ValueError, match=message):
            cls.from_pretrained(folder)
    with pytest.raises(ValueError, match=message):
        Classifier.from_pretrained(folder, device="cpu")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(folder: Path, value: float) -> None:
    change(folder, lambda t: t[GATE][0].fill_(value))
    for cls in (BudgetFormerForSequenceClassification, AutoModelForSequenceClassification, AutoModel):
        with pytest.raises(ValueError, match=rf"NaN or infinity: {NAMED}"):
            cls.from_pretrained(folder)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", {"id2label": {"0": 1, "1": 2, "2": 3}, "label2id": None}, "id2label"),
        ("config.json", {"id2label": ["a", "b", "c"]}, "items"),
        ("config.json", {"vocab_size": "94"}, "str"),
        ("config.json", {"text_columns": "text"}, "text_columns must be a list"),
        ("config.json", {"min_heads": 99}, "min_heads"),
        ("tokenizer.json", None, "tokenizer files"),
        ("tokenizer_config.json", None, "tokenizer files"),
    ],
)
def test_files_that_were_edited_are_named_with_their_folder(
    folder: Path, file: str, content: Any, message: str
) -> None:
    path = folder / file
    path.write_text("{" if content is None else json.dumps(json.loads(path.read_text()) | content), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{folder}.*{message}"):
        Classifier.from_pretrained(folder, device="cpu")
    path.unlink()
    with pytest.raises(ValueError, match=f"{folder}.* no {file}"):
        Classifier.from_pretrained(folder, device="cpu")


def test_whole_numbers_are_no_weights(folder: Path) -> None:
    change(folder, lambda t: t.update({GATE: (t[GATE] * 127).to(torch.int8)}))
    for cls in (BudgetFormerForSequenceClassification, AutoModel):
        with pytest.raises(ValueError, match=rf"{folder}: tensors that are no floats: {GATE} \(I8\)"):
            cls.from_pretrained(folder)


def test_a_tokenizer_without_its_unknown_token_is_named_with_its_folder(folder: Path) -> None:
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    del tokenizer["model"]["vocab"]["[UNK]"]
    tokenizer["added_tokens"] = [t for t in tokenizer["added_tokens"] if t["content"] != "[UNK]"]
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{folder}.*\[UNK\]"):
        Classifier.from_pretrained(folder, device="cpu")


def test_an_index_of_weights_that_cannot_be_read_is_named_with_its_folder(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    (folder / "model.safetensors.index.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"model folder {folder} cannot be loaded"):
        Classifier.from_pretrained(folder, device="cpu")


def test_a_folder_that_asks_for_tuples_answers_all_the_same(folder: Path) -> None:
    said = Classifier.from_pretrained(folder, device="cpu")("good day")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"return_dict": False}), encoding="utf-8")
    again = Classifier.from_pretrained(folder, device="cpu")
    assert again("good day") == said
    assert explain(again, "good day").prediction.label == said.label


def test_another_number_of_classes_is_refused(folder: Path) -> None:
    for cls in (BudgetFormerForSequenceClassification, AutoModelForSequenceClassification):
        with pytest.raises(ValueError, match=r"says: classifier\.bias, classifier\.weight"):
            cls.from_pretrained(folder, num_labels=5)
        with pytest.raises(ValueError, match="ignore_mismatched_sizes would leave tensors random"):
            cls.from_pretrained(folder, num_labels=5, ignore_mismatched_sizes=True)
    assert load(folder, num_labels=3).config.id2label[2] == "Übrig / other"


def test_the_encoder_loads_from_a_classifier_but_not_the_other_way_round(folder: Path, tmp_path: Path) -> None:
    encoder = AutoModel.from_pretrained(folder).eval()
    assert type(encoder) is BudgetFormerModel
    with torch.no_grad():
        assert torch.equal(load(folder).budgetformer(IDS).pooler_output, encoder(IDS).pooler_output)
    encoder.save_pretrained(tmp_path / "encoder")
    assert type(BudgetFormerModel.from_pretrained(tmp_path / "encoder")) is BudgetFormerModel
    with pytest.raises(ValueError, match=r"missing: classifier\.bias, classifier\.weight"):
        load(tmp_path / "encoder")


def test_values_given_while_loading_are_checked(folder: Path) -> None:
    assert load(folder, budget_price=0.25).config.budget_price == 0.25
    with pytest.raises(ValueError, match=r"s_max must lie in .*got 9"):
        load(folder, s_max=9)


class Evil:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.safetensors"])
def test_a_pickle_is_refused_and_not_run(folder: Path, tmp_path: Path, name: str) -> None:
    mark = tmp_path / "mark"
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Evil(mark)))
    for attempt in (
        lambda: load(folder),
        lambda: AutoModelForSequenceClassification.from_pretrained(folder),
        lambda: AutoModel.from_pretrained(folder),
        lambda: Classifier.from_pretrained(folder, device="cpu"),
    ):
        with pytest.raises(Exception, match=r"safetensors|header") as caught:
            attempt()
        assert str(folder) in str(caught.value) or name == "model.safetensors"
    with pytest.raises(ValueError, match="only safetensors are loaded"):
        load(folder, use_safetensors=False)
    assert not mark.exists()


def test_own_parameters_may_be_called_gamma_and_beta(tmp_path: Path) -> None:
    class Scaled(nn.Module):
        """One scale and one shift."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.gamma, self.beta = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn(1))

        def forward(self, pooled_BD: Tensor) -> Tensor:
            return (pooled_BD * self.gamma).sum(-1, keepdim=True) + self.beta

    parts = AttentionParts(budget_net=Scaled)
    config = BudgetFormerConfig(vocab_size=50, hidden_size=16, num_attention_heads=2, num_hidden_layers=2)
    model = BudgetFormerForSequenceClassification(config, parts=parts).eval()
    model.save_pretrained(tmp_path)
    again = load(tmp_path, parts=parts)
    assert torch.equal(model.state_dict()[f"{NET}.gamma"], again.state_dict()[f"{NET}.gamma"])
    assert torch.equal(model(IDS).logits, again(IDS).logits)
    with pytest.raises(ValueError, match="gamma"):
        load(tmp_path)


NET = "budgetformer.layers.0.attention.budget_net"


def test_sliced_shared_and_transposed_tensors_are_saved_whole(folder: Path, tmp_path: Path) -> None:
    model = load(folder)
    first, second = (layer.attention for layer in model.budgetformer.layers)
    with torch.no_grad():
        first.qkv.weight = nn.Parameter(torch.randn(200, 32)[3:99])
        first.output.weight = nn.Parameter(first.output.weight.T)
        second.budget_net = first.budget_net
        second.qkv.weight = first.qkv.weight
        expected = model(IDS, output_budgets=True)
    model.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").stat().st_size < 1.2 * (
        folder / "model.safetensors"
    ).stat().st_size
    with torch.no_grad():
        got = load(tmp_path / "again")(IDS, output_budgets=True)
    torch.testing.assert_close(got.logits, expected.logits, rtol=0, atol=1e-6)
    assert torch.equal(got.kept, expected.kept)
    again = load(tmp_path / "again").budgetformer.layers
    assert torch.equal(again[0].attention.qkv.weight, again[1].attention.qkv.weight)


def test_a_folder_can_be_moved_and_read_only_and_needs_no_network(folder: Path, tmp_path: Path) -> None:
    expected = Classifier.from_pretrained(folder, device="cpu")("good film").scores
    moved = tmp_path / "elsewhere" / "Ünders cöre"
    moved.parent.mkdir()
    shutil.move(folder, moved)
    files = {p.name: p.stat().st_mtime_ns for p in moved.iterdir()}
    for path in (*moved.iterdir(), moved):
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    code = f"""
import json, sys
def watch(event, args):
    assert event not in ("socket.connect", "socket.getaddrinfo"), args
    assert event != "open" or not (set(str(args[1])) & set("wax+") and str(args[0]).startswith({str(moved)!r})), args
sys.addaudithook(watch)
from budgetformer import Classifier
print(json.dumps(Classifier.from_pretrained({str(moved)!r}, device="cpu")("good film").scores))
"""
    try:
        home = tmp_path / "home"
        home.mkdir()
        scores = json.loads(run_python(code, HOME=str(home), HF_HOME=str(home / "hf")).splitlines()[-1])
        assert scores == pytest.approx(expected, abs=1e-6)
        assert {p.name: p.stat().st_mtime_ns for p in moved.iterdir()} == files
    finally:
        os.chmod(moved, 0o755)


@pytest.mark.parametrize(
    ("break_", "message"),
    [
        (lambda f: shutil.rmtree(f), "does not exist; give a folder written by"),
        (lambda f: (f / "config.json").unlink(), "has weights and no config.json; copy the whole folder"),
        (lambda f: (f / "config.json").write_text("{"), "not readable as a configuration"),
        (lambda f: (f / "config.json").write_text('{"model_type": "bert"}'), "model of type 'bert'"),
        (lambda f: (f / "model.safetensors").unlink(), r"no model\.safetensors"),
        (lambda f: (f / "tokenizer.json").unlink(), r"no tokenizer\.json; copy the whole folder"),
    ],
)
def test_a_folder_of_another_kind_is_named(folder: Path, break_: Any, message: str) -> None:
    break_(folder)
    with pytest.raises(ValueError, match=message):
        Classifier.from_pretrained(folder, device="cpu")


@pytest.mark.parametrize("content", [b"", b"\x00" * 7, b"no tensors"])
def test_broken_weights_are_no_model(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(Exception, match=r"header|model\.safetensors"):
        load(folder)
    whole = make_folder(folder.parent / "other") / "model.safetensors"
    (folder / "model.safetensors").write_bytes(whole.read_bytes()[:-1000])
    with pytest.raises(Exception, match=r"header|model\.safetensors|incomplete"):
        load(folder)
