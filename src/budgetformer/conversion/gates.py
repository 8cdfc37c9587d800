"""The state in which the gates of a converted model begin, and a ranking of heads that is the same for every input.

Open gates: the last layer of f has zero weights and the bias ``OPEN``, so ``s = sigmoid(20)``, exactly 1 in float32 and
still 1 after a step through bfloat16: every head is kept, with weight 1 under straight-through selection. So large a
bias has no gradient; who trains the budgets lowers it (``lower_budgets``).

A static ranking: g has zero weights and biases that fall evenly from 1 to -1 along the ranking.

Legend: L layers, H heads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..attention import budgeted_layers

OPEN = 20.0


@torch.no_grad()
def open_gates(model: nn.Module) -> None:
    """Make every budget net answer 1 for every input: all heads are kept."""
    for layer in budgeted_layers(model):
        if layer.fixed_budget is None:
            last = _last(layer.budget_net)
            last.weight.zero_()
            last.bias.fill_(OPEN)


@torch.no_grad()
def lower_budgets(model: nn.Module, bias: float) -> None:
    """Set the last bias of every budget net, where training begins: ``s = sigmoid(bias)`` for every input."""
    for layer in budgeted_layers(model):
        _last(layer.budget_net).bias.fill_(bias)


@torch.no_grad()
def rank_heads(model: nn.Module, importance_LH: Tensor) -> None:
    """Put one ranking for all inputs into every relevance net: the most important head first."""
    layers = list(budgeted_layers(model))
    assert len(layers) == len(importance_LH)
    for layer, importance_H in zip(layers, importance_LH, strict=True):
        net = layer.relevance_net
        assert isinstance(net, nn.Linear)
        net.weight.zero_()
        net.bias.copy_(even_scores(importance_H))


def even_scores(importance_H: Tensor) -> Tensor:
    """Scores from 1 (the most important head, of equals the first) evenly down to -1; 0 for a single head."""
    order_H = torch.sort(importance_H, descending=True, stable=True).indices
    steps_H = torch.linspace(1.0, -1.0, len(importance_H)) if len(importance_H) > 1 else torch.zeros(1)
    return torch.empty_like(steps_H).index_copy_(0, order_H.cpu(), steps_H)


def _last(net: nn.Module | None) -> nn.Linear:
    assert isinstance(net, nn.Sequential)
    assert isinstance(net[-1], nn.Linear)
    return net[-1]
