"""The ONNX file chooses heads for each text as the model does, in any batch and length, or it is not written."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import budgetformer
from budgetformer import Classifier, Pair
from budgetformer.exporting import OnnxExport, export_onnx
from budgetformer.exporting.verification import TOLERANCE, random_batches, verify

from ..conftest import WORDS, sentences
from ..model_folders import NAMES, make_folder
from .onnx_at_hand import Runtime, read
from .varied import varied_folder

TEXTS = [text for text, _ in sentences(40, labels=list(WORDS))]
ODD = ["", "a", "GOOD Film", "[SEP] good [CLS]", "café " * 3, "very " * 200, "\u200b", "日本"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return varied_folder(tmp_path_factory.mktemp("runs") / "model")


@pytest.fixture(scope="module")
def done(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> OnnxExport:
    return export_onnx(folder, tmp_path_factory.mktemp("exported") / "model.onnx")


@pytest.fixture(scope="module")
def runtime(done: OnnxExport) -> Runtime:
    return Runtime(done.file)


def test_a_file_of_ones_own_beside_it_is_left_alone(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "model.onnx.partial"
    own.write_text("mine")
    export_onnx(folder, tmp_path / "model.onnx")
    assert own.read_text() == "mine"
    assert sorted(file.name for file in tmp_path.glob("*.partial")) == [own.name]


def test_texts_that_choose_other_heads_get_the_answers_of_the_model(folder: Path, runtime: Runtime) -> None:
    classifier = Classifier.from_pretrained(folder, device="cpu")
    ours = classifier(TEXTS, details=True)
    assert len({answer.kept.tobytes() for answer in ours if answer.kept is not None}) >= 20
    for theirs in (runtime.scores(TEXTS), [runtime.scores([text])[0] for text in TEXTS]):
        for scores, answer in zip(theirs, ours, strict=True):
            assert scores == pytest.approx(answer.scores, abs=1e-4)
            assert max(scores, key=scores.__getitem__) == answer.label
    heads = runtime.run(**runtime.encode(TEXTS))["heads"]
    assert heads.tolist() == [answer.heads for answer in ours]
    assert len({tuple(row) for row in heads.tolist()}) > 3


def test_odd_texts_are_read_and_cut_as_the_model_does(folder: Path, runtime: Runtime) -> None:
    ours = Classifier.from_pretrained(folder, device="cpu")(ODD)
    for scores, answer in zip(runtime.scores(ODD), ours, strict=True):
        assert scores == pytest.approx(answer.scores, abs=1e-4)


@pytest.mark.parametrize(("rows", "length"), [(1, 1), (7, 63), (2, 80), (33, 2)])
def test_batch_and_length_are_free(folder: Path, runtime: Runtime, rows: int, length: int) -> None:
    model = Classifier.from_pretrained(folder, device="cpu").model
    torch.manual_seed(rows)
    ids = torch.randint(model.config.vocab_size, (rows, length))
    mask = torch.arange(length) < torch.randint(1, length + 1, (rows, 1))
    with torch.inference_mode():
        expected = model(ids, mask.long()).logits.numpy()
    got = runtime.run(input_ids=ids.numpy(), attention_mask=mask.long().numpy())["logits"]
    assert got.shape == (rows, 3)
    assert np.abs(got - expected).max() < TOLERANCE


def test_more_tokens_than_the_model_takes_are_an_error_and_no_answer(runtime: Runtime) -> None:
    too_long = np.ones((1, 81), dtype=np.int64)
    with pytest.raises(Exception, match="out of data bounds"):
        runtime.run(input_ids=too_long, attention_mask=too_long)


def test_the_file_says_what_it_is(done: OnnxExport, runtime: Runtime) -> None:
    said = runtime.said
    assert read(said, "labels") == list(NAMES)
    assert read(said, "id2label") == {str(i): name for i, name in enumerate(NAMES)}
    assert read(said, "max_length") == 80
    assert read(said, "lowercase") is True
    assert read(said, "pad_token_id") == 0
    assert said["inputs"] == "text"
    assert "computes all heads" in said["heads"]
    assert read(said, "opset") == 18
    assert str(Path(budgetformer.__file__).parent.parent).encode() not in done.file.read_bytes()
    assert b"site-packages" not in done.file.read_bytes()
    graph = onnx.load(str(done.file))
    assert [(entry.domain, entry.version) for entry in graph.opset_import if entry.domain == ""] == [("", 18)]
    assert [d.dim_param for given in graph.graph.input for d in given.type.tensor_type.shape.dim] == [
        "batch",
        "length",
    ] * 2
    assert {file.name for file in done.file.parent.iterdir()} == {
        "model.onnx",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_the_check_covers_many_choices_and_shapes(folder: Path, done: OnnxExport) -> None:
    config = Classifier.from_pretrained(folder, device="cpu").config
    shapes = [tuple(batch["input_ids"].shape) for batch in random_batches(config)]
    assert {(1, 1), (7, 63), (2, 80)} <= set(shapes)
    assert done.checked.inputs >= 35
    assert done.checked.head_sets >= 15
    assert done.checked.difference <= TOLERANCE


def test_a_file_that_answers_otherwise_is_noticed(folder: Path, done: OnnxExport, tmp_path: Path) -> None:
    classifier = Classifier.from_pretrained(folder, device="cpu")
    assert verify(done.file, classifier, TEXTS).inputs > done.checked.inputs
    graph = onnx.load(str(done.file))
    for weight in graph.graph.initializer:
        if "relevance_net.bias" in weight.name:
            values = onnx.numpy_helper.to_array(weight)
            weight.CopyFrom(onnx.numpy_helper.from_array(values + 30 * np.eye(8, dtype=values.dtype)[0], weight.name))
    onnx.save(graph, str(tmp_path / "other.onnx"))
    with pytest.raises(ValueError, match=r"differs from the model on \d+ of .* no file was written"):
        verify(tmp_path / "other.onnx", classifier)
    graph = onnx.load(str(done.file))
    for given in graph.graph.input:
        given.type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(graph, str(tmp_path / "frozen.onnx"))
    with pytest.raises(ValueError, match=r"takes input_ids of shape \[2, 'length'\] only"):
        verify(tmp_path / "frozen.onnx", classifier)


def test_what_is_there_already_is_left_alone(folder: Path, done: OnnxExport, tmp_path: Path) -> None:
    before = done.file.read_bytes()
    (tmp_path / "tokenizer.json").write_text("{}")
    for output, said in (
        (done.file, "is there already"),
        (tmp_path / "m.onnx", "belongs to another model"),
        (tmp_path / "m.bin", "ends in .onnx"),
        (tmp_path / "no" / "m.onnx", "make it first"),
    ):
        with pytest.raises(ValueError, match=said):
            export_onnx(folder, output)
    with pytest.raises(ValueError, match=r"budget 0\.5 needs texts"):
        export_onnx(folder, tmp_path / "new.onnx", budget=0.5, overwrite=True)
    assert done.file.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]


@pytest.mark.slow
@pytest.mark.parametrize("tie", ["relevance_net", "budget_net"])
def test_equal_heads_are_chosen_as_in_the_model(tmp_path: Path, tie: str) -> None:
    folder = make_folder(tmp_path / "model")
    classifier = Classifier.from_pretrained(folder, device="cpu")
    for name, parameter in classifier.model.named_parameters():
        if tie in name:
            parameter.data.zero_()
    classifier.model.save_pretrained(folder)
    done = export_onnx(folder, tmp_path / "model.onnx")
    ours = classifier(TEXTS, details=True)
    for scores, answer in zip(Runtime(done.file).scores(TEXTS), ours, strict=True):
        assert scores == pytest.approx(answer.scores, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"budgeted": False, "hidden_act": "quick_gelu"},
        {"selection": "soft", "fixed_budget": 0.5, "hidden_act": "mish", "initializer_range": 0.1},
        {"segments": True, "pooling": "first", "norm_position": "pre", "position_embedding_type": "learned"},
        {"min_heads": 0, "hidden_act": "gelu_new", "type_vocab_size": 1, "num_hidden_layers": 1},
        {"num_hidden_layers": 0},
    ],
    ids=str,
)
def test_every_kind_of_model_is_exported_whole(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = make_folder(tmp_path / "model", **changes)
    done = export_onnx(folder, tmp_path / "model.onnx")
    texts: list[str | Pair] = list(TEXTS)
    if "segments" in changes:
        texts = [Pair(a, b) for a, b in zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True)]
    ours = Classifier.from_pretrained(folder, device="cpu")(texts)
    for scores, answer in zip(Runtime(done.file).scores(texts), ours, strict=True):
        assert scores == pytest.approx(answer.scores, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("selection", ["straight_through", "soft"])
def test_a_fixed_set_of_heads_is_all_that_the_file_holds(tmp_path: Path, selection: str) -> None:
    folder = varied_folder(tmp_path / "model", selection=selection, initializer_range=0.1)
    (tmp_path / "all").mkdir()
    whole = export_onnx(folder, tmp_path / "all" / "model.onnx")
    fixed = export_onnx(folder, tmp_path / "fixed.onnx", budget=0.25, texts=TEXTS)
    assert fixed.sets is not None
    assert fixed.sets.heads == 2
    cut = 2 * 6 * (3 * 64 + 1 + 64) * 8 * 4  # layers · heads · (q, k, v with bias, output) · head size · bytes
    assert whole.bytes - fixed.bytes > 0.8 * cut
    runtime = Runtime(fixed.file)
    assert read(runtime.said, "fixed_heads") == [list(heads) for heads in fixed.sets.kept]
    assert read(runtime.said, "budget") == 0.25
    classifier = Classifier.from_pretrained(folder, device="cpu")
    same = classifier(TEXTS, budget=0.25, policy=fixed.sets.policies())
    for scores, answer in zip(runtime.scores(TEXTS), same, strict=True):
        assert scores == pytest.approx(answer.scores, abs=1e-4)
    with pytest.raises(ValueError, match="differs from the model"):
        verify(fixed.file, classifier, TEXTS)  # a choice that is the same for every text is no choice


@pytest.mark.slow
def test_a_file_that_does_not_pass_the_check_does_not_get_its_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("budgetformer.exporting.verification.TOLERANCE", -1.0)
    with pytest.raises(ValueError, match="no file was written"):
        export_onnx(folder, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
    assert "torchvision" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_fixed_set_of_heads_is_faster(tmp_path: Path) -> None:
    sizes = {"hidden_size": 256, "intermediate_size": 256, "max_position_embeddings": 256, "min_heads": 0}
    folder = varied_folder(tmp_path / "model", **sizes)
    runtimes = []
    for name, options in (("all", {}), ("one", {"budget": 0.125, "texts": TEXTS})):
        (tmp_path / name).mkdir()
        runtimes.append(Runtime(export_onnx(folder, tmp_path / name / "model.onnx", **options).file))
    ids = np.ones((4, 256), dtype=np.int64)
    seconds: list[list[float]] = [[], []]
    for _ in range(9):
        for runtime, times in zip(runtimes, seconds, strict=True):
            started = time.perf_counter()
            runtime.run(input_ids=ids, attention_mask=ids)
            times.append(time.perf_counter() - started)
    assert min(seconds[1]) < 0.7 * min(seconds[0])
