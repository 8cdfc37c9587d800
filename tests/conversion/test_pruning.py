"""Heads that no row of the data chooses: what is dropped, what stays, and the folder in every use."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from budgetformer import BudgetFormerForSequenceClassification, Classifier, explain, prune_unused
from budgetformer.attention import budgeted_layers
from budgetformer.conversion import RowSource, ZeroShot, budget_classifier, convert, to_transformers
from budgetformer.data.columns import Columns
from budgetformer.evaluation import evaluate
from budgetformer.exporting import measure_head_sets
from budgetformer.exporting.hub_folder import export_hub
from budgetformer.model_folder import CURVE_PICTURE
from budgetformer.reporting.explained import page, png, tokens_shown

from ..cli.commands import texts, write_csv
from ..conftest import WORDS, sentences
from ..model_folders import make_folder, run_python
from .sources import write_source

ROWS = [("a " + text, label) for text, label in sentences(60, labels=list(WORDS))]


@torch.no_grad()
def close(folder: Path, never: dict[int, list[int]], *, least: float = 0.4) -> Path:
    """Make the model of a folder choose none of these heads at its own budgets, all ``least``, whatever the text."""
    model = BudgetFormerForSequenceClassification.from_pretrained(folder)
    for index, layer in enumerate(budgeted_layers(model)):
        for head in never[index]:
            layer.relevance_net.weight[head] = 0.0
            layer.relevance_net.bias[head] = -1000.0
        last = layer.budget_net[-1]
        last.weight.zero_()
        last.bias.fill_(torch.logit(torch.tensor(least)).item())
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["straight_through", "soft"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose texts choose 2 of 4 heads, and in layer 0 never head 1, in layer 1 never 0 or 3."""
    made = make_folder(tmp_path_factory.mktemp("model") / "whole", selection=request.param)
    return close(made, {0: [1], 1: [0, 3]}, least=0.55)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "train.csv", ROWS)


def test_heads_that_no_row_chose_are_gone_and_the_answers_stay(folder: Path, data: Path, tmp_path: Path) -> None:
    other = write_csv(tmp_path / "test.csv", sentences(30, labels=list(WORDS), seed=9))
    done = prune_unused(folder, data=data, output=tmp_path / "out", held_out=other)
    found = done.pruning
    assert found.rows == 60
    assert (done.config.kept_heads[1]) == [1, 2]
    assert 1 not in done.config.kept_heads[0]
    assert found.heads == (8, sum(found.heads_by_layer))
    assert [len(own) for own in done.config.kept_heads] == [int((used > 0).sum()) for used in found.used_LH]
    assert (found.checked, found.checked_same) == (60, 1.0)
    assert found.held_out is not None
    assert found.held_out.rows == 30
    assert done.bytes[1] < done.bytes[0]
    before, after = (Classifier.from_pretrained(place, device="cpu") for place in (folder, tmp_path / "out"))
    lines = [text for text, _ in ROWS]
    for ours, theirs in zip(after(lines, details=True), before(lines, details=True), strict=True):
        assert np.array_equal(ours.kept, theirs.kept)
        assert ours.heads == theirs.heads
        assert ours.scores == pytest.approx(theirs.scores, abs=1e-5)
        assert ours.macs < theirs.macs if done.config.selection == "straight_through" else ours.macs == theirs.macs
    everything = after(lines[0], budget=1.0)
    assert everything.heads == list(found.heads_by_layer)
    with pytest.raises(ValueError, match=r"heads of .*out was chosen by some of the 60 rows .*nothing to drop"):
        prune_unused(tmp_path / "out", data=data, output=tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_held_out_rows_say_what_the_loss_costs(folder: Path, tmp_path: Path) -> None:
    one = write_csv(tmp_path / "one.csv", ROWS[:1])
    other = write_csv(tmp_path / "test.csv", [*ROWS[1:], ("no label here", "")])
    done = prune_unused(folder, data=one, output=tmp_path / "out", held_out=other)
    held = done.pruning.held_out
    assert held is not None
    assert held.rows == 59
    assert held.same_heads < 1.0
    before, after = (Classifier.from_pretrained(place, device="cpu") for place in (folder, tmp_path / "out"))
    lines, labels = zip(*ROWS[1:], strict=True)
    answers = [[answer.label for answer in each(list(lines))] for each in (before, after)]
    accuracy = [float(np.mean([a == b for a, b in zip(found, labels, strict=True)])) for found in answers]
    assert (held.accuracy_before, held.accuracy_after) == tuple(map(pytest.approx, accuracy))
    assert held.same_labels == pytest.approx(np.mean([a == b for a, b in zip(*answers, strict=True)]))
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "## Heads dropped for good" in card
    assert f"accuracy {held.accuracy_before:.4f} before and {held.accuracy_after:.4f} after" in card


@pytest.mark.slow
def test_the_folder_loads_in_a_new_process_in_every_way(folder: Path, data: Path, tmp_path: Path) -> None:
    prune_unused(folder, data=data, output=tmp_path / "out")
    expected = Classifier.from_pretrained(tmp_path / "out", device="cpu")(ROWS[0][0])
    code = f"""
import json, budgetformer
from transformers import AutoModelForSequenceClassification, AutoModel, AutoTokenizer, pipeline
from transformers.utils import logging
logging.disable_progress_bar(); logging.set_verbosity_error()
folder, text = {str(tmp_path / "out")!r}, {ROWS[0][0]!r}
own = budgetformer.Classifier.from_pretrained(folder, device="cpu")(text)
model, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
encoder = AutoModel.from_pretrained(folder)
[piped] = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")(text)
small = budgetformer.Classifier.from_pretrained(folder, device="cpu", precision="int8")(text, budget=0.5)
assert model.config.kept_heads == encoder.config.kept_heads
found = [own.label, own.score, own.heads, piped["label"], piped["score"], small.heads, model.config.kept_heads]
print(json.dumps(found))
"""
    label, score, heads, piped, piped_score, small, kept = json.loads(
        run_python(code, folder=tmp_path).splitlines()[-1]
    )
    assert (label, heads, piped) == (expected.label, expected.heads, expected.label)
    assert (score, piped_score) == (pytest.approx(expected.score, abs=1e-5), pytest.approx(expected.score, abs=1e-5))
    assert small == [2, 2]
    assert kept == json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))["kept_heads"]


