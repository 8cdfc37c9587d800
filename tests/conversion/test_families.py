"""A converted model answers as its source, and goes back to it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, pipeline

from budgetformer import (
    BudgetFormerForSequenceClassification,
    BudgetFormerModel,
    Classifier,
    Pair,
    convert,
    to_transformers,
)
from budgetformer.data.encoding import TextEncoder, collate

from ..data.tokenizers_at_hand import minilm
from .sources import LABELS, SECONDS, TEXTS, change_config, write_source

FAMILIES = ("bert", "roberta", "xlm-roberta", "distilbert", "electra", "modernbert")
VARIANTS: list[Any] = [
    ("bert", {"hidden_act": "gelu_new", "type_vocab_size": 1}),
    ("electra", {"embedding_size": 32}),
    ("distilbert", {"sinusoidal_pos_embds": True, "activation": "relu"}),
    (
        "modernbert",
        {"classifier_pooling": "mean", "norm_bias": True, "attention_bias": True, "mlp_bias": True},
    ),
    ("modernbert", {"classifier_bias": True, "classifier_activation": "silu", "local_attention": 4}),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """(source, converted) of a classifier of every family."""
    base = tmp_path_factory.mktemp("families")
    folders = {}
    for family in FAMILIES:
        folders[family] = write_source(base / family, family), base / f"{family}-converted"
        convert(folders[family][0], output=folders[family][1])
    return folders


def batches(folder: Path, *, segments: bool, longest: int = 48) -> list[dict[str, torch.Tensor]]:
    """Padded batches of texts and of pairs."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoder = TextEncoder(tokenizer=tokenizer, max_length=longest, uses_segments=segments)
    pad = tokenizer.pad_token_id
    found = [collate(encoder.encode(TEXTS), pad), collate(encoder.encode(TEXTS, SECONDS), pad)]
    return [*found, collate(encoder.encode(TEXTS[:1]), pad)]


def check_same(source: Path, converted: Path, *, attention: str, tolerance: float = 1e-4) -> None:
    """Logits, or pooled output, and hidden states of both at the real tokens."""
    ours = AutoModelForSequenceClassification if has_classifier(converted) else AutoModel
    ours = ours.from_pretrained(converted).eval()
    kind = AutoModelForSequenceClassification if has_classifier(converted) else AutoModel
    theirs = kind.from_pretrained(source, attn_implementation=attention).eval()
    for batch in batches(source, segments=ours.config.type_vocab_size > 1):
        mask = batch["attention_mask"].bool()
        with torch.inference_mode():
            wanted = theirs(**batch, output_hidden_states=True)
            whole = ours(**batch, output_hidden_states=True)
            quick = ours(**batch)
        assert len(whole.hidden_states) == len(wanted.hidden_states)
        for mine, their in zip(whole.hidden_states, wanted.hidden_states, strict=True):
            torch.testing.assert_close(mine[mask], their[mask], rtol=0, atol=tolerance)
        if has_classifier(converted):
            assert len(mask) == 1 or wanted.logits.std(dim=0).max() > 0.05
            for found in (whole.logits, quick.logits):
                torch.testing.assert_close(found, wanted.logits, rtol=0, atol=tolerance)
        else:
            torch.testing.assert_close(
                whole.last_hidden_state[mask], wanted.last_hidden_state[mask], rtol=0, atol=tolerance
            )


