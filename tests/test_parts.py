"""A researcher's own budget net, relevance net and pooling in every layer of the model."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from budgetformer import AttentionParts, BudgetFormerConfig, BudgetFormerForSequenceClassification


class WordCount(nn.Module):
    """A budget net of one scale and one shift."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.tensor(0.7))
        self.beta = nn.Parameter(torch.tensor(-0.2))

    def forward(self, pooled_BD: Tensor) -> Tensor:
        return self.gamma * pooled_BD.norm(dim=-1, keepdim=True) + self.beta


def first_token(x_BND: Tensor, mask_BN: Tensor) -> Tensor:
    return x_BND[:, 0]


def test_own_parts_decide_learn_and_come_back_from_disk(tmp_path: Path) -> None:
    parts = AttentionParts(
        budget_net=WordCount,
        relevance_net=lambda width, heads: nn.Linear(width, heads, bias=False),
        pooling=first_token,
    )
    config = BudgetFormerConfig(vocab_size=50, hidden_size=32, num_attention_heads=4, num_hidden_layers=2, num_labels=2)
    model = BudgetFormerForSequenceClassification(config, parts=parts)
    ids, labels = torch.randint(5, 50, (4, 7)), torch.tensor([0, 1, 0, 1])
    model.set_progress(0.5)
    model(ids, labels=labels).loss.backward()
    attention = model.budgetformer.layers[0].attention
    assert isinstance(attention.budget_net, WordCount)
    assert attention.budget_net.gamma.grad.abs() > 0
    assert attention.relevance_net.bias is None
    model.eval().save_pretrained(tmp_path)
    again = BudgetFormerForSequenceClassification.from_pretrained(tmp_path, parts=parts).eval()
    with torch.no_grad():
        a, b = model(ids, output_budgets=True), again(ids, output_budgets=True)
    assert torch.equal(a.logits, b.logits)
    assert torch.equal(a.heads, b.heads)
