"""Attention of the first tokens alone is the first row of attention of all tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from budgetformer import BudgetedSelfAttention
from budgetformer.execution import TokenLayout, attend_first, packed
from budgetformer.metering.macs import executed_macs

from .scratch import dirty_memory
from .test_choice import make_batch, make_model
from .test_packed import choose, make_weights


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_it_is_the_first_row_of_the_whole(data: st.DataObject) -> None:
    batch, length = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 9))
    heads, size = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5))
    bits = st.lists(st.booleans(), min_size=batch * length, max_size=batch * length)
    mask = torch.tensor(data.draw(bits)).view(batch, length)
    counts = data.draw(st.lists(st.integers(0, heads), min_size=batch, max_size=batch))
    kept, gates = choose(counts, heads, seed=data.draw(st.integers(0, 99)))
    weights = make_weights(width=heads * size, heads=heads, bias=data.draw(st.booleans()))
    layout = TokenLayout(mask, packed=True)
    x = torch.randn(int(mask.sum()), heads * size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode(), dirty_memory():
        whole, _ = packed.attend(x, layout, weights, kept, gates)
        short = attend_first(x, layout, weights, kept, gates)
    real = mask.any(dim=-1)
    torch.testing.assert_close(short[real], layout.first(whole)[real], rtol=0, atol=1e-5)


@pytest.mark.parametrize("execution", ["packed", "reference"])
def test_a_layer_gives_first_tokens_by_every_execution(execution: str) -> None:
    torch.manual_seed(0)
    layer = BudgetedSelfAttention(hidden_size=16, num_heads=4, execution=execution).eval()
    x, mask = torch.randn(3, 5, 16), torch.arange(5)[None] < torch.tensor([5, 1, 3])[:, None]
    with torch.inference_mode():
        whole, short = layer(x, mask), layer(x, mask, first_only=True)
        torch.testing.assert_close(short.hidden, whole.hidden[:, 0], rtol=0, atol=1e-6)
        with pytest.raises(ValueError, match="first_only gives no maps"):
            layer(x, mask, first_only=True, need_maps=True)


def test_gradients_are_refused() -> None:
    layout = TokenLayout(torch.ones(1, 3, dtype=torch.bool), packed=True)
    weights = make_weights(width=8, heads=2)
    with pytest.raises(RuntimeError, match="is for inference"):
        attend_first(torch.randn(3, 8, requires_grad=True), layout, weights, *choose([1], 2))


@pytest.mark.parametrize("changes", [{}, {"norm_position": "pre"}, {"min_heads": 0, "s_max": 0.3}], ids=str)
@pytest.mark.parametrize("budget", [None, 0.3, 1.0])
def test_a_classifier_with_first_token_pooling_answers_as_the_reference(
    changes: dict[str, Any], budget: float | None
) -> None:
    batch = make_batch([5, 1, 0, 40, 17, 63])
    with torch.inference_mode():
        fast, slow = (
            make_model(execution, pooling="first", **changes)(**batch, budget=budget, output_budgets=True)
            for execution in ("packed", "reference")
        )
    torch.testing.assert_close(fast.logits, slow.logits, rtol=0, atol=1e-5)
    assert torch.equal(fast.kept, slow.kept)


@pytest.mark.parametrize("budget", [None, 0.25, 1.0])
def test_the_last_layer_costs_what_the_formula_says(budget: float | None) -> None:
    lengths = [5, 1, 40, 17]
    batch = make_batch(lengths)
    model = make_model("packed", pooling="first")
    with torch.inference_mode(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        output = model(**batch, budget=budget, output_budgets=True)
    counted = counter.get_total_flops() // 2
    assert counted == pytest.approx(executed_macs(model.config, lengths, output.heads).sum(), rel=0.01)
    assert counted < 0.9 * executed_macs(model.config, lengths, output.heads, whole=True).sum()


def test_asking_for_hidden_states_computes_all_tokens() -> None:
    batch = make_batch([5, 9])
    model = make_model("packed", pooling="first")
    with torch.inference_mode():
        whole = model(**batch, output_hidden_states=True)
        short = model(**batch)
    assert whole.hidden_states[-1].shape == (2, 9, 32)
    torch.testing.assert_close(whole.logits, short.logits, rtol=0, atol=1e-5)
