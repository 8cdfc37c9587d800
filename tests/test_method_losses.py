"""Losses and the baseline policies, against a plain reading of the formulas."""

from __future__ import annotations

import math

import pytest
import torch

from budgetformer import method

from .method_reading import decide, plain_choice

# Losses


def test_the_budget_loss_by_hand() -> None:
    s = torch.tensor([[0.05, 0.5], [0.95, 0.1]])  # outside by 0.05, 0, 0.65, 0
    violation = method.budget_violation(s, s_min=0.1, s_max=0.3)
    assert violation.item() == pytest.approx(((0.05**2 + 0.2**2) + 0.65**2) / 2)
    assert method.budget_violation(torch.full((2, 3), 0.2), s_min=0.1, s_max=0.3).item() == 0


@pytest.mark.parametrize(("progress", "expected"), [(0, 1.0), (0.3, 0.65), (0.6, 0.3), (0.9, 0.3), (1, 0.3)])
def test_the_ceiling_comes_down_linearly_and_stays(progress: float, expected: float) -> None:
    assert method.ceiling(progress, s_max=0.3, s_max_start=1.0, until=0.6) == pytest.approx(expected)
    assert method.ceiling(progress, s_max=0.3, until=0.6) == 0.3


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
