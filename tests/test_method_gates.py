"""Gates and the gated output, against a plain reading of the formulas."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetformer import method

from .method_reading import decide, plain_choice, plain_softmax, scores, shares, sigmoid

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
