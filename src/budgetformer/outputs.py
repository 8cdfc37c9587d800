"""What the models return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers.modeling_outputs import ModelOutput

from .configuration import BudgetFormerConfig


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


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The form of the answer: what a call leaves open is as the configuration says."""

    maps: bool
    hidden_states: bool
    return_dict: bool

    @classmethod
    def of(
        cls,
        config: BudgetFormerConfig,
        attentions: bool | None,
        hidden_states: bool | None,
        return_dict: bool | None,
        other: dict[str, Any],
    ) -> Wanted:
        """From the arguments of a call. Raises TypeError for ``other`` ones, which would have no effect."""
        unknown = [name for name, value in other.items() if value is not None]
        if unknown:
            raise TypeError(f"forward() got an unexpected keyword argument {unknown[0]!r}")
        return cls(
            maps=bool(config.output_attentions if attentions is None else attentions),
            hidden_states=bool(config.output_hidden_states if hidden_states is None else hidden_states),
            return_dict=bool(config.return_dict if return_dict is None else return_dict),
        )
