"""What a classifier is asked and what it answers."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .method import Policy


@dataclass(frozen=True)
class Pair:
    """Two texts that are classified together, such as premise and hypothesis."""

    text: str
    pair: str


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The answer to one input.

    ``scores`` has one probability per label and ``score`` that of ``label``. ``heads`` are the heads kept per
    layer, ``budgets`` the learned shares that asked for them (empty with full attention), ``macs`` the multiply-adds
    that this input cost. ``truncated`` says that it was cut to the model's limit. ``reason`` is set when the text
    had no tokens. ``relevance`` (layers × heads) and ``kept`` are there on request.
    """

    label: str
    score: float
    scores: dict[str, float]
    heads: list[int]
    budgets: list[float]
    macs: int
    tokens: int
    truncated: bool
    reason: str | None = None
    relevance: np.ndarray | None = field(default=None, repr=False)
    kept: np.ndarray | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What may be asked of a call: a budget or a cap in (0, 1], a baseline policy (one, or one per layer), details."""

    budget: float | None = None
    max_budget: float | None = None
    policy: Policy | Sequence[Policy] | None = None
    rescale_gates: bool = False
    details: bool = False

    def __post_init__(self) -> None:
        for name in ("budget", "max_budget"):
            value = getattr(self, name)
            is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 < value <= 1):
                raise ValueError(f"{name} must be one number in (0, 1], got {value!r}")
        policies = self.policy if isinstance(self.policy, Sequence) else [self.policy]
        if self.policy is not None and not (policies and all(map(callable, policies))):
            raise ValueError(f"policy must be a function such as those of budgetformer.baselines, got {self.policy!r}")
        if self.budget is not None and self.max_budget is not None:
            raise ValueError(f"give budget ({self.budget}) or max_budget ({self.max_budget}), not both")

    def forward_arguments(self) -> dict[str, Any]:
        """The request as keyword arguments of the model."""
        fields = ("budget", "max_budget", "policy", "rescale_gates")
        return {name: getattr(self, name) for name in fields if getattr(self, name)}


def check_input(item: Any, number: int) -> None:
    """Refuse what is neither a text nor a Pair of texts, naming its number."""
    texts = [item.text, item.pair] if isinstance(item, Pair) else [item]
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(
                f"input {number} must be a text or a Pair of texts, got {type(text).__name__}: {str(text)[:60]!r}"
            )
