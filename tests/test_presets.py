"""The presets, the paper's model by its parameters, and the full-attention twin."""

from __future__ import annotations

import pytest
import torch

from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification
from budgetformer.configuration import PRESETS
from budgetformer.training.settings import OPTIMISATION


def shapes(config: BudgetFormerConfig) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        model = BudgetFormerForSequenceClassification(config)
    return {name: tuple(p.shape) for name, p in model.named_parameters()}


def mebibytes(config: BudgetFormerConfig) -> float:
    return sum(torch.Size(shape).numel() for shape in shapes(config).values()) * 4 / 2**20


@pytest.mark.parametrize("name", ["tiny", "small", "base", "paper"])
def test_a_preset_makes_a_model_and_has_optimisation_defaults(name: str) -> None:
    assert "classifier.weight" in shapes(BudgetFormerConfig.preset(name))
    assert set(OPTIMISATION) == set(PRESETS)
    assert BudgetFormerConfig.preset(name).selection == ("soft" if name == "paper" else "straight_through")


def test_the_presets_grow() -> None:
    sizes = [mebibytes(BudgetFormerConfig.preset(name)) for name in ("tiny", "small", "base", "paper")]
    assert sizes == sorted(sizes)


def test_the_paper_preset_has_the_papers_parameters() -> None:
    budgeted = BudgetFormerConfig.preset("paper", num_labels=3)
    dense = budgeted.dense_twin()
    assert sum(torch.Size(shape).numel() for shape in shapes(dense).values()) == 51_794_691
    assert f"{mebibytes(dense):.2f}" == "197.58"
    assert f"{mebibytes(budgeted):.2f}" == "206.70"
    assert not [name for name in shapes(budgeted) if "position" in name or "embeddings.norm" in name]


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="preset must be one of tiny, small, base, paper, got 'large'"):
        BudgetFormerConfig.preset("large")


@pytest.mark.parametrize("changes", [{}, {"fixed_budget": 0.5}, {"type_vocab_size": 2, "norm_position": "pre"}])
def test_the_twin_differs_in_the_nets_alone(changes: dict[str, object]) -> None:
    config = BudgetFormerConfig(hidden_size=16, num_attention_heads=2, vocab_size=50, **changes)
    budgeted, dense = shapes(config), shapes(config.dense_twin())
    assert dense == {n: s for n, s in budgeted.items() if "budget_net" not in n and "relevance_net" not in n}
    assert dense != budgeted


def test_the_twin_with_the_same_weights_is_the_model_with_all_heads_open() -> None:
    torch.manual_seed(0)
    config = BudgetFormerConfig(hidden_size=16, num_attention_heads=2, vocab_size=50)
    model = BudgetFormerForSequenceClassification(config).eval()
    twin = BudgetFormerForSequenceClassification(config.dense_twin()).eval()
    left_out = twin.load_state_dict(model.state_dict(), strict=False)
    assert not left_out.missing_keys
    ids = torch.arange(5, 25).view(2, 10)
    with torch.no_grad():
        torch.testing.assert_close(twin(ids).logits, model(ids, budget=1.0).logits, rtol=0, atol=1e-6)
        assert twin(ids, output_budgets=True).heads is None
        for field in ("budget", "max_budget"):
            with pytest.raises(ValueError, match=f"{field} has no effect: this is full attention"):
                twin(ids, **{field: 0.5})
