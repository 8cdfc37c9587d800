"""Which execution a layer and a model take, and that they agree."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from budgetformer import BudgetedSelfAttention, BudgetFormerConfig, BudgetFormerForSequenceClassification
from budgetformer.execution import cuda, packed, reference, resolve
from budgetformer.method import static_policy

OLD_GPU = torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0)
new_enough = pytest.mark.skipif(OLD_GPU, reason="this GPU cannot run the execution cuda")


def choose(
    name: str,
    device: str,
    dtype: torch.dtype = torch.float32,
    *,
    gradients: bool = False,
    head_size: int = 64,
) -> ModuleType:
    return resolve(name, gradients=gradients, device=torch.device(device), dtype=dtype, head_size=head_size)


@new_enough
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_auto_skips_where_it_can_and_is_the_reference_with_gradients(dtype: torch.dtype) -> None:
    half = dtype in (torch.bfloat16, torch.float16)
    assert choose("auto", "cpu", dtype) is packed
    assert choose("auto", "cuda", dtype) is (cuda if half else packed)
    assert choose("auto", "cuda", dtype, head_size=20) is packed
    assert choose("auto", "cuda", dtype, head_size=264) is packed
    assert choose("auto", "mps", dtype) is reference
    for device in ("cpu", "cuda"):
        assert choose("auto", device, dtype, gradients=True) is reference


@new_enough
@pytest.mark.parametrize(("device", "name"), [("cpu", "packed"), ("cuda", "packed"), ("cuda", "cuda")])
def test_a_named_execution_is_taken_and_refused_with_gradients(device: str, name: str) -> None:
    module = {"packed": packed, "cuda": cuda}[name]
    assert choose("reference", device, torch.bfloat16) is reference
    assert choose(name, device, torch.bfloat16) is module
    with pytest.raises(RuntimeError, match=f"execution='{name}' is for inference"):
        choose(name, device, torch.bfloat16, gradients=True)
    with pytest.raises(ValueError, match="execution must be one of auto, reference, packed, cuda, got 'fast'"):
        choose("fast", device)


def test_cuda_is_refused_with_the_reason_where_it_cannot_run() -> None:
    with pytest.raises(
        ValueError, match=r"'cuda' runs on NVIDIA GPUs, and the model is on cpu; use 'auto' or 'packed'"
    ):
        choose("cuda", "cpu", torch.bfloat16)
    with pytest.raises(ValueError, match=r"'cuda' computes in bfloat16 or float16, and the model is float32; use"):
        choose("cuda", "cuda")
    for size in (4, 20, 264):
        with pytest.raises(ValueError, match=rf"'cuda' takes heads of 8, 16, … 256 dimensions, and these have {size}"):
            choose("cuda", "cuda", torch.float16, head_size=size)


def test_a_model_on_a_cpu_refuses_cuda_and_stays_as_it_was() -> None:
    model = make_model("packed")
    with pytest.raises(ValueError, match="execution='cuda' runs on NVIDIA GPUs"):
        model.set_execution("cuda")
    assert model.execution_path is packed
    with pytest.raises(ValueError, match="execution='cuda' runs on NVIDIA GPUs"), torch.inference_mode():
        make_model("cuda")(**make_batch([5, 3]))
    with pytest.raises(ValueError, match="execution='cuda' runs on NVIDIA GPUs"), torch.inference_mode():
        make_layer("cuda").eval()(torch.randn(2, 5, 32))


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


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_model_on_any_batch_gives_the_same_packed_and_by_reference(data: st.DataObject) -> None:
    """Odd sizes, one head, no heads, empty inputs, a budget for each input."""
    heads, size = data.draw(st.sampled_from([1, 2, 3, 4, 8])), data.draw(st.sampled_from([1, 2, 3, 5, 8, 16]))
    changes = {
        "hidden_size": heads * size,
        "num_attention_heads": heads,
        "min_heads": data.draw(st.integers(0, 1)),
        "position_embedding_type": "learned",
        "pooling": data.draw(st.sampled_from(["mean", "first"])),
        "selection": data.draw(st.sampled_from(["soft", "straight_through"])),
        "norm_position": data.draw(st.sampled_from(["pre", "post"])),
    }
    lengths = data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=8))
    shares = st.sampled_from([1e-9, 0.2, 0.3, 0.5, 0.99, 1.0])
    budget = data.draw(st.none() | shares | st.lists(shares, min_size=len(lengths), max_size=len(lengths)))
    budget = torch.tensor(budget) if isinstance(budget, list) else budget
    with torch.inference_mode():
        fast, slow = (
            make_model(execution, **changes)(**make_batch(lengths), budget=budget, output_budgets=True)
            for execution in ("packed", "reference")
        )
    assert torch.equal(fast.kept, slow.kept)
    assert fast.logits.isfinite().all()
    # Soft gates are a softmax at temperature 0.1, which multiplies rounding by ten.
    torch.testing.assert_close(fast.logits, slow.logits, rtol=0, atol=3e-5)
