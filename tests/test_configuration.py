"""Settings that cannot work are refused when the configuration is made; the rest survives a round trip."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification

NAN = math.nan
CASES = [(4, 32, 0.1, 1), (3, 30, 0.25, 1), (1, 8, 0.5, 1), (12, 48, 0.1, 1), (10, 40, 0.3, 3)]


@pytest.mark.parametrize("value", [0, -0.1, 1.0001, 9, NAN, True, "0.5"])
def test_a_fixed_budget_outside_its_range_is_named(value: Any) -> None:
    with pytest.raises(ValueError, match=f"fixed_budget must lie in .*got {value!r}"):
        BudgetFormerConfig(fixed_budget=value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("s_min", -0.1),
        ("s_min", NAN),
        ("s_max_start", 0.2),
        ("s_max_start", 1.5),
        ("ceiling_until", 0),
        ("ceiling_until", 1.1),
        ("distillation", -1.0),
        ("s_max", 1.0001),
        ("s_max", 9),
        ("s_max", 0),
        ("s_max", 0.05),  # below s_min
        ("min_heads", 9),
        ("min_heads", -1),
        ("min_heads", 1.5),
        ("tau_min", 0),
        ("tau_min", -1),
        ("tau_min", 3.0),
        ("tau_max", math.inf),
        ("alpha_max", -1),
        ("sigma_max", NAN),
        ("hidden_size", 130),
        ("num_attention_heads", 0),
        ("num_hidden_layers", -1),
        ("num_hidden_layers", 10**6),
        ("max_position_embeddings", 10**30),
        ("type_vocab_size", -1),
        ("hidden_dropout_prob", 1.0),
        ("label_smoothing", 1.0),
        ("class_weights", [1.0]),
        ("class_weights", [1.0, NAN]),
        ("pad_token_id", 30522),
        ("pad_token_id", None),
        ("default_budget", "0.5"),
        ("default_budget", NAN),
        ("default_budget", [0.5]),
        ("default_budget", True),
        ("budgeted", "false"),
        ("norm_bias", 1),
        ("pair_column", 5),
        ("label_column", ["label"]),
        ("selection", "hard"),
        ("pooling", "max"),
        ("position_embedding_type", "relative"),
        ("norm_position", "middle"),
        ("execution", "fast"),
        ("hidden_act", "gelo"),
        ("id2label", {0: "a", 1: "a"}),
        ("id2label", {1: "a", 2: "b"}),
        ("label2id", {"a": 0, "b": 0}),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_field_and_value(field: str, value: Any) -> None:
    named = {"tau_min": "tau_m(in|ax)", "label2id": "(label2id|id2label)"}.get(field, field)
    with pytest.raises(ValueError, match=f"^{named} must .*got "):
        BudgetFormerConfig(**{field: value})


def test_a_value_set_later_is_not_saved(small_model: Any, tmp_path: Path) -> None:
    model = small_model()
    model.config.default_budget = 2
    with pytest.raises(ValueError, match=r"^default_budget must .*got 2"):
        model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_value_set_later_is_refused_when_a_model_is_made() -> None:
    config = BudgetFormerConfig(hidden_size=8, num_attention_heads=2, vocab_size=9)
    config.s_max = 9
    with pytest.raises(ValueError, match=r"s_max must lie in .*got 9"):
        BudgetFormerForSequenceClassification(config)


@pytest.mark.parametrize("tau_min", [1e-45, 1e-6])
def test_a_temperature_near_zero_gives_a_finite_model(small_model: Any, tau_min: float) -> None:
    for dtype in (torch.float32, torch.float16):
        model = small_model(selection="soft", tau_min=tau_min).to(dtype)
        with torch.no_grad():
            assert bool(torch.isfinite(model(torch.arange(5, 25).view(2, 10)).logits).all())


def test_a_budget_of_nothing_needs_leave_to_use_no_heads() -> None:
    assert BudgetFormerConfig(fixed_budget=0, min_heads=0).fixed_budget == 0
    with pytest.raises(ValueError, match="fixed_budget must be None when budgeted is False"):
        BudgetFormerConfig(fixed_budget=0.5, budgeted=False)


def test_a_misspelt_field_is_refused_by_a_preset() -> None:
    with pytest.raises(ValueError, match="'s_mxa' is no field"):
        BudgetFormerConfig.preset("tiny", s_mxa=0.5)
    assert BudgetFormerConfig.preset("tiny", num_labels=7, s_max=0.5).num_labels == 7


def test_class_names_and_their_reverse_belong_together(tmp_path: Path) -> None:
    config = BudgetFormerConfig(id2label={0: "refund", 1: "praise", 2: "Übrig / other"}, class_weights=[1.0, 1.0, 1.0])
    assert config.label2id == {"refund": 0, "praise": 1, "Übrig / other": 2}
    assert BudgetFormerConfig(label2id={"a": 0, "b": 1}).id2label == {0: "a", 1: "b"}
    with pytest.raises(ValueError, match="label2id must be the reverse of id2label"):
        BudgetFormerConfig(id2label={0: "a", 1: "b"}, label2id={"a": 1, "b": 0})
    config.save_pretrained(tmp_path)
    loaded = BudgetFormerConfig.from_pretrained(tmp_path)
    assert loaded.id2label == config.id2label
    assert loaded.label2id == config.label2id
    assert loaded.to_dict() == config.to_dict()


def test_a_share_of_the_heads_rounds_the_same_way_wherever_it_comes_from(small_model: Any) -> None:
    for heads, size, share, kept in CASES:
        for value in (share, share / 3 * 3, 0.1 * 3 if share == 0.3 else share):
            fixed = small_model(num_attention_heads=heads, hidden_size=size, fixed_budget=value)
            learned = small_model(num_attention_heads=heads, hidden_size=size)
            ids = torch.arange(5, 25).view(2, 10)
            with torch.no_grad():
                assert set(fixed(ids, output_budgets=True).heads.flatten().tolist()) == {kept}
                assert set(learned(ids, budget=value, output_budgets=True).heads.flatten().tolist()) == {kept}
