"""The method against an independent reading in plain Python, one test or more per formula."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from budgetformer import method

progresses = st.floats(0, 1)
scores = st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=16)
shares = st.floats(0.001, 1)


def plain_softmax(values: list[float]) -> list[float]:
    top = max(values)
    exps = [math.exp(v - top) for v in values]
    return [e / sum(exps) for e in exps]


def plain_choice(values: list[float], k: int) -> set[int]:
    return set(sorted(range(len(values)), key=lambda h: (-values[h], h))[:k])


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def decide(budget: float | list[float], z: list[float] | list[list[float]], **changes: Any) -> method.HeadDecision:
    z_BH = torch.tensor(z if isinstance(z[0], list) else [z])
    budget_B = torch.tensor(budget if isinstance(budget, list) else [budget] * len(z_BH))
    settings = {"selection": "straight_through", "min_heads": 1, "tau": 1.0, "training": False}
    return method.decide(budget_B, z_BH, **settings | changes)


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


# Gates


@given(z=scores, share=shares)
def test_soft_gates_are_budget_times_heads_times_relevance(z: list[float], share: float) -> None:
    expected = [share * len(z) * p for p in plain_softmax(z)]
    training = decide(share, z, selection="soft", training=True)
    torch.testing.assert_close(training.gates_BH, torch.tensor([expected]), rtol=1e-4, atol=1e-6)
    inference = decide(share, z, selection="soft", training=False)
    kept = plain_choice(z, int(inference.heads_B))
    closed = [g if h in kept else 0.0 for h, g in enumerate(expected)]
    torch.testing.assert_close(inference.gates_BH, torch.tensor([closed]), rtol=1e-4, atol=1e-6)
    assert inference.gates_BH[~inference.kept_BH].count_nonzero() == 0


def test_soft_gates_keep_the_learned_budget_unless_they_are_rescaled() -> None:
    z = [1.0, 0.0, 2.0, -1.0]
    p = torch.tensor([plain_softmax(z)])
    kept = torch.tensor([[True, True, True, False]])
    for request in ({"asked": 0.75}, {"asked": 1.0, "max_budget": 0.75}):
        plain = decide(0.5, z, selection="soft", **request)
        rescaled = decide(0.5, z, selection="soft", rescale_gates=True, **request)
        assert torch.equal(plain.kept_BH, kept)
        assert torch.equal(rescaled.kept_BH, kept)
        torch.testing.assert_close(plain.gates_BH, torch.where(kept, 0.5 * 4 * p, 0.0))
        torch.testing.assert_close(rescaled.gates_BH, torch.where(kept, 0.75 * 4 * p, 0.0))
        assert plain.budget_B.tolist() == [0.5]
        assert plain.share_B.tolist() == [0.75]


@given(z=scores, data=st.data(), training=st.booleans())
def test_straight_through_gates_are_exactly_zero_or_one_and_teach_both_nets_at_every_k(
    z: list[float], data: st.DataObject, training: bool
) -> None:
    heads = len(z)
    k = data.draw(st.integers(0, heads))
    z_BH = torch.tensor([z], requires_grad=True)
    s_B = torch.tensor([k / heads], requires_grad=True)
    choice = method.decide(s_B, z_BH, selection="straight_through", min_heads=0, tau=0.1, training=training)
    kept = plain_choice(z, k)
    assert choice.gates_BH.dtype == torch.float32
    assert choice.gates_BH.tolist() == [[float(h in kept) for h in range(heads)]]
    choice.gates_BH.sum().backward()
    assert s_B.grad is not None
    assert s_B.grad.abs().min() > 0


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_every_head_has_a_gradient_to_both_nets_at_every_k(heads: int) -> None:
    for k in range(heads + 1):
        for head in range(heads):
            z = torch.linspace(-1, 1, heads).unsqueeze(0).requires_grad_()
            s = torch.tensor([k / heads], requires_grad=True)
            choice = method.decide(s, z, selection="straight_through", min_heads=0, tau=0.1, training=True)
            choice.gates_BH[0, head].backward()
            assert s.grad is not None
            assert z.grad is not None
            assert s.grad.abs().item() > 1e-8, (k, head)
            is_threshold = heads == 1 or (k, head) in ((heads, 0), (0, heads - 1))  # then z - θ is always 0
            assert is_threshold or z.grad.abs().max().item() > 1e-4, (k, head)


@settings(max_examples=100)
@given(z=st.lists(st.integers(-40, 40), min_size=2, max_size=8, unique=True), share=st.floats(0, 1), data=st.data())
def test_the_straight_through_gradient_is_that_of_the_formula(z: list[int], share: float, data: st.DataObject) -> None:
    """Finite differences of the soft value in plain Python, with ranks and k held fixed."""
    values = [v / 10 for v in z]
    heads, weights = len(z), data.draw(st.lists(st.floats(-2, 2), min_size=len(z), max_size=len(z)))
    z_BH = torch.tensor([values], dtype=torch.float64, requires_grad=True)
    s_B = torch.tensor([share], dtype=torch.float64, requires_grad=True)
    ranks = method.ranks(z_BH.detach())
    k = int(method.heads_kept(s_B.detach(), heads, 0))
    kept = method.selected(ranks, torch.tensor([k]))
    gates = method.straight_through_gates(z_BH, s_B, ranks, kept)
    (gates * torch.tensor([weights])).sum().backward()

    def soft(zs: list[float], s: float) -> float:
        order = sorted(range(heads), key=lambda h: -values[h])
        if k == 0:
            theta = zs[order[0]]
        elif k == heads:
            theta = zs[order[-1]]
        else:
            theta = (zs[order[k - 1]] + zs[order[k]]) / 2
        total = 0.0
        for h in range(heads):
            which, how_many = sigmoid((zs[h] - theta) / 0.5), sigmoid((s * heads - order.index(h) - 1) / 0.5)
            total += weights[h] * (which + how_many)
        return total

    step = 1e-5
    assert s_B.grad is not None
    assert z_BH.grad is not None
    by_s = (soft(values, share + step) - soft(values, share - step)) / (2 * step)
    assert s_B.grad.item() == pytest.approx(by_s, abs=1e-4)
    for h in range(heads):
        up, down = ([v + sign * step * (i == h) for i, v in enumerate(values)] for sign in (1, -1))
        by_z = (soft(up, share) - soft(down, share)) / (2 * step)
        assert z_BH.grad[0, h].item() == pytest.approx(by_z, abs=1e-4)


def test_no_heads_are_kept_only_when_that_is_allowed() -> None:
    z = [0.3, 0.1, 0.2, 0.0]
    for selection in method.SELECTIONS:
        nothing = decide(0.1, z, selection=selection, min_heads=0)
        assert nothing.heads_B.tolist() == [0]
        assert nothing.gates_BH.tolist() == [[0.0] * 4]
        assert decide(0.1, z, selection=selection, min_heads=1).heads_B.tolist() == [1]
        assert decide(0.1, z, selection=selection, min_heads=3).heads_B.tolist() == [3]


def test_an_unknown_selection_is_named() -> None:
    with pytest.raises(ValueError, match="selection must be one of straight_through, soft, got 'hard'"):
        decide(0.5, [1.0, 2.0], selection="hard")


# Output


def test_the_output_is_the_gated_sum_of_the_heads_parts() -> None:
    torch.manual_seed(0)
    heads, gates = torch.randn(2, 3, 4, 2), torch.rand(2, 3)
    weight, bias = torch.randn(6, 6), torch.randn(6)
    expected = bias + sum(gates[:, h, None, None] * heads[:, h] @ weight[:, 2 * h : 2 * h + 2].T for h in range(3))
    torch.testing.assert_close(method.gated_output(heads, gates, weight, bias), expected)
    closed = method.gated_output(heads, torch.zeros(2, 3), weight, bias)
    torch.testing.assert_close(closed, bias.expand(2, 4, 6))


# Losses


def test_the_budget_loss_by_hand() -> None:
    s = torch.tensor([[0.05, 0.5], [0.95, 0.1]])  # outside by 0.05, 0, 0.65, 0
    violation = method.budget_violation(s, s_min=0.1, s_max=0.3)
    assert violation.item() == pytest.approx(((0.05**2 + 0.2**2) + 0.65**2) / 2)
    assert method.budget_violation(torch.full((2, 3), 0.2), s_min=0.1, s_max=0.3).item() == 0


def test_the_price_is_the_mean_sum_of_budgets() -> None:
    assert method.budget_price(torch.tensor([[0.1, 0.5], [0.3, 0.7]])).item() == pytest.approx(0.8)


def test_the_entropy_by_hand_in_nats() -> None:
    p = torch.tensor([[[0.5, 0.5, 0, 0]], [[1.0, 0, 0, 0]]], requires_grad=True)
    torch.testing.assert_close(method.entropy(p), torch.tensor([[math.log(2)], [0.0]]))
    loss = method.negative_entropy(p)
    assert loss.item() == pytest.approx(-math.log(2) / 2)
    loss.backward()
    assert p.grad is not None
    assert p.grad.isfinite().all()


def test_a_uniform_relevance_has_as_many_effective_heads_as_there_are_heads() -> None:
    assert method.entropy(torch.full((1, 1, 8), 1 / 8)).exp().item() == pytest.approx(8, rel=1e-5)


# Baseline policies

Z = [[0.5, 2.0, -1.0, 0.0, 1.0, -2.0], [3.0, 0.1, 0.2, 0.3, 0.4, 0.5], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]]
S = [0.2, 0.5, 0.7]


def test_the_dense_policy_keeps_everything_in_place() -> None:
    choice = decide(S, Z, policy=method.dense_policy())
    assert choice.heads_B.tolist() == [6, 6, 6]
    assert choice.scores_BH.tolist() == torch.tensor(Z).tolist()


def test_the_fixed_policy_keeps_the_learned_ranking() -> None:
    choice = decide(S, Z, policy=method.fixed_policy(0.5))
    assert [set(row.nonzero().flatten().tolist()) for row in choice.kept_BH] == [plain_choice(z, 3) for z in Z]
    with pytest.raises(ValueError, match=r"budget must lie in \(0, 1\], got 9"):
        decide(S, Z, policy=method.fixed_policy(9))


@pytest.mark.parametrize("selection", method.SELECTIONS)
def test_the_random_policy_permutes_each_inputs_own_relevance(selection: str) -> None:
    learned = decide(S, Z, selection=selection)
    moved = decide(S, Z, selection=selection, policy=method.random_policy(3))
    torch.testing.assert_close(moved.relevance_BH.sort().values, learned.relevance_BH.sort().values)
    torch.testing.assert_close(moved.gates_BH.sort().values, learned.gates_BH.sort().values)
    assert torch.equal(moved.heads_B, learned.heads_B)
    assert torch.equal(moved.share_B, learned.share_B)


def test_the_random_policy_is_seeded_and_blind_to_batch_and_order() -> None:
    keys = torch.tensor([17, 4_000_000_007, 5])
    policy = method.random_policy(1)
    together = decide(S, Z, policy=policy, keys_B=keys)
    order = torch.tensor([2, 0, 1])
    shuffled = method.decide(
        torch.tensor(S)[order],
        torch.tensor(Z)[order],
        selection="straight_through",
        min_heads=1,
        tau=1.0,
        training=False,
        policy=method.random_policy(1),
        keys_B=keys[order],
    )
    assert torch.equal(shuffled.kept_BH, together.kept_BH[order])
    for b in range(3):
        assert torch.equal(decide(S[b], Z[b], policy=policy, keys_B=keys[b : b + 1]).kept_BH[0], together.kept_BH[b])
    torch.manual_seed(99)
    assert torch.equal(decide(S, Z, policy=policy, keys_B=keys).kept_BH, together.kept_BH)


def test_the_random_policy_uses_every_head_equally_often_and_differs_by_seed() -> None:
    inputs, heads = 4000, 8
    z = torch.linspace(1, -1, heads).expand(inputs, heads)
    use = []
    for seed in range(3):
        choice = method.decide(
            torch.full((inputs,), 0.25),
            z,
            selection="straight_through",
            min_heads=1,
            tau=1.0,
            training=False,
            policy=method.random_policy(seed),
        )
        use.append(choice.kept_BH)
        share = choice.kept_BH.float().mean(dim=0)
        assert (share - 0.25).abs().max() < 5 * math.sqrt(0.25 * 0.75 / inputs)
        pairs = choice.kept_BH.float().T @ choice.kept_BH.float() / inputs
        off = pairs[~torch.eye(heads, dtype=torch.bool)]
        assert (off - 1 / 28).abs().max() < 5 * math.sqrt(1 / 28 / inputs)
    assert not torch.equal(use[0], use[1])
    agreement = (use[0] & use[1]).sum().item() / (2 * inputs)
    assert agreement == pytest.approx(0.25, abs=0.03)


def test_the_static_policy_has_one_ranking_for_all() -> None:
    ranking = [4, 1, 5, 0, 3, 2]
    choice = decide(S, Z, policy=method.static_policy(ranking))
    assert choice.heads_B.tolist() == [1, 3, 4]
    for row, k in zip(choice.kept_BH, (1, 3, 4), strict=True):
        assert set(row.nonzero().flatten().tolist()) == set(ranking[:k])
    learned = decide(S, Z).relevance_BH.sort().values
    torch.testing.assert_close(choice.relevance_BH.sort().values, learned)


@pytest.mark.parametrize("ranking", [[0, 1], [0, 0, 1, 2, 3, 4], [1, 2, 3, 4, 5, 6]])
def test_an_incomplete_static_ranking_is_refused(ranking: list[int]) -> None:
    with pytest.raises(ValueError, match="ranking must name each of the 6 heads once"):
        decide(S, Z, policy=method.static_policy(ranking))


def test_policies_and_requested_budgets_combine() -> None:
    choice = decide(S, Z, policy=method.random_policy(0), asked=0.5)
    assert choice.heads_B.tolist() == [3, 3, 3]
