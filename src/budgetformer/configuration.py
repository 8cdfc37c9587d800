"""The one list of model fields, their checks, and the presets."""

from __future__ import annotations

import math
from typing import Any

from transformers import PreTrainedConfig

IGNORED = -100
"""Class index of a row without a label, left out of loss and scores."""

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 128, "intermediate_size": 512},
    "small": {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 256, "intermediate_size": 1024},
    "base": {"num_hidden_layers": 6, "num_attention_heads": 8, "hidden_size": 512, "intermediate_size": 2048},
    "paper": {
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "hidden_size": 768,
        "intermediate_size": 3072,
        "vocab_size": 30522,
        "attention_probs_dropout_prob": 0.1,
        "selection": "soft",
        "s_min": 0.1,
        "s_max": 0.9,
        "alpha_base": 0.001,
        "alpha_max": 0.05,
        "beta_max": 0.05,
        "sigma_max": 0.5,
        "tau_max": 2.0,
        "tau_min": 0.1,
        "gamma": 5.0,
        "budget_price": 0.0,
        "budget_sampling": 0.0,
    },
}
"""Sizes and method constants by name; what a preset leaves out is the default of ``BudgetFormerConfig``."""

CHOICES: dict[str, tuple[str, ...]] = {
    "selection": ("straight_through", "soft"),
    "pooling": ("mean", "first"),
    "position_embedding_type": ("sinusoidal", "learned"),
    "norm_position": ("post", "pre"),
    "hidden_act": ("gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "relu", "silu", "swish", "mish", "tanh"),
    "execution": ("auto", "reference", "packed", "cuda"),
}


class BudgetFormerConfig(PreTrainedConfig):
    """Configuration of a BudgetFormer text classifier.

    Architecture (the usual names of ``transformers``):
        vocab_size, hidden_size (D), num_hidden_layers (L), num_attention_heads (H), intermediate_size,
        hidden_act, hidden_dropout_prob, attention_probs_dropout_prob, classifier_dropout,
        max_position_embeddings (tokens, special ones included), layer_norm_eps, initializer_range, pad_token_id.
        type_vocab_size: 0 for no segment embeddings, 2 for pairs.
        position_embedding_type: "sinusoidal" (no parameters) or "learned".
        norm_position: "post" (the paper) or "pre". pooling: "mean" over real tokens or the "first" token.

    Method (section 2 of docs/method.md; arXiv 2604.22583):
        budgeted: False gives the full-attention twin, the same class without budget and relevance nets.
        selection: "straight_through" or "soft". min_heads: heads at least, 0 lets a layer pass its input through.
        fixed_budget: a constant s in (0, 1] in place of the budget net (0 with min_heads=0: no attention at all).
        s_min, s_max: interval of the budget loss. alpha_base, alpha_max: its weight over training.
        beta_max: weight of the entropy loss. sigma_max: noise. tau_max, tau_min, gamma: temperature.
        budget_price: λ, what a budget of 1 in one layer costs in units of the task loss.
        budget_sampling: share of the rows of a training batch that get a random number of heads instead of their own,
        so that one checkpoint serves every budget at request time.

    Task: id2label, label2id, label_smoothing in [0, 1), class_weights (one per class, mean 1 over the training rows).
    Data: text_columns, pair_column, label_column as they were called in the training file.
    execution: "auto", "reference", "packed" or "cuda"; how attention is computed, never what.

    Raises:
        ValueError: naming the field and the value that cannot be used.
    """

    model_type = "budgetformer"
    keys_to_ignore_at_inference = ["budgets", "heads", "relevance", "gates", "kept", "hidden_states", "attentions"]

    def __init__(
        self,
        *,
        vocab_size: int = 30522,
        hidden_size: int = 128,
        num_hidden_layers: int = 4,
        num_attention_heads: int = 8,
        intermediate_size: int = 512,
        hidden_act: str = "gelu",
        hidden_dropout_prob: float = 0.1,
        attention_probs_dropout_prob: float = 0.0,
        classifier_dropout: float = 0.1,
        max_position_embeddings: int = 512,
        type_vocab_size: int = 0,
        position_embedding_type: str = "sinusoidal",
        norm_position: str = "post",
        pooling: str = "mean",
        layer_norm_eps: float = 1e-5,
        initializer_range: float = 0.02,
        pad_token_id: int = 0,
        budgeted: bool = True,
        selection: str = "straight_through",
        min_heads: int = 1,
        fixed_budget: float | None = None,
        s_min: float = 0.1,
        s_max: float = 0.3,
        alpha_base: float = 0.001,
        alpha_max: float = 5.0,
        beta_max: float = 0.05,
        sigma_max: float = 0.5,
        tau_max: float = 2.0,
        tau_min: float = 0.1,
        gamma: float = 5.0,
        budget_price: float = 0.0,
        budget_sampling: float = 0.0,
        label_smoothing: float = 0.0,
        class_weights: list[float] | None = None,
        text_columns: list[str] | None = None,
        pair_column: str | None = None,
        label_column: str | None = None,
        execution: str = "auto",
        **kwargs: Any,
    ) -> None:
        fields = {k: v for k, v in locals().items() if k not in ("self", "kwargs", "__class__")}
        for name, value in fields.items():
            setattr(self, name, value)
        if kwargs.get("id2label") is None and kwargs.get("label2id"):
            kwargs["id2label"] = {i: name for name, i in kwargs["label2id"].items()}
        super().__init__(**kwargs, pad_token_id=pad_token_id)
        if kwargs.get("label2id") is None:
            self.label2id = {name: i for i, name in self.id2label.items()}
        self.check()

    @classmethod
    def preset(cls, name: str, **changes: Any) -> BudgetFormerConfig:
        """The configuration called ``name`` (tiny, small, base, paper) with ``changes`` applied."""
        if name not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
        config = cls()
        for field in changes:
            if not hasattr(config, field):
                raise ValueError(f"{field!r} is no field of the configuration; see help(BudgetFormerConfig)")
        return cls(**(PRESETS[name] | changes))

    @property
    def skips_to_first_token(self) -> bool:
        """Whether a classifier reads nothing but the first tokens of the last layer."""
        return self.pooling == "first" and self.num_hidden_layers > 0

    @property
    def head_size(self) -> int:
        """``d = D / H``."""
        return self.hidden_size // self.num_attention_heads

    def dense_twin(self) -> BudgetFormerConfig:
        """The same model with full attention: identical parameters but for the nets f and g."""
        return type(self).from_dict(self.to_dict() | {"budgeted": False, "fixed_budget": None})

    def check(self) -> None:
        """Refuse values that cannot work, naming the field and the value."""
        for field, choices in CHOICES.items():
            _require(self, field, getattr(self, field) in choices, f"be one of {', '.join(choices)}")
        for field in (
            "vocab_size",
            "hidden_size",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
        ):
            _require(
                self,
                field,
                _is_int(getattr(self, field)) and getattr(self, field) >= 1,
                "be a whole number, at least 1",
            )
        for field in ("num_hidden_layers", "type_vocab_size"):
            _require(
                self,
                field,
                _is_int(getattr(self, field)) and getattr(self, field) >= 0,
                "be a whole number, at least 0",
            )
        _require(
            self,
            "pad_token_id",
            _is_int(self.pad_token_id) and 0 <= self.pad_token_id < self.vocab_size,
            f"lie between 0 and vocab_size - 1 ({self.vocab_size - 1})",
        )
        names = self.id2label or {}
        distinct = sorted(names) == list(range(len(names))) and len(set(names.values())) == len(names) >= 1
        _require(self, "id2label", distinct, "give every class from 0 on a name of its own")
        _require(self, "id2label", all(isinstance(name, str) for name in names.values()), "hold names that are texts")
        columns = self.text_columns
        listed = isinstance(columns, list | tuple) and all(isinstance(name, str) for name in columns)
        _require(self, "text_columns", columns is None or listed, "be a list of names")
        inverse = {name: i for i, name in names.items()}
        _require(self, "label2id", self.label2id == inverse, f"be the reverse of id2label ({inverse})")
        _require(
            self,
            "hidden_size",
            self.hidden_size % self.num_attention_heads == 0,
            f"be a multiple of num_attention_heads ({self.num_attention_heads})",
        )
        _require(
            self,
            "min_heads",
            _is_int(self.min_heads) and 0 <= self.min_heads <= self.num_attention_heads,
            f"lie between 0 and num_attention_heads ({self.num_attention_heads})",
        )
        for field in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "label_smoothing"):
            _require(self, field, _between(getattr(self, field), 0, 1) and getattr(self, field) < 1, "lie in [0, 1)")
        for field in ("s_min", "s_max", "budget_sampling"):
            _require(self, field, _between(getattr(self, field), 0, 1), "lie in [0, 1]")
        _require(
            self, "s_max", self.s_max > 0 and self.s_min <= self.s_max, f"be above 0 and at least s_min ({self.s_min})"
        )
        for field in ("tau_max", "tau_min", "layer_norm_eps", "initializer_range"):
            _require(
                self, field, _between(getattr(self, field), 0, math.inf) and getattr(self, field) > 0, "be above 0"
            )
        _require(self, "tau_max", self.tau_max >= self.tau_min, f"be at least tau_min ({self.tau_min})")
        for field in ("alpha_base", "alpha_max", "beta_max", "sigma_max", "gamma", "budget_price"):
            _require(self, field, _between(getattr(self, field), 0, math.inf), "be 0 or above")
        if self.fixed_budget is not None:
            low_enough = self.fixed_budget == 0 and self.min_heads == 0 and _is_number(self.fixed_budget)
            allowed = _between(self.fixed_budget, 0, 1) and (self.fixed_budget > 0 or low_enough)
            _require(self, "fixed_budget", allowed, "lie in (0, 1], or be 0 with min_heads=0")
            _require(self, "fixed_budget", self.budgeted, "be None when budgeted is False")
        if self.class_weights is not None:
            fits = len(self.class_weights) == self.num_labels and all(
                _between(w, 0, math.inf) for w in self.class_weights
            )
            _require(
                self, "class_weights", fits, f"hold one number of at least 0 for each of the {self.num_labels} labels"
            )


def _require(config: BudgetFormerConfig, field: str, holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(f"{field} must {rule}, got {getattr(config, field)!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _between(value: Any, low: float, high: float) -> bool:
    return _is_number(value) and math.isfinite(value) and low <= value <= high
