"""Budgeted self-attention as a part of any network."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from budgetformer import BudgetedSelfAttention, method


def spread(layer: BudgetedSelfAttention) -> BudgetedSelfAttention:
    """Larger nets, so that inputs choose differently."""
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "_net" in name:
                parameter.mul_(8.0)
    return layer


def make(**changes: Any) -> BudgetedSelfAttention:
    torch.manual_seed(0)
    return spread(BudgetedSelfAttention(**({"hidden_size": 16, "num_heads": 4} | changes))).eval()


@pytest.mark.parametrize("execution", ["reference", "packed"])
def test_full_attention_is_that_of_torch(execution: str) -> None:
    layer = make(budgeted=False, execution=execution)
    theirs = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    order = torch.arange(48).view(4, 3, 4).transpose(0, 1).flatten()  # ours is head-major
    theirs.load_state_dict(
        {
            "in_proj_weight": layer.qkv.weight[order],
            "in_proj_bias": layer.qkv.bias[order],
            "out_proj.weight": layer.output.weight,
            "out_proj.bias": layer.output.bias,
        }
    )
    x, mask = torch.randn(2, 5, 16), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()
    with torch.inference_mode():
        ours, expected = layer(x, mask).hidden, theirs(x, x, x, key_padding_mask=~mask, need_weights=False)[0]
    torch.testing.assert_close(ours[mask], expected[mask], rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("need_maps", [False, True])
def test_a_closed_head_and_a_row_of_padding_are_finite_in_every_variant(dtype: torch.dtype, need_maps: bool) -> None:
    class TwoOfThree(nn.Module):
        """Always prefers heads 0 and 1, so that head 2 is closed."""

        def forward(self, pooled_BD: Tensor) -> Tensor:
            return pooled_BD[:, :1] * 0 + torch.tensor([2.0, 1.0, -9.0])

    layer = make(hidden_size=12, num_heads=3, relevance_net=TwoOfThree()).to(dtype)
    x = torch.randn(2, 4, 12, dtype=dtype, requires_grad=True)
    mask = torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0]])
    out = layer(x, mask, budget=0.67, need_maps=need_maps)
    assert out.decision.kept_BH.tolist() == [[True, True, False]] * 2
    out.hidden.float().square().sum().backward()
    assert bool(torch.isfinite(out.hidden).all())
    assert all(bool(torch.isfinite(t.grad).all()) for t in (x, *(p for p in layer.parameters() if p.grad is not None)))
    if need_maps:
        assert bool(torch.isfinite(out.maps).all())
        assert not out.maps[:, 2].any()
        assert not out.maps[1].any()
        torch.testing.assert_close(out.maps[0, :2, :3].sum(-1).float(), torch.ones(2, 3), rtol=0, atol=1e-2)
    with torch.inference_mode():
        for execution in ("reference", "packed"):
            layer.execution = execution
            other = layer(x, mask, budget=0.67, need_maps=not need_maps).hidden
            tolerance = 0.05 if dtype is torch.bfloat16 else 1e-5
            torch.testing.assert_close(other[0, :3], out.hidden[0, :3], rtol=0, atol=tolerance)
    weights = layer.output.weight[:, 8:]  # the closed head contributes exactly nothing
    with torch.no_grad():
        weights.fill_(1e4)
        layer.execution = "reference"
        torch.testing.assert_close(layer(x, mask, budget=0.67).hidden[0, :3], out.hidden[0, :3], rtol=0, atol=0.05)


@pytest.mark.parametrize("selection", ["straight_through", "soft"])
@pytest.mark.parametrize("share", [0.2, 0.3, 0.6, 0.99])
def test_the_task_loss_reaches_both_nets_at_every_number_of_heads(selection: str, share: float) -> None:
    layer = make(selection=selection, sigma_max=0.0).train()
    with torch.no_grad():
        layer.budget_net[-1].weight.mul_(0.01)
        layer.budget_net[-1].bias.fill_(math.log(share / (1 - share)))
    before = {name: p.clone() for name, p in layer.named_parameters()}
    out = layer(torch.randn(3, 6, 16))
    if selection == "straight_through":
        assert set(out.decision.heads_B.tolist()) == {max(1, int(share * 4))}
    out.hidden.square().mean().backward()
    torch.optim.SGD(layer.parameters(), lr=1.0).step()
    for name in ("budget_net.2.weight", "relevance_net.weight"):
        parameter = dict(layer.named_parameters())[name]
        assert parameter.grad.norm() > 1e-6
        assert not torch.equal(parameter, before[name])


def test_equal_scores_always_choose_the_same_first_heads() -> None:
    layer = make(hidden_size=32, num_heads=8)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "_net" in name:
                parameter.zero_()
    x = torch.randn(3, 5, 32)
    layer.train()
    layer(x).hidden.sum().backward()
    layer.eval()
    results = []
    for seed in range(5):
        torch.manual_seed(seed)
        with torch.no_grad():
            results += [layer(x, budget=0.25), *(layer(x[i : i + 1], budget=0.25) for i in range(3))]
    assert {tuple(row) for r in results for row in r.decision.kept_BH.int().tolist()} == {(1, 1, 0, 0, 0, 0, 0, 0)}
    assert all(torch.equal(r.hidden, results[0].hidden) for r in results[::4])


def test_noise_and_dropout_act_in_training_only_and_repeat_with_the_seed() -> None:
    layer = make(sigma_max=3.0, dropout=0.5)
    x = torch.randn(4, 5, 16)
    with torch.no_grad():
        assert torch.equal(layer(x).hidden, layer(x).hidden)
        layer.train()
        first = layer(x)
        assert not torch.equal(first.decision.scores_BH, layer(x).decision.scores_BH)
        for _ in range(2):
            torch.manual_seed(7)
            again = layer(x)
            torch.manual_seed(7)
            assert torch.equal(layer(x).hidden, again.hidden)
        layer.progress = 1.0
        assert torch.equal(layer(x).decision.scores_BH, layer(x).decision.scores_BH)


def test_nets_and_pooling_are_exchangeable() -> None:
    class Spread(nn.Module):
        """A budget net that looks at the spread of the pooled input alone."""

        def __init__(self) -> None:
            super().__init__()
            self.gamma, self.beta = nn.Parameter(torch.tensor(3.0)), nn.Parameter(torch.tensor(-1.0))

        def forward(self, pooled_BD: Tensor) -> Tensor:
            return self.gamma * pooled_BD.std(dim=-1, keepdim=True) + self.beta

    def largest(x_BND: Tensor, mask_BN: Tensor) -> Tensor:
        return x_BND.masked_fill(~mask_BN.unsqueeze(-1), -math.inf).amax(dim=1)

    relevance = nn.Sequential(nn.Linear(16, 4), nn.Tanh(), nn.Linear(4, 4))
    layer = make(pooling=largest, budget_net=Spread(), relevance_net=relevance)
    x, mask = torch.randn(2, 6, 16), torch.tensor([[1] * 6, [1, 1, 0, 0, 0, 0]])
    pooled = largest(x, mask.bool())
    outputs = []
    for execution in ("reference", "packed"):
        layer.execution = execution
        with torch.inference_mode():
            out = layer(x, mask)
            torch.testing.assert_close(out.decision.budget_B, torch.sigmoid(layer.budget_net(pooled)).squeeze(-1))
            torch.testing.assert_close(out.decision.scores_BH, relevance(pooled))
        outputs.append(out.hidden[mask.bool()])
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-5)
    layer.execution = "auto"
    layer.train()(x, mask).hidden.square().mean().backward()
    assert layer.budget_net.gamma.grad.abs() > 0


def test_nets_with_buffers_decide_in_float32_in_a_half_precision_model() -> None:
    net = nn.Sequential(nn.BatchNorm1d(16), nn.Linear(16, 1))
    layer = make(budget_net=net).to(torch.bfloat16).eval()
    with torch.inference_mode():
        out = layer(torch.randn(2, 6, 16, dtype=torch.bfloat16))
    assert out.decision.budget_B.dtype == torch.float32
    assert out.hidden.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 3}, r"hidden_size must be a multiple of num_heads \(3\), got 16"),
        ({"num_heads": 0}, "num_heads"),
        ({"min_heads": 5}, "min_heads must lie between 0 and num_heads"),
        ({"selection": "hard"}, "selection must be one of"),
        ({"fixed_budget": 9}, "fixed_budget must lie in .*got 9"),
        ({"fixed_budget": math.nan}, "fixed_budget"),
        ({"fixed_budget": 0}, "fixed_budget"),
        ({"tau_min": 0}, "tau_min"),
        ({"tau_min": math.nan}, "tau_min"),
        ({"sigma_max": -1}, "sigma_max"),
        ({"gamma": math.inf}, "gamma"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\), got 1.0"),
        ({"fixed_budget": 0.5, "budget_net": nn.Linear(16, 1)}, "not both"),
        ({"budgeted": False, "relevance_net": nn.Linear(16, 4)}, "full attention"),
    ],
)
def test_arguments_that_cannot_work_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BudgetedSelfAttention(**({"hidden_size": 16, "num_heads": 4} | changes))


def test_full_attention_takes_no_budget() -> None:
    with pytest.raises(ValueError, match="max_budget has no effect"):
        make(budgeted=False)(torch.randn(1, 3, 16), max_budget=0.5)


class Waves(nn.Module):
    """A classifier of time series: two channels, a linear embedding, one budgeted attention, a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(2, 16)
        self.place = nn.Parameter(torch.randn(12, 16) * 0.3)
        self.attention = BudgetedSelfAttention(hidden_size=16, num_heads=4)
        self.classify = nn.Linear(16, 2)

    def forward(self, x: Tensor, **request: Any) -> tuple[Tensor, method.HeadDecision]:
        hidden = self.embed(x) + self.place
        out = self.attention(hidden, **request)
        return self.classify((hidden + out.hidden).relu().mean(dim=1)), out.decision