def test_explanations_pages_and_figures_show_the_gaps(folder: Path, data: Path, tmp_path: Path) -> None:
    prune_unused(folder, data=data, output=tmp_path / "out")
    classifier = Classifier.from_pretrained(tmp_path / "out", device="cpu")
    found = explain(classifier, ROWS[0][0])
    there = np.array([np.isin(range(4), own) for own in classifier.config.kept_heads])
    assert np.array_equal(found.has_LH, there)
    layers = found.to_dict()["layers"]
    assert [sorted(row["head"] for row in layer["heads"]) for layer in layers] == classifier.config.kept_heads
    assert all(row["entropy"] > 0 for layer in layers for row in layer["heads"])
    assert found.to_dict()["entropy"]["nats"]["by_rank"][3] is None
    shown = tokens_shown(found)
    assert 0 < shown.share <= 1.0 + 1e-9
    html = page(found, shown, model="out")
    assert "the layer lost this head for good" in html
    assert ">gone<" in html
    assert ">nan<" not in html
    assert png(found, shown)[:4] == b"\x89PNG"
    assert explain(classifier, ROWS[0][0], budget=1.0, heads=1).shown_LK.shape == (2, 1)


def test_evaluation_and_exports(folder: Path, data: Path, tmp_path: Path) -> None:
    import datasets

    prune_unused(folder, data=data, output=tmp_path / "out")
    classifier = Classifier.from_pretrained(tmp_path / "out", device="cpu")
    names = {name: i for i, name in classifier.config.id2label.items()}
    lines, labels = zip(*ROWS, strict=True)
    rows = datasets.Dataset.from_dict({"text": list(lines), "label": [names[label] for label in labels]})
    figures = evaluate(classifier, rows, details=True)
    assert figures.figures["macs_dense"] > figures.figures["macs"]
    assert not figures.heads.use_LH[1, [0, 3]].any()
    sets = measure_head_sets(classifier, list(lines), budget=0.75)
    assert [sorted(ranking) for ranking in sets.rankings] == classifier.config.kept_heads
    assert [len(own) for own in sets.kept] == [min(3, n) for n in classifier.config.heads_per_layer]
    assert 0 < sets.same_labels <= 1
    export = export_hub(tmp_path / "out", tmp_path / "hub")
    assert export.inputs > 0
    assert json.loads((tmp_path / "hub" / "config.json").read_text())["kept_heads"] == classifier.config.kept_heads


