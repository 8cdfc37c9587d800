"""Options of the architecture that pretrained encoders need: every execution gives the same answers with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification
from budgetformer.metering.macs import breakdown, executed_macs, padded_macs
from budgetformer.precision import apply_precision

from .execution.test_packed import right_padded

MakeModel = Callable[..., BudgetFormerForSequenceClassification]
LENGTHS = [20, 5, 33, 1, 12]
DESCENDANT = {"embedding_norm": True, "position_embedding_type": "learned", "pooling": "first"}
SHAPES: dict[str, dict[str, Any]] = {
    "bert": DESCENDANT | {"classifier_activation": "tanh", "type_vocab_size": 2},
    "roberta": DESCENDANT | {"classifier_activation": "tanh", "pooler_dropout": 0.1, "position_offset": 2},
    "electra": DESCENDANT | {"classifier_activation": "gelu", "embedding_size": 20},
    "modern": {
        "embedding_norm": True,
        "position_embedding_type": "rotary",
        "norm_position": "pre",
        "skip_first_norm": True,
        "is_gated_act": True,
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "local_attention": 8,
        "classifier_activation": "gelu",
        "classifier_bias": False,
        "classifier_norm": True,
        "pooling": "first",
    },
}
SHAPES["modern, mean"] = SHAPES["modern"] | {"pooling": "mean"}
shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def batch() -> dict[str, torch.Tensor]:
    mask = right_padded(LENGTHS)
    ids = torch.randint(5, 120, mask.shape, generator=torch.Generator().manual_seed(0)) * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": (ids > 60).long()}


@shapes
@pytest.mark.parametrize("budget", [None, 0.25, 1.0])
def test_packed_answers_as_the_reference(small_model: MakeModel, shape: dict[str, Any], budget: float | None) -> None:
    with torch.inference_mode():
        fast, slow = (
            small_model(execution=name, **shape)(**batch(), budget=budget, output_budgets=True)
            for name in ("packed", "reference")
        )
        states = small_model(execution="packed", **shape)(**batch(), budget=budget, output_hidden_states=True)
    torch.testing.assert_close(fast.logits, slow.logits, rtol=0, atol=1e-5)
    torch.testing.assert_close(states.logits, slow.logits, rtol=0, atol=1e-5)
    assert torch.equal(fast.kept, slow.kept)
    assert slow.logits.std() > 1e-3


@shapes
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_other_number_formats_stay_near(small_model: MakeModel, shape: dict[str, Any], precision: str) -> None:
    exact, other = small_model(initializer_range=0.1, **shape), small_model(initializer_range=0.1, **shape)
    apply_precision(other, precision)
    with torch.inference_mode():
        truth = exact(**batch(), budget=1.0).logits
        found = other(**batch(), budget=1.0).logits.float()
    assert (found - truth).abs().max() < 0.1 * truth.abs().max()
    assert not torch.equal(found, truth)


@shapes
def test_it_learns_saves_and_loads(small_model: MakeModel, shape: dict[str, Any], tmp_path: Path) -> None:
    model = small_model(**shape)
    model.train()
    model.set_progress(0.5)
    model(**batch(), labels=torch.tensor([0, 1, 2, 0, 1])).loss.backward()
    without = {name for name, p in model.named_parameters() if p.grad is None}
    assert without == set()
    model.eval().save_pretrained(tmp_path)
    again = BudgetFormerForSequenceClassification.from_pretrained(tmp_path).eval()
    with torch.inference_mode():
        torch.testing.assert_close(again(**batch()).logits, model(**batch()).logits, rtol=0, atol=1e-6)
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in again.state_dict().items())


@shapes
def test_multiply_adds_are_those_of_the_formula(small_model: MakeModel, shape: dict[str, Any]) -> None:
    for execution in ("packed", "reference"):
        model = small_model(execution=execution, **shape)
        with torch.inference_mode(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            output = model(**batch(), budget=0.5, output_budgets=True)
        counted = counter.get_total_flops() // 2
        formula = (
            executed_macs(model.config, LENGTHS, output.heads)
            if execution == "packed"
            else padded_macs(model.config, LENGTHS, max(LENGTHS))
        )
        assert counted == pytest.approx(formula.sum(), rel=0.001)


def test_a_window_and_a_pooler_are_in_the_formula() -> None:
    config = BudgetFormerConfig(**SHAPES["modern, mean"], num_hidden_layers=3)
    plain = BudgetFormerConfig(num_hidden_layers=3)
    near, far = (breakdown(c, [400], 8) for c in (config, plain))
    assert near["scores"] < 0.4 * far["scores"]
    assert near["classifier"] - far["classifier"] == 128**2
    assert near["feed_forward"] == 1.5 * far["feed_forward"]


def test_places_begin_at_the_offset(small_model: MakeModel) -> None:
    model = small_model(position_embedding_type="learned", position_offset=3, pooling="first")
    table = model.budgetformer.embeddings.position_embeddings.weight
    assert len(table) == 64 + 3
    before = model(**batch()).logits
    with torch.no_grad():
        table[:3] = 1e3
    assert torch.equal(model(**batch()).logits, before)
    with torch.no_grad():
        table[3] = 1e3
    assert not torch.equal(model(**batch()).logits, before)


def test_texts_are_cut_at_the_smaller_limit() -> None:
    assert BudgetFormerConfig(max_position_embeddings=64).text_limit == 64
    assert BudgetFormerConfig(max_position_embeddings=64, model_max_length=20).text_limit == 20


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("embedding_size", 0),
        ("position_offset", -1),
        ("local_attention", -2),
        ("global_rope_theta", 0),
        ("layer_types", ["full_attention"]),
        ("layer_types", ["full_attention"] * 3 + ["wide"]),
        ("classifier_activation", "step"),
        ("model_max_length", 513),
        ("pooler_dropout", 1.0),
    ],
)
def test_impossible_values_are_named(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{field}.*got|{field}.*must be"):
        BudgetFormerConfig(**{field: value})
    with pytest.raises(ValueError, match="hidden_size must give heads of an even size"):
        BudgetFormerConfig(position_embedding_type="rotary", hidden_size=24, num_attention_heads=8)
