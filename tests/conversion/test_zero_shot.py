"""Heads ranked by measured importance, and a fixed share of them kept without training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from budgetformer import BudgetFormerForSequenceClassification, Classifier, convert
from budgetformer.conversion import RowSource, ZeroShot
from budgetformer.conversion.gates import even_scores, lower_budgets, open_gates, rank_heads
from budgetformer.conversion.importance import gate_gradients, head_importance
from budgetformer.data.columns import Columns
from budgetformer.data.encoding import Encoded

from ..conftest import sentences
from ..execution.test_packed import right_padded
from .sources import LABELS, write_source

WriteCsv = Callable[..., Path]
MakeModel = Callable[..., BudgetFormerForSequenceClassification]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("zero") / "source", "bert")


def opened(make: MakeModel, **changes: Any) -> BudgetFormerForSequenceClassification:
    model = make(initializer_range=0.3, **changes)
    open_gates(model)
    return model


@pytest.mark.parametrize("shape", [{}, {"pooling": "first", "classifier_activation": "tanh", "norm_position": "pre"}])
def test_gradients_at_the_gates_are_those_of_finite_differences(small_model: MakeModel, shape: dict[str, Any]) -> None:
    """Scaling the output columns of a head by 1 ± ε is the same as its gate at 1 ± ε."""
    model = opened(small_model, **shape).double()
    mask = right_padded([7, 4])
    ids = torch.randint(5, 120, mask.shape, generator=torch.Generator().manual_seed(0)) * mask
    labels = torch.tensor([2, 0])
    found = gate_gradients(model, {"input_ids": ids, "attention_mask": mask}, labels)
    assert found.shape == (2, 3, 4)
    step = 1e-3
    for layer in range(3):
        weight = model.budgetformer.layers[layer].attention.output.weight
        for head in range(4):
            losses = []
            for factor in (1 + step, 1 - step):
                kept = weight.detach().clone()
                with torch.no_grad():
                    weight[:, 8 * head : 8 * (head + 1)] *= factor
                    logits = model(ids, mask, budget=1.0).logits
                    weight.copy_(kept)
                losses.append(F.cross_entropy(logits, labels, reduction="none"))
            slope = (losses[0] - losses[1]) / (2 * step)
            torch.testing.assert_close(found[:, layer, head].double(), slope, rtol=2e-3, atol=2e-4)


def test_importance_is_the_mean_over_rows_whatever_the_batches(small_model: MakeModel) -> None:
    model = opened(small_model).train()
    lengths = torch.randint(2, 30, (37,), generator=torch.Generator().manual_seed(0)).tolist()
    encoded = Encoded(input_ids=[list(range(5, 5 + n)) for n in lengths], truncated=(False,) * 37, empty=(False,) * 37)
    labels = [n % 3 for n in range(37)]
    done: list[int] = []
    importance = head_importance(model, encoded, labels, progress=done.append)
    assert model.training
    assert sum(done) == 37
    one_by_one = torch.stack(
        [
            gate_gradients(model.eval(), {"input_ids": torch.tensor([ids])}, torch.tensor([label]))[0].abs()
            for ids, label in zip(encoded.input_ids, labels, strict=True)
        ]
    )
    torch.testing.assert_close(importance, one_by_one.mean(dim=0), rtol=1e-3, atol=1e-5)


def test_scores_fall_evenly_along_the_ranking_with_ties_to_the_first() -> None:
    assert even_scores(torch.tensor([0.1, 5.0, 0.3])).tolist() == [-1.0, 1.0, 0.0]
    assert even_scores(torch.zeros(3)).tolist() == [1.0, 0.0, -1.0]
    assert even_scores(torch.ones(1)).tolist() == [0.0]


def test_a_ranking_is_the_same_for_every_input_and_budgets_can_be_lowered(small_model: MakeModel) -> None:
    model = opened(small_model)
    importance = torch.tensor([[1.0, 4, 3, 2], [9, 8, 7, 6], [1, 2, 3, 4]])
    rank_heads(model, importance)
    ids = torch.randint(5, 120, (6, 9), generator=torch.Generator().manual_seed(0))
    kept = model(ids, budget=0.5, output_budgets=True).kept
    wanted = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]]).bool()
    assert torch.equal(kept, wanted.expand(6, 3, 4))
    assert (model(ids, output_budgets=True).heads == 4).all()
    lower_budgets(model, 0.0)
    assert (model(ids, output_budgets=True).budgets == 0.5).all()


def test_the_folder_keeps_the_best_heads_of_every_layer(source: Path, tmp_path: Path, write_csv: WriteCsv) -> None:
    data = write_csv(sentences(40, labels=list(LABELS)))
    result = convert(
        source, output=tmp_path / "out", zero_shot=ZeroShot(source=RowSource(data=str(data)), budget=0.5, most=20)
    )
    assert result.rows == 20
    assert result.importance is not None
    classifier = Classifier.from_pretrained(tmp_path / "out", device="cpu")
    config = classifier.config
    assert (config.fixed_budget, config.text_columns, config.label_column) == (0.5, ["text"], "label")
    for answer in classifier([text for text, _ in sentences(6, labels=list(LABELS))], details=True):
        assert answer.heads == [2, 2, 2]
        best = result.importance.argsort(dim=-1, descending=True)[:, :2].sort(dim=-1).values
        assert [row.nonzero()[0].tolist() for row in answer.kept] == best.tolist()
    convert(source, output=tmp_path / "whole")
    whole = Classifier.from_pretrained(tmp_path / "whole", device="cpu")
    text = "the lamp was very good"
    assert list(classifier(text, budget=1.0).scores.values()) == pytest.approx(
        list(whole(text).scores.values()), abs=1e-5
    )
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "on 20 labelled rows" in card
    assert "keeps the best 2 of 4 (a fixed budget of 0.5). Nothing was trained" in card
    assert result.heads_kept == 2


@pytest.mark.gpu
def test_the_heads_are_ranked_on_the_device_that_was_asked_for(
    source: Path, tmp_path: Path, write_csv: WriteCsv
) -> None:
    data = write_csv(sentences(12, labels=list(LABELS)))
    torch.cuda.reset_peak_memory_stats()
    found = {
        device: convert(source, output=tmp_path / device, zero_shot=str(data), device=device).importance
        for device in ("cpu", "cuda")
    }
    assert torch.cuda.max_memory_allocated() > 0
    torch.testing.assert_close(found["cuda"], found["cpu"], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("device", ["nonsense", "cuda:99"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_read(tmp_path: Path, device: str) -> None:
    with pytest.raises(ValueError, match="device"):
        convert(tmp_path / "nowhere", output=tmp_path / "out", device=device)
    assert not (tmp_path / "out").exists()


def test_pairs_are_ranked_as_pairs(source: Path, tmp_path: Path, write_csv: WriteCsv) -> None:
    rows = [(a, b, label) for (a, label), (b, _) in zip(*[sentences(9, labels=list(LABELS))] * 2, strict=True)]
    data = write_csv(rows, header=("premise", "hypothesis", "gold"))
    columns = Columns(text=("premise",), pair="hypothesis", label="gold")
    result = convert(
        source, output=tmp_path / "out", zero_shot=ZeroShot(source=RowSource(data=str(data), columns=columns))
    )
    assert (result.rows, result.config.pair_column) == (9, "hypothesis")
    assert "clf([Pair(" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_rows_that_do_not_fit_are_refused_and_nothing_is_written(
    source: Path, tmp_path: Path, write_csv: WriteCsv
) -> None:
    for name, rows, said in (
        (
            "other.csv",
            [("a text", "LABEL_0"), ("another", "praise")],
            r"label 'LABEL_0' \(1 row\) is none of the class",
        ),
        ("none.csv", [("a text", ""), ("another", "-")], "has no labelled rows"),
    ):
        with pytest.raises(ValueError, match=said):
            convert(source, output=tmp_path / "out", zero_shot=write_csv(rows, name=name))
    with pytest.raises(ValueError, match="there is no such file, nor a data set"):
        convert(source, output=tmp_path / "out", zero_shot="nowhere.csv")
    encoder = write_source(tmp_path / "encoder", "bert", "Model")
    with pytest.raises(ValueError, match="is an encoder without labels, so its heads cannot be ranked"):
        convert(encoder, output=tmp_path / "out", zero_shot="nowhere.csv")
    for options, said in (({"budget": 0.0}, "budget must lie in"), ({"most": 0}, "rows must be at least 1")):
        with pytest.raises(ValueError, match=said):
            ZeroShot(source=RowSource(data="x"), **options)
    assert not (tmp_path / "out").exists()


def test_the_folder_in_which_one_stands_is_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inode = tmp_path.stat().st_ino
    convert(source, output=".")
    assert tmp_path.stat().st_ino == inode  # whoever stands in it sees the files
    assert Classifier.from_pretrained(tmp_path, device="cpu")("good").label
    assert not list(tmp_path.glob(".*"))
