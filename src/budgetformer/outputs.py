"""What the models return."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from transformers.modeling_outputs import ModelOutput


@dataclass
class BudgetFormerModelOutput(ModelOutput):
    """``last_hidden_state`` (B, N, D), ``pooler_output`` (B, D); the others on request, as for the classifier."""

    last_hidden_state: Tensor | None = None
    pooler_output: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    budgets: Tensor | None = None
    heads: Tensor | None = None
    relevance: Tensor | None = None
    gates: Tensor | None = None
    kept: Tensor | None = None


@dataclass
class BudgetFormerClassifierOutput(ModelOutput):
    """``loss`` (with labels) and ``logits`` (B, classes); the others on request.

    With ``output_budgets``: ``budgets`` (B, L) learned s, ``heads`` (B, L) kept, ``relevance`` (B, L, H) p,
    ``gates`` (B, L, H), ``kept`` (B, L, H) bool. With ``output_attentions``: a (B, H, N, N) map per layer.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    budgets: Tensor | None = None
    heads: Tensor | None = None
    relevance: Tensor | None = None
    gates: Tensor | None = None
    kept: Tensor | None = None
