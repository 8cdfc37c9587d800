"""Number formats of a classifier: what they answer, what they refuse, what ``auto`` says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from budgetformer import Classifier
from budgetformer.attention import budgeted_layers
from budgetformer.execution.int8 import Int8Linear
from budgetformer.precision import PRECISIONS, apply_precision, precision_of
from budgetformer.side_by_side import side_by_side

from .execution.test_choice import make_batch, make_model
from .model_folders import make_folder


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_an_int8_model_is_close_to_float32(pooling: str) -> None:
    batch = make_batch([5, 1, 40, 17, 63])
    exact, small = make_model("packed", pooling=pooling), make_model("packed", pooling=pooling)
    assert apply_precision(small, "int8").name == "int8"
    assert sum(isinstance(m, Int8Linear) for m in small.modules()) == 4 * small.config.num_hidden_layers
    with torch.inference_mode():
        for budget in (0.25, 0.5, 1.0):
            ours = small(**batch, budget=budget).logits
            truth = exact(**batch, budget=budget).logits
            assert (ours - truth).abs().max() < 0.1 * truth.abs().max()
            assert not torch.equal(ours, truth)


def test_an_int8_model_answers_outside_inference_mode_but_does_not_train() -> None:
    model = make_model("auto")
    apply_precision(model, "int8")
    assert model(**make_batch([5, 3])).logits.shape == (2, 3)
    with pytest.raises(RuntimeError, match="int8 is for inference"):
        model.train()(**make_batch([5, 3]))


def test_int8_is_refused_with_the_reference_execution() -> None:
    with pytest.raises(ValueError, match="precision 'int8' cannot be used: int8 has no reference execution"):
        apply_precision(make_model("reference"), "int8")


def test_auto_takes_a_format_of_this_machine_and_says_what_it_measured() -> None:
    model = make_model("auto")
    chosen = apply_precision(model, "auto")
    assert chosen.name in PRECISIONS
    assert "bf16" in chosen.why
    assert "int8" in chosen.why
    assert model(**make_batch([5, 3])).logits.isfinite().all()


def test_auto_does_not_take_int8_where_all_heads_are_computed() -> None:
    chosen = apply_precision(make_model("reference"), "auto")
    assert "int8" not in chosen.why
    assert chosen.name in ("float32", "bf16")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_folder_answers_in_every_format(tmp_path: Path, precision: str) -> None:
    classifier = Classifier.from_pretrained(make_folder(tmp_path), device="cpu", precision=precision)
    answers = classifier(["good", "", "bad bad"])
    assert len(answers) == 3
    assert all(abs(sum(a.scores.values()) - 1) < 1e-5 for a in answers)
    assert precision in ("auto", classifier.precision.name)


def test_a_format_is_made_from_float32_only() -> None:
    """Twice int8 would quantise whole numbers; from half precision the halved embeddings would stay."""
    for first in ("bf16", "int8"):
        model, batch = make_model("packed"), make_batch([5, 9])
        with torch.inference_mode():
            apply_precision(model, first)
            answer = model(**batch).logits
            assert apply_precision(model, first).name == first
            for other in {*PRECISIONS} - {first}:
                with pytest.raises(ValueError, match=f"made from a model in float32, and it is {first}"):
                    apply_precision(model, other)
            assert torch.equal(model(**batch).logits, answer)
    with pytest.raises(ValueError, match="and it is float16"):
        apply_precision(make_model("packed").half(), "int8")


@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
def test_a_model_tells_its_format_however_it_came_to_it(tmp_path: Path, precision: str) -> None:
    classifier = Classifier.from_pretrained(make_folder(tmp_path), device="cpu", precision=precision)
    assert precision_of(classifier.model).name == precision
    assert Classifier(model=classifier.model, tokenizer=classifier.tokenizer).precision.name == precision


def test_an_int8_model_is_neither_saved_nor_put_on_the_reference(tmp_path: Path) -> None:
    model = make_model("packed")
    apply_precision(model, "int8")
    with pytest.raises(ValueError, match="a model in int8 cannot be saved; save it in float32"):
        model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(ValueError, match="int8 has no reference execution"):
        model.set_execution("reference")
    assert model.config.execution == "packed"
    assert model(**make_batch([5, 3])).logits.isfinite().all()


def test_auto_leaves_the_random_state_of_the_process_alone() -> None:
    model = make_model("auto")
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    apply_precision(model, "auto")
    assert torch.equal(torch.rand(3), expected)


def test_choices_of_a_bf16_model_are_made_by_nets_in_float32() -> None:
    exact, half = make_model("packed"), make_model("packed")
    apply_precision(half, "bf16")
    for a, b in zip(budgeted_layers(exact), budgeted_layers(half), strict=True):
        assert b.qkv.weight.dtype == torch.bfloat16
        for net in ("relevance_net", "budget_net"):
            for mine, theirs in zip(getattr(b, net).parameters(), getattr(a, net).parameters(), strict=True):
                assert torch.equal(mine, theirs)


def test_threads_share_a_half_precision_model() -> None:
    model = make_model("packed").to(torch.bfloat16)
    batches = [make_batch([length, 3, length + 2]) for length in range(1, 13)]

    def work(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.inference_mode():
            return model(**batch).logits

    expected = [work(batch) for batch in batches]
    for _ in range(20):
        for found, logits in zip(side_by_side(work, batches, workers=4), expected, strict=True):
            assert torch.equal(found, logits)