def test_it_learns_inside_a_small_model_of_time_series() -> None:
    torch.manual_seed(0)
    steps, place = 200, torch.arange(12)
    model = Waves()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def series(rows: int) -> tuple[Tensor, Tensor]:
        """Two waves with noise: in step (class 1) or half a period apart (class 0)."""
        labels = torch.randint(2, (rows,))
        start = torch.rand(rows, 1) * 6.28
        first = torch.sin(start + place)
        second = torch.sin(start + place + (1 - labels.unsqueeze(1)) * math.pi)
        return torch.stack([first, second], dim=-1) + 0.1 * torch.randn(rows, 12, 2), labels

    for step in range(steps):
        model.attention.progress = step / steps
        x, labels = series(32)
        logits, decision = model(x)
        violation = method.budget_violation(decision.budget_B.unsqueeze(1), s_min=0.1, s_max=0.5)
        loss = F.cross_entropy(logits, labels) + 5.0 * violation
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()
    x, labels = series(200)
    with torch.inference_mode():
        logits, decision = model(x)
        few, _ = model(x, budget=0.25)
    assert (logits.argmax(-1) == labels).float().mean() > 0.95
    assert 0.05 < decision.budget_B.mean() < 0.55
    assert decision.heads_B.float().mean() <= 2
    assert bool(torch.isfinite(few).all())
