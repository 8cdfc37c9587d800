"""A model whose layers hold nothing but a fixed set of heads."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from .. import method
from ..attention import AttentionOutput, BudgetedSelfAttention
from ..execution import HeadWeights, TokenLayout
from ..execution.reference import attend
from ..modeling import BudgetFormerForSequenceClassification
from .head_sets import HeadSets, places


class FixedHeadsAttention(nn.Module):
    """``Σ_{h in kept} gate_h · Attn_h(X) W_O,h + b_O`` with the weights of the kept heads alone.

    Straight-through gates are 1, so that the nets f and g are not needed. Soft gates, ``s · H · p``, depend on the
    text: there both nets stay, and the sorted relevance goes to the heads in the order of ``ranking``, as
    ``method.static_policy`` defines it.
    """

    def __init__(
        self, attention: BudgetedSelfAttention, *, ranking: tuple[int, ...], heads: int, budget: float
    ) -> None:
        super().__init__()
        self.kept, self.budget = sorted(ranking[:heads]), budget
        self.policy = method.static_policy(places(ranking))
        output = attention.output
        self.output_bias = None if output.bias is None else _part(output.bias)
        if self.kept:
            size, qkv, own = attention.head_size, attention.qkv, [attention.heads.index(h) for h in self.kept]
            assert isinstance(qkv, nn.Linear)
            assert isinstance(output, nn.Linear)
            rows = [3 * size * place + i for place in own for i in range(3 * size)]
            columns = [size * place + i for place in own for i in range(size)]
            self.qkv_weight, self.output_weight = _part(qkv.weight[rows]), _part(output.weight[:, columns])
            self.qkv_bias = None if qkv.bias is None else _part(qkv.bias[rows])
        self.reach = attention.reach
        self.chooser = attention if attention.selection == "soft" else None
        if self.chooser is not None:
            del self.chooser.qkv, self.chooser.output

    def forward(self, x: Tensor, *, layout: TokenLayout, **request: Any) -> AttentionOutput:
        """Attend within ``x`` (B, N, D); as ``BudgetedSelfAttention`` with ``budget`` and the static policy."""
        if not self.kept:
            hidden = torch.zeros_like(x) if self.output_bias is None else self.output_bias.expand_as(x)
            return AttentionOutput(hidden=hidden, decision=None, maps=None)
        weights = HeadWeights(
            num_heads=len(self.kept),
            qkv_weight=self.qkv_weight,
            qkv_bias=self.qkv_bias,
            output_weight=self.output_weight,
            output_bias=self.output_bias,
        )
        gates_Bk = self._gates(x, layout)
        kept_Bk = torch.ones_like(gates_Bk, dtype=torch.bool)
        hidden, _ = attend(x, layout, weights, kept_Bk, gates_Bk, reach=self.reach)
        return AttentionOutput(hidden=hidden, decision=None, maps=None)

    def _gates(self, x: Tensor, layout: TokenLayout) -> Tensor:
        if self.chooser is None:
            return x.new_ones(x.shape[0], len(self.kept))
        decision = self.chooser.decide(x, layout, policy=self._policy)
        assert decision is not None
        return decision.gates_BH[:, self.kept]

    def _policy(self, share_B: Tensor, scores_BH: Tensor, keys_B: Tensor) -> tuple[Tensor, Tensor]:
        """The budget and the ranking in one, without a check of values, which cannot be traced."""
        return self.policy(torch.full_like(share_B, self.budget, dtype=torch.float64), scores_BH, keys_B)


def with_fixed_heads(
    model: BudgetFormerForSequenceClassification, sets: HeadSets
) -> BudgetFormerForSequenceClassification:
    """A copy of ``model`` that computes the kept heads of ``sets`` for every text and holds no others."""
    twin = copy.deepcopy(model)
    layers: Any = twin.budgetformer.layers
    for layer, ranking in zip(layers, sets.rankings, strict=True):
        layer.attention = FixedHeadsAttention(layer.attention, ranking=ranking, heads=sets.heads, budget=sets.budget)
    return twin.eval()


def _part(weight: Tensor) -> nn.Parameter:
    return nn.Parameter(weight.detach().clone(), requires_grad=False)
