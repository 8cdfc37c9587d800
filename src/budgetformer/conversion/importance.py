"""How important each head of a classifier is: by the gradient of the loss with respect to its gate.

``I_lh = mean_b |∂ CE_b / ∂ gate_blh|`` at open gates, after Michel, Levy and Neubig, "Are Sixteen Heads Really Better
than One?" (arXiv 1905.10650), who take the mean over inputs too. Only the order within a layer is used.

Legend: B inputs, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..attention import budgeted_layers
from ..data.encoding import Encoded, collate
from ..modeling import BudgetFormerForSequenceClassification

BATCH_ROWS = 16


def head_importance(
    model: BudgetFormerForSequenceClassification,
    encoded: Encoded,
    labels: Sequence[int],
    *,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """Mean absolute gradient per layer and head, float32 (L, H), over labelled rows. ``progress`` gets rows done.

    The model computes all heads, without dropout and noise, and is left as it was but for ``requires_grad``.
    """
    was_training = model.training
    model.eval().requires_grad_(True)
    order = sorted(range(len(labels)), key=lambda i: len(encoded.input_ids[i]))
    total_LH = torch.zeros(model.config.num_hidden_layers, model.config.num_attention_heads)
    for start in range(0, len(order), BATCH_ROWS):
        rows = order[start : start + BATCH_ROWS]
        batch = collate(encoded.select(rows), pad_token_id=model.config.pad_token_id)
        total_LH += gate_gradients(model, batch, torch.tensor([labels[i] for i in rows])).abs().sum(dim=0).cpu()
        if progress is not None:
            progress(len(rows))
    model.train(was_training)
    return total_LH / max(len(order), 1)


def gate_gradients(model: BudgetFormerForSequenceClassification, batch: dict[str, Tensor], labels_B: Tensor) -> Tensor:
    """``∂ CE_b / ∂ gate_blh`` of every input at all heads, (B, L, H), with the gates of all other layers held."""
    device = model.device
    with torch.enable_grad(), _held_decisions(model):
        on_device: dict[str, Any] = {k: v.to(device) for k, v in batch.items()}
        read = model.budgetformer.encode(**on_device, budget=1.0)
        logits_BC = model.classifier(read.pooled_BD)
        # The sum, not the mean: inputs do not see each other, so each one's gates get its own gradient.
        loss = F.cross_entropy(logits_BC.float(), labels_B.to(device), reduction="sum")
        gradients = torch.autograd.grad(loss, [decision.gates_BH for decision in read.decisions])
    return torch.stack([gradient.float() for gradient in gradients], dim=1)


@contextmanager
def _held_decisions(model: BudgetFormerForSequenceClassification) -> Iterator[None]:
    """Keep gradients from passing through the nets f and g, by which a head moves the gates of later layers too."""
    nets = [net for layer in budgeted_layers(model) for net in (layer.budget_net, layer.relevance_net) if net]
    hooks = [net.register_forward_pre_hook(lambda _, given: tuple(x.detach() for x in given)) for net in nets]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
