"""What a classifier is asked and what it answers."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from .method import Policy, sampled_policy

Share = float | Sequence[float | None] | None
"""A share of the heads in (0, 1] for all inputs, one for each (None: its own choice), or None for all."""


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
    that this input cost: of its real tokens, and with the reference execution of its padding too. ``truncated`` says
    that it was cut to the model's limit. ``reason`` is set when the text had no tokens. ``relevance`` (layers × heads)
    and ``kept`` are there on request.
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
    """What may be asked of a call: a budget or a cap in (0, 1], a baseline policy (one, or one per layer), details.

    ``budget`` and ``max_budget`` are one number for all inputs or a list with one for each, where None leaves the
    input as it is. An input takes one of the two, not both.
    """

    budget: Share = None
    max_budget: Share = None
    policy: Policy | Sequence[Policy] | None = None
    rescale_gates: bool = False
    details: bool = False

    def __post_init__(self) -> None:
        for name in ("budget", "max_budget"):
            value = getattr(self, name)
            if _is_list(value):
                object.__setattr__(self, name, tuple(value))
                for number, share in enumerate(value):
                    if share is not None and not _is_share(share):
                        raise ValueError(f"{name} of input {number} must be in (0, 1] or None, got {share!r}")
            elif value is not None and not _is_share(value):
                raise ValueError(f"{name} must be one number in (0, 1], got {value!r}")
        policies = self.policy if isinstance(self.policy, Sequence) else [self.policy]
        if self.policy is not None and not (policies and all(map(callable, policies))):
            raise ValueError(f"policy must be a function such as those of budgetformer.baselines, got {self.policy!r}")
        self._refuse_both()

    def _refuse_both(self) -> None:
        if self.budget is None or self.max_budget is None:
            return
        sizes = {len(v) for v in (self.budget, self.max_budget) if isinstance(v, tuple)}
        if len(sizes) > 1:
            raise ValueError(f"budget and max_budget must be equally long, got {sorted(sizes)}")
        size = next(iter(sizes), None)
        if size is None:
            raise ValueError(f"give budget ({self.budget}) or max_budget ({self.max_budget}), not both")
        both = zip(_spread(self.budget, size), _spread(self.max_budget, size), strict=True)
        for number, (budget, cap) in enumerate(both):
            if budget is not None and cap is not None:
                raise ValueError(f"give input {number} a budget ({budget}) or a max_budget ({cap}), not both")

    @property
    def inputs(self) -> int | None:
        """The number of inputs that the request is for; None: any."""
        return next((len(v) for v in (self.budget, self.max_budget) if isinstance(v, tuple)), None)

    def forward_arguments(
        self, rows: Sequence[int], device: torch.device, *, default: float | None = None
    ) -> dict[str, Any]:
        """The request as keyword arguments of the model, for a batch of the inputs with these numbers.

        ``default`` is the model's own budget for inputs without one; among inputs with one it has to be put in here.
        """
        arguments: dict[str, Any] = {"policy": self.policy, "rescale_gates": self.rescale_gates}
        arguments |= {"budget": self.budget, "max_budget": self.max_budget}
        caps = [_of(self.max_budget, row) for row in rows]
        asked = [_of(self.budget, row) for row in rows]
        asked = [default if s is None and cap is None else s for s, cap in zip(asked, caps, strict=True)]
        if isinstance(self.max_budget, tuple):
            tensor = torch.tensor([1.0 if cap is None else cap for cap in caps], dtype=torch.float64, device=device)
            arguments["max_budget"] = tensor
        if isinstance(self.budget, tuple) or (self.inputs is not None and default is not None):
            asked_B = torch.tensor([torch.nan if s is None else s for s in asked], dtype=torch.float64, device=device)
            arguments |= {"budget": None, "policy": _chained(sampled_policy(asked_B), self.policy)}
        return {name: value for name, value in arguments.items() if value is not None and value is not False}


def _chained(first: Policy, then: Policy | Sequence[Policy] | None) -> Policy | list[Policy]:
    """``first``, and ``then`` on what it gives, in every layer."""
    if then is None:
        return first
    if isinstance(then, Sequence):
        return [_after(first, policy) for policy in then]
    return _after(first, then)


def _after(first: Policy, then: Policy) -> Policy:
    return lambda share_B, scores_BH, keys_B: then(*first(share_B, scores_BH, keys_B), keys_B)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_share(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and 0 < float(value) <= 1


def _of(value: Any, row: int) -> float | None:
    return value[row] if isinstance(value, tuple) else value


def _spread(value: Any, size: int) -> Sequence[float | None]:
    return value if isinstance(value, tuple) else [value] * size


def check_input(item: Any, number: int) -> None:
    """Refuse what is neither a text nor a Pair of texts, naming its number."""
    texts = [item.text, item.pair] if isinstance(item, Pair) else [item]
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(
                f"input {number} must be a text or a Pair of texts, got {type(text).__name__}: {str(text)[:60]!r}"
            )
