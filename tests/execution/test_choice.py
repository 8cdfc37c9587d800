"""Which execution a layer and a model take, and that they agree."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from budgetformer import BudgetedSelfAttention, BudgetFormerConfig, BudgetFormerForSequenceClassification
from budgetformer.execution import packed, reference, resolve
from budgetformer.method import static_policy

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_auto_is_packed_on_a_cpu_without_gradients_and_the_reference_otherwise() -> None:
    assert resolve("auto", gradients=False, device=CPU) is packed
    assert resolve("auto", gradients=True, device=CPU) is reference
    assert resolve("auto", gradients=False, device=CUDA) is reference


def test_a_named_execution_is_taken_or_refused_and_never_replaced() -> None:
    assert resolve("reference", gradients=False, device=CPU) is reference
    assert resolve("packed", gradients=False, device=CPU) is packed
    with pytest.raises(RuntimeError, match="execution='packed' is for inference"):
        resolve("packed", gradients=True, device=CPU)
    with pytest.raises(ValueError, match="execution must be one of auto, reference, packed, got 'fast'"):
        resolve("fast", gradients=False, device=CPU)


def make_layer(execution: str, **changes: Any) -> BudgetedSelfAttention:
    torch.manual_seed(0)
    return BudgetedSelfAttention(hidden_size=32, num_heads=8, execution=execution, dropout=0.5, **changes)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_layer_asked_for_packed_raises_while_gradients_are_wanted(mode: str) -> None:
    layer = make_layer("packed").train(mode == "train")
    with pytest.raises(RuntimeError, match="is for inference"):
        layer(torch.randn(2, 5, 32))


def test_training_mode_is_never_packed_even_without_gradients() -> None:
    with torch.no_grad(), pytest.raises(RuntimeError, match="is for inference"):
        make_layer("packed").train()(torch.randn(2, 5, 32))


def test_auto_keeps_the_gradient_of_an_evaluated_layer() -> None:
    layer = make_layer("auto").eval()
    layer(torch.randn(2, 5, 32)).hidden.square().sum().backward()
    assert layer.qkv.weight.grad is not None


def test_a_frozen_layer_is_packed_unless_its_input_wants_a_gradient() -> None:
    layer = make_layer("packed").eval().requires_grad_(False)
    assert layer(torch.randn(2, 5, 32)).hidden.shape == (2, 5, 32)
    with pytest.raises(RuntimeError, match="is for inference"):
        layer(torch.randn(2, 5, 32, requires_grad=True))


@pytest.mark.parametrize("selection", ["soft", "straight_through"])
def test_a_layer_gives_the_same_packed_and_by_reference(selection: str) -> None:
    x = torch.randn(3, 9, 32, generator=torch.Generator().manual_seed(1))
    mask = torch.arange(9)[None] < torch.tensor([9, 1, 5])[:, None]
    for budget in (None, 0.3, torch.tensor([0.2, 1.0, 0.6])):
        with torch.inference_mode():
            fast, slow = (
                make_layer(execution, selection=selection).eval()(x, mask, budget=budget, need_maps=True)
                for execution in ("packed", "reference")
            )
        assert torch.equal(fast.decision.kept_BH, slow.decision.kept_BH)
        torch.testing.assert_close(fast.hidden[mask], slow.hidden[mask], rtol=0, atol=1e-5)
        torch.testing.assert_close(fast.maps, slow.maps, rtol=0, atol=1e-5)


def make_model(execution: str, dtype: torch.dtype = torch.float32, **changes: Any) -> Any:
    torch.manual_seed(3)
    config = BudgetFormerConfig(
        **{"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 3, "intermediate_size": 48, "num_labels": 3}
        | {"initializer_range": 0.2, "max_position_embeddings": 64, "execution": execution}
        | changes
    )
    return BudgetFormerForSequenceClassification(config).to(dtype).eval()


def make_batch(lengths: list[int], padded: int | None = None) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(5)
    mask = torch.arange(padded or max(lengths))[None] < torch.tensor(lengths)[:, None]
    ids = torch.zeros(mask.shape, dtype=torch.long)
    ids[mask] = torch.randint(1, 50, (int(mask.sum()),), generator=generator)
    return {"input_ids": ids, "attention_mask": mask.long()}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"selection": "soft"},
        {"min_heads": 0, "fixed_budget": 0},
        {"norm_position": "pre"},
        {"pooling": "first"},
        {"position_embedding_type": "learned", "type_vocab_size": 2},
        {"num_hidden_layers": 0},
    ],
    ids=lambda changes: ",".join(f"{k}={v}" for k, v in changes.items()) or "default",
)
@pytest.mark.parametrize("request_", [{}, {"budget": 0.4}, {"max_budget": 0.25}], ids=str)
def test_the_whole_model_gives_the_same_packed_and_by_reference(
    changes: dict[str, Any], request_: dict[str, float]
) -> None:
    batch = make_batch([5, 1, 0, 40, 17, 63])
    want = {"output_budgets": True, "output_attentions": True, "output_hidden_states": True}
    with torch.inference_mode():
        fast, slow = (
            make_model(execution, **changes)(**batch, **request_, **want) for execution in ("packed", "reference")
        )
    torch.testing.assert_close(fast.logits, slow.logits, rtol=0, atol=1e-5)
    if slow.heads is not None:
        assert torch.equal(fast.heads, slow.heads)
        assert torch.equal(fast.kept, slow.kept)
        torch.testing.assert_close(fast.gates, slow.gates, rtol=0, atol=1e-5)
    for ours, theirs in zip(
        (*fast.hidden_states, *fast.attentions), (*slow.hidden_states, *slow.attentions), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)


@pytest.mark.parametrize("execution", ["packed", "reference"])
def test_an_input_gets_the_same_answer_alone_in_any_batch_and_in_any_order(execution: str) -> None:
    model = make_model(execution)
    batch = make_batch([5, 1, 40, 17, 8, 17])
    order = torch.tensor([4, 2, 0, 5, 3, 1])
    with torch.inference_mode():
        together = model(**batch, output_budgets=True)
        shuffled = model(**{k: v[order] for k, v in batch.items()}, output_budgets=True)
        assert together.heads.unique().numel() > 1
        assert torch.equal(shuffled.kept, together.kept[order])
        torch.testing.assert_close(shuffled.logits, together.logits[order], rtol=0, atol=1e-5)
        for row, length in enumerate(batch["attention_mask"].sum(dim=-1).tolist()):
            alone = model(**{k: v[row : row + 1, :length] for k, v in batch.items()}, output_budgets=True)
            assert torch.equal(alone.kept[0], together.kept[row])
            torch.testing.assert_close(alone.logits[0], together.logits[row], rtol=0, atol=1e-5)


def test_bfloat16_and_autocast_models_agree_with_float32_within_five_percent() -> None:
    fixed = {"budget": 0.5, "policy": static_policy([5, 1, 2, 7, 0, 3, 6, 4])}
    batch = make_batch([5, 1, 40, 17])
    with torch.inference_mode():
        exact = make_model("reference")(**batch, **fixed).logits
        scale = exact.abs().max()
        half = make_model("packed", torch.bfloat16)(**batch, **fixed).logits
        with torch.autocast("cpu", dtype=torch.bfloat16):
            mixed = make_model("packed")(**batch, **fixed).logits
    assert half.dtype == torch.bfloat16
    assert (half.float() - exact).abs().max() < 0.05 * scale
    assert (mixed.float() - exact).abs().max() < 0.05 * scale


def test_a_partly_frozen_model_still_gives_gradients_with_auto() -> None:
    model = make_model("auto").requires_grad_(False)
    model.budgetformer.layers[2].attention.requires_grad_()
    model(**make_batch([5, 3])).logits.sum().backward()
    assert model.budgetformer.layers[2].attention.qkv.weight.grad is not None


def test_auto_is_packed_in_inference_mode_and_says_nothing() -> None:
    batch = make_batch([5, 1, 40, 17])
    with torch.inference_mode():
        automatic, named = (make_model(execution)(**batch).logits for execution in ("auto", "packed"))
    assert torch.equal(automatic, named)


def test_a_model_asked_for_packed_raises_in_training() -> None:
    with pytest.raises(RuntimeError, match="execution='packed' is for inference"):
        make_model("packed").train()(**make_batch([5, 3]))


def enable_checkpointing(model: Any, **options: Any) -> None:
    """Older releases of transformers call it gradient, newer ones activation checkpointing."""
    with warnings.catch_warnings(category=FutureWarning, action="ignore"):
        model.gradient_checkpointing_enable(options)


def test_gradient_checkpointing_trains_with_auto() -> None:
    grads = []
    for checkpointing in (False, True):
        model = make_model("auto", sigma_max=0.0).train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout | BudgetedSelfAttention):
                module.p = module.dropout = 0.0
        if checkpointing:
            enable_checkpointing(model, use_reentrant=False)
            model.enable_input_require_grads()
        model.set_progress(0.5)
        model(**make_batch([5, 3]), labels=torch.tensor([0, 2])).loss.backward()
        grads.append(model.budgetformer.layers[0].attention.qkv.weight.grad)
    torch.testing.assert_close(grads[0], grads[1])
