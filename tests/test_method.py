"""From the pooled input to the choice of heads, against a plain reading of the formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification, method
from budgetformer.objective import regularisers

from .method_reading import decide, plain_choice, plain_softmax, progresses, scores, shares, sigmoid

# Pooled input and budget


def test_the_pooled_input_is_the_mean_over_real_tokens() -> None:
    x = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [float("nan"), float("inf")]], [[9.0, 9.0]] * 3])
    mask = torch.tensor([[True, True, False], [False, False, False]])
    assert method.pooled_input(x, mask).tolist() == [[2.0, 3.0], [0.0, 0.0]]


def test_padding_and_its_gradient_are_invisible_to_the_pooled_input() -> None:
    x = torch.randn(2, 5, 3, requires_grad=True)
    mask = torch.tensor([[True, False, True, False, False], [False] * 5])
    method.pooled_input(x, mask).sum().backward()
    assert x.grad is not None
    assert x.grad[~mask].count_nonzero() == 0
    assert x.grad[mask].tolist() == [[0.5] * 3] * 2


def test_half_precision_tokens_are_pooled_in_float32() -> None:
    x = torch.full((1, 3000, 1), 100.0, dtype=torch.float16)  # the sum would overflow
    pooled = method.pooled_input(x, torch.ones(1, 3000, dtype=torch.bool))
    assert pooled.dtype == torch.float32
    assert pooled.item() == pytest.approx(100)


@given(logit=st.floats(-30, 30))
def test_the_budget_is_the_sigmoid_of_its_net(logit: float) -> None:
    assert method.budget(torch.tensor([logit])).item() == pytest.approx(sigmoid(logit), abs=1e-6)


# A budget at request time


def test_an_asked_budget_replaces_and_a_maximum_caps_the_learned_share() -> None:
    learned = torch.tensor([0.2, 0.6, 0.9])
    per_input = torch.tensor([0.1, 0.7, 1.0])

    def share(**request: Any) -> Tensor:
        return method.requested_budget(learned, request.get("budget"), request.get("max_budget"))

    torch.testing.assert_close(share(), learned)
    torch.testing.assert_close(share(budget=0.5).float(), torch.full((3,), 0.5))
    torch.testing.assert_close(share(budget=per_input).float(), per_input)
    torch.testing.assert_close(share(max_budget=0.5).float(), torch.tensor([0.2, 0.5, 0.5]))
    torch.testing.assert_close(share(max_budget=per_input).float(), torch.tensor([0.1, 0.6, 0.9]))
    torch.testing.assert_close(share(budget=0.8, max_budget=per_input).float(), torch.tensor([0.1, 0.7, 0.8]))


@pytest.mark.parametrize("field", ["budget", "max_budget"])
@pytest.mark.parametrize("value", [0, -0.1, 1.0001, 9, float("nan"), float("inf")])
def test_a_budget_out_of_range_is_refused_by_field_and_value(field: str, value: float) -> None:
    request = {"asked" if field == "budget" else field: value}
    with pytest.raises(ValueError, match=rf"{field} must lie in \(0, 1\], got {value}"):
        decide([0.5, 0.5], [[1.0, 2.0]] * 2, **request)
    request = {name: torch.tensor([0.5, value]) for name in request}
    with pytest.raises(ValueError, match=rf"{field} must lie in \(0, 1\], got .*{value}"):
        decide([0.5, 0.5], [[1.0, 2.0]] * 2, **request)


@pytest.mark.parametrize("value", [torch.ones(3), torch.ones(1), torch.ones(2, 1)], ids=lambda v: str(list(v.shape)))
def test_a_budget_per_input_must_fit_the_batch(value: Tensor) -> None:
    with pytest.raises(ValueError, match=r"budget must be one number or one per input \(2\), got shape"):
        decide([0.5, 0.5], [[1.0, 2.0]] * 2, asked=value)


# Scores, temperature, relevance


@given(progress=progresses)
def test_the_noise_shrinks_to_nothing(progress: float) -> None:
    z, noise = torch.tensor([[1.0, -2.0]]), torch.tensor([[0.5, 3.0]])
    noisy = method.noisy_scores(z, noise, sigma_max=0.5, progress=progress)
    expected = [[1 + 0.5 * 0.5 * (1 - progress), -2 + 3 * 0.5 * (1 - progress)]]
    torch.testing.assert_close(noisy, torch.tensor(expected))


def test_without_noise_scores_are_left_alone_in_float32() -> None:
    z = torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16)
    out = method.noisy_scores(z, None, sigma_max=0.5, progress=0.0)
    assert out.dtype == torch.float32
    assert out.tolist() == [[1.0, 2.0]]


@given(progress=progresses)
def test_the_schedules_are_those_of_the_formulas(progress: float) -> None:
    tau = method.temperature(progress, tau_min=0.1, tau_max=2.0, gamma=5.0)
    assert tau == pytest.approx(0.1 + 1.9 * math.exp(-5 * progress))
    assert method.budget_weight(progress, alpha_base=0.001, alpha_max=0.05) == pytest.approx(0.001 + 0.049 * progress)
    assert method.entropy_weight(progress, beta_max=0.05) == pytest.approx(0.05 * (1 - 2 * progress))


def test_the_schedules_start_and_end_where_they_should() -> None:
    assert method.temperature(0, tau_min=0.1, tau_max=2.0, gamma=5.0) == 2.0
    assert method.budget_weight(1, alpha_base=0.001, alpha_max=0.05) == pytest.approx(0.05)
    assert [method.entropy_weight(t, beta_max=0.05) for t in (0, 0.5, 1)] == [0.05, 0.0, -0.05]


def test_other_readings_of_temperature_and_entropy_weight() -> None:
    tau = [method.temperature(t, tau_min=0.1, tau_max=2.0, gamma=5.0, floored=True) for t in (0.0, 0.2, 1.0)]
    assert tau == pytest.approx([2.0, 2 * math.exp(-1), 0.1])
    assert [method.entropy_weight(t, beta_max=0.05, end=0.0) for t in (0, 0.5, 1)] == [0.05, 0.025, 0.0]
    config = BudgetFormerConfig(tau_floored=True, beta_end=0.0, vocab_size=20)
    model = BudgetFormerForSequenceClassification(config)
    assert model.budgetformer.layers[0].attention.temperature(1.0) == 0.1
    budget_BL, relevance_BLH = torch.full((2, 4), 0.2), torch.full((2, 4, 8), 1 / 8)
    assert float(regularisers(budget_BL, relevance_BLH, config, 1.0)["entropy_loss"]) == 0.0
    with pytest.raises(ValueError, match=r"beta_end must lie in \[-1, 1\], got 2"):
        BudgetFormerConfig(beta_end=2)


@given(z=scores, tau=st.floats(0.05, 5))
def test_the_relevance_is_a_softmax_with_temperature(z: list[float], tau: float) -> None:
    p = method.relevance(torch.tensor([z]), tau)
    expected = plain_softmax([v / tau for v in z])
    torch.testing.assert_close(p, torch.tensor([expected]), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("tau", [1e-45, 1e-6, 5e-324, 1e-300])
def test_a_temperature_near_zero_is_a_finite_hard_choice(tau: float, dtype: torch.dtype) -> None:
    z = torch.tensor([[0.25, 1.5, -3.0, 1.25], [2.0, 2.0, 0.0, 2.0]], dtype=dtype)
    p = method.relevance(z, tau)
    third = pytest.approx(1 / 3)
    assert p.tolist() == [[0, 1, 0, 0], [third, third, 0, third]]
    torch.testing.assert_close(method.entropy(p), torch.tensor([0.0, math.log(3)]))


@pytest.mark.parametrize("selection", method.SELECTIONS)
def test_gradients_stay_finite_at_a_temperature_near_zero(selection: str) -> None:
    z = torch.tensor([[0.5, 0.25, -1.0, 2.0]], requires_grad=True)
    s = torch.tensor([0.5], requires_grad=True)
    choice = method.decide(s, z, selection=selection, min_heads=1, tau=1e-45, training=True)
    (choice.gates_BH.sum() + method.negative_entropy(choice.relevance_BH[:, None])).backward()
    for leaf in (z, s):
        assert leaf.grad is not None
        assert leaf.grad.isfinite().all()


# Heads kept


@pytest.mark.parametrize(
    ("heads", "share", "kept"), [(4, 0.1, 1), (3, 0.25, 1), (1, 0.5, 1), (12, 0.1, 1), (10, 0.3, 3), (10, 3 * 0.1, 3)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_share_that_rounds_to_no_head_keeps_one_and_rounding_errors_are_forgiven(
    heads: int, share: float, kept: int, dtype: torch.dtype
) -> None:
    assert method.heads_kept(torch.tensor([share], dtype=dtype), heads, 1).tolist() == [kept]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_whole_number_of_heads_can_be_asked_for_exactly(dtype: torch.dtype) -> None:
    for heads in range(1, 65):
        shares = torch.tensor([j / heads for j in range(heads + 1)], dtype=dtype)
        assert method.heads_kept(shares, heads, 0).tolist() == list(range(heads + 1))


@given(heads=st.integers(1, 64), share=st.floats(0, 1), min_heads=st.integers(0, 64))
def test_heads_kept_is_the_floor_within_its_limits(heads: int, share: float, min_heads: int) -> None:
    min_heads = min(min_heads, heads)
    kept = method.heads_kept(torch.tensor([share], dtype=torch.float64), heads, min_heads).item()
    exact = share * heads
    nearest = round(exact)
    floor = nearest if abs(exact - nearest) < 1e-6 else math.floor(exact)
    if abs(exact - nearest) < 1e-6 or abs(exact - nearest) > 2e-5:
        assert kept == max(min_heads, min(floor, heads))
    assert min_heads <= kept <= heads


@given(heads=st.integers(1, 64), low=st.floats(0, 1), high=st.floats(0, 1))
def test_a_larger_budget_never_keeps_fewer_heads(heads: int, low: float, high: float) -> None:
    low, high = sorted((low, high))
    few, many = method.heads_kept(torch.tensor([low, high], dtype=torch.float64), heads, 1).tolist()
    assert few <= many


# Which heads


@given(z=st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=12), data=st.data())
def test_ties_go_to_the_lower_head_and_exactly_k_are_kept(z: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(z)))
    ranks = method.ranks(torch.tensor([z]))
    kept = method.selected(ranks, torch.tensor([k]))[0]
    assert sorted(ranks[0].tolist()) == list(range(len(z)))
    assert set(kept.nonzero().flatten().tolist()) == plain_choice(z, k)


@pytest.mark.parametrize("heads", [8, 300])
def test_equal_scores_keep_the_first_heads(heads: int) -> None:
    kept = method.selected(method.ranks(torch.zeros(2, heads)), torch.tensor([2, 5]))
    assert [row.nonzero().flatten().tolist() for row in kept] == [[0, 1], [0, 1, 2, 3, 4]]


def test_float32_scores_that_are_equal_in_half_precision_are_told_apart() -> None:
    z = torch.tensor([[0.30005, 0.3001]])
    assert z.bfloat16()[0, 0] == z.bfloat16()[0, 1]
    assert method.ranks(z).tolist() == [[1, 0]]


def test_heads_whose_relevance_underflows_stay_in_order() -> None:
    choice = decide(1.0, [5.0, 1.0, 3.0, 2.0], tau=1e-6, asked=0.75)
    assert choice.relevance_BH.tolist() == [[1.0, 0.0, 0.0, 0.0]]
    assert choice.kept_BH.tolist() == [[True, False, True, True]]


@settings(max_examples=50)
@given(data=st.data(), selection=st.sampled_from(method.SELECTIONS))
def test_the_choice_of_an_input_does_not_depend_on_its_batch(data: st.DataObject, selection: str) -> None:
    rows = data.draw(st.lists(st.lists(st.floats(-9, 9, width=32), min_size=5, max_size=5), min_size=1, max_size=5))
    budgets = data.draw(st.lists(shares, min_size=len(rows), max_size=len(rows)))
    together = decide(budgets, rows, selection=selection)
    for b, row in enumerate(rows):
        alone = decide(budgets[b], row, selection=selection)
        assert torch.equal(alone.kept_BH[0], together.kept_BH[b])
        torch.testing.assert_close(alone.gates_BH[0], together.gates_BH[b])
        assert together.heads_B[b] == len(plain_choice(row, int(together.heads_B[b])))
