"""The one list of model fields, their checks, and the presets."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig

from .configuration_checks import check_fields, check_layer_types, check_num_labels

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


class BudgetFormerConfig(PreTrainedConfig):
    """Configuration of a BudgetFormer text classifier.

    Architecture (the usual names of ``transformers``):
        vocab_size, hidden_size (D), num_hidden_layers (L), num_attention_heads (H), intermediate_size,
        hidden_act, hidden_dropout_prob, attention_probs_dropout_prob, classifier_dropout,
        max_position_embeddings (tokens, special ones included), layer_norm_eps, initializer_range, pad_token_id.
        type_vocab_size: 0 for no segment embeddings, 2 for pairs.
        position_embedding_type: "sinusoidal" (no parameters), "learned", or "rotary" in every layer.
        norm_position: "post" (the paper) or "pre". pooling: "mean" over real tokens or the "first" token.

    Architecture of pretrained encoders (docs/pretrained.md; the defaults are a model without them):
        embedding_norm: LayerNorm after the embeddings. embedding_size: their width where it is not hidden_size.
        position_offset: rows of the position table before that of the first token.
        global_rope_theta, local_rope_theta: base of the rotary frequencies in layers of either type.
        layer_types: "full_attention" or "sliding_attention" for every layer; in the latter a token attends to those
        at most local_attention // 2 places away. skip_first_norm: the first layer has no norm before attention.
        is_gated_act: the feed-forward is ``W_2 (act(W_1 x) · W_3 x)``. norm_bias, attention_bias, mlp_bias.
        classifier_activation: a Linear D→D with this activation comes after pooling; None: nothing. classifier_bias
        and classifier_norm: it has a bias, is followed by a LayerNorm. pooler_dropout: before it.
        model_max_length: tokens that a text is cut to, where these are fewer than max_position_embeddings.
        source: of what model this one was converted: its name, class and configuration.

    Method (section 2 of docs/method.md; arXiv 2604.22583):
        budgeted: False gives the full-attention twin, the same class without budget and relevance nets.
        selection: "straight_through" or "soft". min_heads: heads at least, 0 lets a layer pass its input through.
        fixed_budget: a constant s in (0, 1] in place of the budget net (0 with min_heads=0: no attention at all).
        s_min, s_max: interval of the budget loss. alpha_base, alpha_max: its weight over training.
        s_max_start, ceiling_until: the upper end of the interval starts at s_max_start (None: at s_max) and comes down
        linearly to s_max over this share of training. distillation: weight of the logits of a teacher.
        beta_max: weight of the entropy loss. sigma_max: noise. tau_max, tau_min, gamma: temperature.
        tau_floored, beta_end: other readings of the temperature and of the weight of the entropy loss (``method``).
        budget_price: λ, what a budget of 1 in one layer costs in units of the task loss.
        budget_sampling: share of the rows of a training batch that get a random number of heads instead of their own,
        so that one checkpoint serves every budget at request time.
        default_budget: the share of heads, in (0, 1], of calls that name neither budget nor max_budget; None: the
        learned budgets. budget=1.0 then gives all heads, max_budget=1.0 the learned budgets. Not used in training.
        kept_heads: for every layer the heads that it has, by their numbers from 0, rising; None: all H of them. Others
        were dropped for good (``model.prune_heads``). H stays what a budget is a share of.
        head_choice: "learned", or "random" for a baseline: the relevance of every input is permuted among the heads, in
        training and inference alike, always in the same way for the same input (``method.random_policy``).

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
        s_max_start: float | None = None,
        ceiling_until: float = 0.6,
        distillation: float = 0.0,
        alpha_base: float = 0.001,
        alpha_max: float = 5.0,
        beta_max: float = 0.05,
        sigma_max: float = 0.5,
        tau_max: float = 2.0,
        tau_min: float = 0.1,
        gamma: float = 5.0,
        tau_floored: bool = False,
        beta_end: float = -1.0,
        budget_price: float = 0.0,
        budget_sampling: float = 0.0,
        default_budget: float | None = None,
        head_choice: str = "learned",
        kept_heads: list[list[int]] | None = None,
        label_smoothing: float = 0.0,
        class_weights: list[float] | None = None,
        text_columns: list[str] | None = None,
        pair_column: str | None = None,
        label_column: str | None = None,
        execution: str = "auto",
        embedding_norm: bool = False,
        embedding_size: int | None = None,
        position_offset: int = 0,
        global_rope_theta: float = 160000.0,
        local_rope_theta: float = 10000.0,
        layer_types: list[str] | None = None,
        local_attention: int = 128,
        skip_first_norm: bool = False,
        is_gated_act: bool = False,
        norm_bias: bool = True,
        attention_bias: bool = True,
        mlp_bias: bool = True,
        classifier_activation: str | None = None,
        classifier_bias: bool = True,
        classifier_norm: bool = False,
        pooler_dropout: float = 0.0,
        model_max_length: int | None = None,
        source: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        fields = {k: v for k, v in locals().items() if k not in ("self", "kwargs", "__class__")}
        for name, value in fields.items():
            setattr(self, name, value)
        check_layer_types(self)
        check_num_labels(kwargs.get("num_labels"))
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

    def heads_of(self, layer: int) -> list[int]:
        """The heads that a layer has, by their numbers from 0."""
        return list(range(self.num_attention_heads)) if self.kept_heads is None else list(self.kept_heads[layer])

    @property
    def heads_per_layer(self) -> list[int]:
        """How many heads each layer has."""
        return [len(self.heads_of(layer)) for layer in range(self.num_hidden_layers)]

    @property
    def embedding_width(self) -> int:
        """Width of the embedding tables."""
        return self.embedding_size or self.hidden_size

    @property
    def text_limit(self) -> int:
        """Tokens that a text is cut to, special ones included."""
        return self.model_max_length or self.max_position_embeddings

    def window(self, layer: int) -> int | None:
        """How many places away a token may look in a layer; None: everywhere."""
        types = self.layer_types or ["full_attention"] * self.num_hidden_layers
        return self.local_attention // 2 if types[layer] == "sliding_attention" else None

    def rotary_theta(self, layer: int) -> float | None:
        """Base of the rotary frequencies of a layer; None without rotary positions."""
        if self.position_embedding_type != "rotary":
            return None
        return self.global_rope_theta if self.window(layer) is None else self.local_rope_theta

    def dense_twin(self) -> BudgetFormerConfig:
        """The same model with full attention: identical parameters but for the nets f and g."""
        changes = {"budgeted": False, "fixed_budget": None, "default_budget": None, "head_choice": "learned"}
        return type(self).from_dict(self.to_dict() | changes)

    def asked(self, request: dict[str, Any]) -> dict[str, Any]:
        """A request with the default budget where it names neither ``budget`` nor ``max_budget``."""
        unasked = request.get("budget") is None and request.get("max_budget") is None
        return request | {"budget": self.default_budget} if unasked and self.default_budget is not None else request

    def check(self) -> None:
        """Refuse values that cannot work, naming the field and the value."""
        check_fields(self)