def test_a_default_budget_is_what_is_counted_and_the_picture_of_the_curve_stays(
    folder: Path, data: Path, tmp_path: Path
) -> None:
    """A call without a budget gets the default, here one head of four; the card shows a curve of before."""
    whole = Path(shutil.copytree(folder, tmp_path / "whole"))
    config = json.loads((whole / "config.json").read_text(encoding="utf-8"))
    (whole / "config.json").write_text(json.dumps(config | {"default_budget": 0.25}), encoding="utf-8")
    (whole / CURVE_PICTURE).write_bytes(b"a picture")
    (whole / "README.md").write_text(f"# A model\n\n![the curve]({CURVE_PICTURE})\n", encoding="utf-8")
    done = prune_unused(whole, data=data, output=tmp_path / "out")
    before, after = (Classifier.from_pretrained(place, device="cpu") for place in (whole, tmp_path / "out"))
    assert after.config.default_budget == 0.25
    lines = [text for text, _ in ROWS]
    for ours, theirs in zip(after(lines, details=True), before(lines, details=True), strict=True):
        assert ours.heads == [1, 1]
        assert np.array_equal(ours.kept, theirs.kept)
    assert done.pruning.budget == 0.25
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "at the default budget of 0.25" in card
    assert "The figures that this card had until then were measured with those heads." in card
    assert (tmp_path / "out" / CURVE_PICTURE).read_bytes() == b"a picture"


@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
def test_batches_side_by_side_of_a_smaller_model_with_a_default_answer_as_one_by_one(
    folder: Path, data: Path, tmp_path: Path, precision: str
) -> None:
    """With budgets of their own, the default and caps in one list; the reference says what float32 must give."""
    prune_unused(folder, data=data, output=tmp_path / "out")
    made = tmp_path / "out"
    config = json.loads((made / "config.json").read_text(encoding="utf-8"))
    (made / "config.json").write_text(json.dumps(config | {"default_budget": 0.75}), encoding="utf-8")
    several = Classifier.from_pretrained(made, device="cpu", precision=precision, workers=4, batch_tokens=64)
    lines = [text for text, _ in ROWS] + [""]
    budgets = [(None, 0.25, 1.0, None)[i % 4] for i in range(len(lines))]
    caps = [(None, None, None, 1.0)[i % 4] for i in range(len(lines))]
    found = several(lines, budget=budgets, max_budget=caps, details=True)
    own_L = config["kept_heads"]
    for i, answer in enumerate(found):
        wanted = [(min(3, len(own)), 1, len(own), 2)[i % 4] for own in own_L]
        assert answer.heads == wanted
        assert all(set(np.flatnonzero(kept)) <= set(own) for kept, own in zip(answer.kept, own_L, strict=True))
        alone = several(lines[i], budget=budgets[i], max_budget=caps[i], details=True)
        if precision != "bf16":  # where the sums of other batches round otherwise, and choices hang on them
            assert np.array_equal(alone.kept, answer.kept)
            assert alone.scores == pytest.approx(answer.scores, abs=1e-4)
    if precision == "float32":
        slow = Classifier.from_pretrained(made, device="cpu", execution="reference", workers=1)
        for one, other in zip(found, slow(lines, budget=budgets, max_budget=caps, details=True), strict=True):
            assert np.array_equal(one.kept, other.kept)
            assert one.scores == pytest.approx(other.scores, abs=1e-5)