def has_classifier(converted: Path) -> bool:
    return '"BudgetFormerForSequenceClassification"' in (converted / "config.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_classifier_answers_as_its_source(made: dict[str, tuple[Path, Path]], family: str, attention: str) -> None:
    check_same(*made[family], attention=attention)


@pytest.mark.parametrize(("family", "changes"), VARIANTS, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_a_classifier_of_another_shape_answers_as_its_source_and_goes_back(
    tmp_path: Path, family: str, changes: dict[str, Any]
) -> None:
    source = write_source(tmp_path / "source", family, **changes)
    convert(source, output=tmp_path / "converted")
    check_same(source, tmp_path / "converted", attention="sdpa")
    check_identical(source, tmp_path / "converted", AutoModelForSequenceClassification)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_encoder_gives_the_states_of_its_source_and_goes_back(tmp_path: Path, family: str) -> None:
    source = write_source(tmp_path / "source", family, "Model")
    result = convert(source, output=tmp_path / "converted")
    assert not result.classifier
    assert any("train it before it can classify" in note for note in result.notes)
    check_same(source, tmp_path / "converted", attention="eager")
    check_identical(source, tmp_path / "converted", AutoModel)
    with pytest.raises(ValueError, match="an encoder without labels"):
        Classifier.from_pretrained(tmp_path / "converted", device="cpu")


def check_identical(source: Path, converted: Path, kind: Any) -> None:
    """``to_transformers`` gives the source's class and weights, bit by bit."""
    back, before = to_transformers(converted), kind.from_pretrained(source)
    assert type(back) is type(before)
    state = back.state_dict()
    assert state.keys() == before.state_dict().keys()
    for name, tensor in before.state_dict().items():
        assert torch.equal(state[name], tensor), name


@pytest.mark.parametrize("family", FAMILIES)
def test_a_classifier_goes_back_with_labels_and_tokenizer(
    made: dict[str, tuple[Path, Path]], family: str, tmp_path: Path
) -> None:
    source, converted = made[family]
    check_identical(source, converted, AutoModelForSequenceClassification)
    to_transformers(converted, output=tmp_path / "back")
    answers = [
        pipeline("text-classification", model=str(folder), device="cpu")(TEXTS[:3])
        for folder in (source, tmp_path / "back", converted)
    ]
    assert answers[1] == answers[0]
    for mine, their in zip(answers[2], answers[0], strict=True):
        assert mine["label"] == their["label"]
        assert mine["score"] == pytest.approx(their["score"], abs=1e-4)
    back = transformers.AutoConfig.from_pretrained(tmp_path / "back")
    before = transformers.AutoConfig.from_pretrained(source)
    left_out = ("transformers_version", "architectures", "_name_or_path", "dtype")
    mine, their = ({k: v for k, v in c.to_dict().items() if k not in left_out} for c in (back, before))
    assert mine == their


@pytest.mark.parametrize("family", FAMILIES)
def test_the_product_answers_with_the_sources_labels_and_scores_at_all_heads(
    made: dict[str, tuple[Path, Path]], family: str, tmp_path: Path
) -> None:
    source, converted = made[family]
    moved = shutil.copytree(converted, tmp_path / "moved")
    classifier = Classifier.from_pretrained(moved, device="cpu")
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(source), AutoTokenizer.from_pretrained(source)
    assert classifier.labels == list(LABELS)
    assert classifier.encoder.max_length == 48
    assert classifier.tokenizer.get_vocab() == tokenizer.get_vocab()
    answers = classifier(TEXTS) + classifier([Pair(a, b) for a, b in zip(TEXTS, SECONDS, strict=True)])
    with torch.inference_mode():
        segments = getattr(model.config, "type_vocab_size", 0) > 1
        logits = torch.cat([model(**batch).logits for batch in batches(source, segments=segments)[:2]])
    for answer, scores in zip(answers, logits.softmax(dim=-1).tolist(), strict=True):
        assert answer.label == LABELS[scores.index(max(scores))]
        assert list(answer.scores.values()) == pytest.approx(scores, abs=1e-4)
        assert set(answer.heads) == {4}
        assert answer.budgets == [1.0] * len(answer.heads)
    fewer = classifier(TEXTS, budget=0.5)
    assert {h for answer in fewer for h in answer.heads} == {2}


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_gates_stay_open_in_other_number_formats(made: dict[str, tuple[Path, Path]], precision: str) -> None:
    for _, converted in made.values():
        answers = Classifier.from_pretrained(converted, device="cpu", precision=precision)(TEXTS)
        assert {h for answer in answers for h in answer.heads} == {4}


def test_gates_weigh_one_and_every_head_can_learn(made: dict[str, tuple[Path, Path]]) -> None:
    source, converted = made["bert"]
    model = BudgetFormerForSequenceClassification.from_pretrained(converted).train()
    batch = batches(source, segments=True)[0]
    output = model(**batch, labels=torch.tensor([0, 1, 2, 0, 1]), output_budgets=True)
    assert torch.equal(output.gates, torch.ones_like(output.gates))
    output.loss.backward()
    for layer in model.budgetformer.layers:
        assert layer.attention.relevance_net.bias.grad.abs().min() > 0


def test_converting_twice_gives_the_same_folder(made: dict[str, tuple[Path, Path]], tmp_path: Path) -> None:
    source, converted = made["electra"]
    torch.manual_seed(99)
    convert(source, output=tmp_path / "again")
    for file in sorted(converted.iterdir()):
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), file.name


def test_a_model_that_was_trained_on_goes_back_with_its_new_weights(
    made: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    source, converted = made["distilbert"]
    model = BudgetFormerForSequenceClassification.from_pretrained(converted)
    with torch.no_grad():
        model.budgetformer.layers[1].attention.qkv.weight.mul_(2)
    folder = shutil.copytree(converted, tmp_path / "trained")
    model.save_pretrained(folder)
    back, before = to_transformers(folder), AutoModelForSequenceClassification.from_pretrained(source)
    for name, tensor in before.state_dict().items():
        factor = 2 if "layer.1.attention" in name and "lin.weight" in name and "out_lin" not in name else 1
        assert torch.equal(back.state_dict()[name], tensor * factor), name


def test_what_has_no_way_back_is_refused(made: dict[str, tuple[Path, Path]], tmp_path: Path) -> None:
    _, converted = made["bert"]
    for change, said in (
        ({"selection": "soft"}, "has selection 'soft', whose gates weigh the heads"),
        ({"pooling": "mean"}, "BertForSequenceClassification has pooling 'first', and this model 'mean'"),
        ({"source": None}, "was not converted from another model"),
    ):
        folder = shutil.copytree(converted, tmp_path / next(iter(change)))
        with pytest.raises(ValueError, match=said):
            to_transformers(change_config(folder, **change))


@pytest.fixture(scope="module")
def minilm_folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The real weights that pip brings, in the folder that sentence-transformers wrote; and converted."""
    source = Path(minilm().name_or_path)
    converted = tmp_path_factory.mktemp("minilm") / "converted"
    convert(source, output=converted)
    return source, converted


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_states_of_minilm_are_those_of_transformers(minilm_folders: tuple[Path, Path], attention: str) -> None:
    source, converted = minilm_folders
    check_same(source, converted, attention=attention)


def test_minilm_pools_and_cuts_as_sentence_transformers_and_goes_back(minilm_folders: tuple[Path, Path]) -> None:
    source, converted = minilm_folders
    model = BudgetFormerModel.from_pretrained(converted).eval()
    assert (model.config.pooling, model.config.max_position_embeddings) == ("mean", 512)
    assert model.config.text_limit == model.config.model_max_length < 512
    theirs = AutoModel.from_pretrained(source).eval()
    batch = batches(source, segments=True)[0]
    with torch.inference_mode():
        states = theirs(**batch).last_hidden_state
        pooled = model(**batch).pooler_output
    mask = batch["attention_mask"].unsqueeze(-1)
    torch.testing.assert_close(pooled, (states * mask).sum(1) / mask.sum(1), rtol=0, atol=1e-4)
    check_identical(source, converted, AutoModel)
    assert "license" in (converted / "README.md").read_text(encoding="utf-8")