@pytest.mark.parametrize("family", ["bert", "modernbert", "distilbert"])
def test_the_way_back_fills_dropped_heads_with_zeros(family: str, tmp_path: Path) -> None:
    convert(write_source(tmp_path / "source", family), output=tmp_path / "whole")
    model = BudgetFormerForSequenceClassification.from_pretrained(tmp_path / "whole")
    model.config.min_heads = 0
    model.prune_heads({0: [1], 1: [0, 1, 2, 3], 2: [0, 3]})
    model.save_pretrained(tmp_path / "whole")
    back = to_transformers(tmp_path / "whole", output=tmp_path / "back")
    ids = torch.randint(5, 20, (3, 11), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        ours = BudgetFormerForSequenceClassification.from_pretrained(tmp_path / "whole").eval()(
            ids, torch.ones_like(ids)
        )
        torch.testing.assert_close(back(ids, torch.ones_like(ids)).logits, ours.logits, atol=1e-4, rtol=1e-4)


def test_a_classifier_is_budgeted_and_pruned_in_one_run(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", "bert")
    data = write_csv(tmp_path / "train.csv", texts(60))
    fast: dict[str, Any] = {"device": "cpu", "quiet": True, "batch_size": 16, "gate_learning_rate": 5e-2}
    asked: dict[str, Any] = {"prune_unused": True, "target_accuracy_drop": 99}
    result = budget_classifier(source, train=data, output=tmp_path / "out", epochs=6, **asked, **fast)
    record = json.loads((tmp_path / "out" / "training.json").read_text(encoding="utf-8"))
    assert record["pruning"] == json.loads(json.dumps(result.pruning))
    made = Classifier.from_pretrained(tmp_path / "out", device="cpu")
    assert result.pruning is not None
    before, after = result.pruning["heads"]
    assert (before, after) == (12, sum(made.config.heads_per_layer))
    assert after < before
    assert result.pruning["rows"] + result.validation_rows == 60
    assert result.pruning["held_out"]["rows"] == result.validation_rows
    assert result.pruning["held_out"]["accuracy_after"] == pytest.approx(result.metrics["accuracy"])
    # The target is chosen afterwards, among the numbers of heads that are left.
    assert result.choice is not None
    assert result.choice.reference.figures["mean_heads"] <= after / 3
    most = max(made.config.heads_per_layer)
    assert [point["asked"] for point in record["curve"]] == [None, *range(1, most + 1)]
    assert made.config.default_budget == result.choice.budget
    assert result.pruning["budget"] is None
    assert record["parameters"] == result.pruning["parameters"][1] < result.pruning["parameters"][0]
    assert "## Heads dropped for good" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    whole = load_file(next((tmp_path / "out" / "checkpoints").glob("checkpoint-*")) / "model.safetensors")
    assert sum(t.numel() for t in whole.values()) == result.pruning["parameters"][0]
    for wrong in ({"budgeted": False}, {"head_choice": "random"}):
        asked = fast | {"gate_learning_rate": None, "config": wrong}
        with pytest.raises(ValueError, match="prune_unused needs heads that are chosen by what a text is"):
            budget_classifier(source, train=data, output=tmp_path / "no", prune_unused=True, **asked)


def test_zero_shot_drops_what_the_ranking_leaves_out(tmp_path: Path) -> None:
    source, data = write_source(tmp_path / "source", "bert"), write_csv(tmp_path / "train.csv", texts(12))
    rows = RowSource(data=str(data))
    plain = convert(source, output=tmp_path / "plain", zero_shot=ZeroShot(source=rows, budget=0.5))
    fewer = convert(source, output=tmp_path / "fewer", zero_shot=ZeroShot(source=rows, budget=0.5, prune=True))
    assert plain.config.kept_heads is None
    assert fewer.config.heads_per_layer == [2, 2, 2]
    assert "The others are not in this model." in (tmp_path / "fewer" / "README.md").read_text(encoding="utf-8")
    models = [Classifier.from_pretrained(tmp_path / name, device="cpu") for name in ("plain", "fewer")]
    for text, _ in texts(5, seed=3):
        assert models[0](text).scores == pytest.approx(models[1](text).scores, abs=1e-5)


def test_what_cannot_be_pruned_is_refused_and_nothing_is_written(folder: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    dense = make_folder(tmp_path / "dense", budgeted=False)
    random = make_folder(tmp_path / "random", head_choice="random")
    named = write_csv(tmp_path / "named.csv", ROWS[:5], ("words", "kind"))
    empty = write_csv(tmp_path / "empty.csv", [])
    wrong = write_csv(tmp_path / "wrong.csv", [("some text", "nobody")])
    none = write_csv(tmp_path / "none.csv", [("some text", "")])
    asked = RowSource(data=str(named), columns=Columns(text=("texts",)))
    for place, given, said in (
        (dense, {"data": data}, "full attention"),
        (random, {"data": data}, "at random"),
        (tmp_path / "nowhere", {"data": data}, "does not exist"),
        (folder, {"data": asked}, "texts"),
        (folder, {"data": tmp_path / "no.csv"}, "no such file"),
        (folder, {"data": empty}, "no record"),
        (folder, {"data": data, "held_out": tmp_path / "no.csv"}, "no such file of held-out rows"),
        (folder, {"data": data, "held_out": wrong}, "nobody"),
        (folder, {"data": data, "held_out": none}, "no labelled rows"),
    ):
        with pytest.raises(ValueError, match=said):
            prune_unused(place, output=out, **given)
        assert not out.exists()
    with pytest.raises(ValueError, match="is not empty"):
        prune_unused(folder, data=data, output=folder)
