"""The checks of the model's fields: every value that cannot work is refused with the field's name."""

from __future__ import annotations

import math
from typing import Any

CHOICES: dict[str, tuple[str, ...]] = {
    "selection": ("straight_through", "soft"),
    "head_choice": ("learned", "random"),
    "pooling": ("mean", "first"),
    "position_embedding_type": ("sinusoidal", "learned", "rotary"),
    "norm_position": ("post", "pre"),
    "hidden_act": ("gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "relu", "silu", "swish", "mish", "tanh"),
    "execution": ("auto", "reference", "packed", "cuda"),
}

FLAGS = (
    "budgeted",
    "tau_floored",
    "embedding_norm",
    "skip_first_norm",
    "is_gated_act",
    "norm_bias",
    "attention_bias",
    "mlp_bias",
    "classifier_bias",
    "classifier_norm",
)
LAYER_TYPES = ("full_attention", "sliding_attention")
LARGEST, MOST_LAYERS, MOST_LABELS = 2**31 - 1, 1000, 1_000_000
"""Of sizes; what lies above is a slip of the keys, and would fill the memory or overflow before it is noticed."""


def check_fields(config: Any) -> None:
    """Refuse values of a ``BudgetFormerConfig`` that cannot work.

    Raises ValueError naming the field and the value.
    """
    for field, choices in CHOICES.items():
        _require(config, field, getattr(config, field) in choices, f"be one of {', '.join(choices)}")
    for field in FLAGS:
        _require(config, field, isinstance(getattr(config, field), bool), "be True or False")
    for field in (
        "vocab_size",
        "hidden_size",
        "num_attention_heads",
        "intermediate_size",
        "max_position_embeddings",
    ):
        _require(
            config,
            field,
            _is_int(getattr(config, field)) and 1 <= getattr(config, field) <= LARGEST,
            f"be a whole number, at least 1 and at most {LARGEST}",
        )
    for field, most in (("num_hidden_layers", MOST_LAYERS), ("type_vocab_size", LARGEST)):
        _require(
            config,
            field,
            _is_int(getattr(config, field)) and 0 <= getattr(config, field) <= most,
            f"be a whole number, at least 0 and at most {most}",
        )
    _require(
        config,
        "pad_token_id",
        _is_int(config.pad_token_id) and 0 <= config.pad_token_id < config.vocab_size,
        f"lie between 0 and vocab_size - 1 ({config.vocab_size - 1})",
    )
    names = config.id2label or {}
    distinct = sorted(names) == list(range(len(names))) and len(set(names.values())) == len(names) >= 1
    _require(config, "id2label", distinct, "give every class from 0 on a name of its own")
    _require(config, "id2label", all(isinstance(name, str) for name in names.values()), "hold names that are texts")
    columns = config.text_columns
    listed = isinstance(columns, list | tuple) and all(isinstance(name, str) for name in columns)
    _require(config, "text_columns", columns is None or listed, "be a list of names")
    for field in ("pair_column", "label_column"):
        name = getattr(config, field)
        _require(config, field, name is None or isinstance(name, str), "be None or a name")
    inverse = {name: i for i, name in names.items()}
    _require(config, "label2id", config.label2id == inverse, f"be the reverse of id2label ({inverse})")
    _require(
        config,
        "hidden_size",
        config.hidden_size % config.num_attention_heads == 0,
        f"be a multiple of num_attention_heads ({config.num_attention_heads})",
    )
    _require(
        config,
        "min_heads",
        _is_int(config.min_heads) and 0 <= config.min_heads <= config.num_attention_heads,
        f"lie between 0 and num_attention_heads ({config.num_attention_heads})",
    )
    _check_kept_heads(config)
    for field in (
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "classifier_dropout",
        "pooler_dropout",
        "label_smoothing",
    ):
        _require(config, field, _between(getattr(config, field), 0, 1) and getattr(config, field) < 1, "lie in [0, 1)")
    for field in ("s_min", "s_max", "budget_sampling"):
        _require(config, field, _between(getattr(config, field), 0, 1), "lie in [0, 1]")
    _require(
        config,
        "s_max",
        config.s_max > 0 and config.s_min <= config.s_max,
        f"be above 0 and at least s_min ({config.s_min})",
    )
    start = config.s_max_start
    fits = start is None or (_between(start, 0, 1) and start >= config.s_max)
    _require(config, "s_max_start", fits, f"be None or lie between s_max ({config.s_max}) and 1")
    until = config.ceiling_until
    _require(config, "ceiling_until", _between(until, 0, 1) and until > 0, "lie in (0, 1]")
    for field in ("tau_max", "tau_min", "layer_norm_eps", "initializer_range"):
        _require(
            config, field, _between(getattr(config, field), 0, math.inf) and getattr(config, field) > 0, "be above 0"
        )
    _require(config, "tau_max", config.tau_max >= config.tau_min, f"be at least tau_min ({config.tau_min})")
    for field in ("alpha_base", "alpha_max", "beta_max", "sigma_max", "gamma", "budget_price", "distillation"):
        _require(config, field, _between(getattr(config, field), 0, math.inf), "be 0 or above")
    _require(config, "beta_end", _between(config.beta_end, -1, 1), "lie in [-1, 1]")
    if config.fixed_budget is not None:
        low_enough = config.fixed_budget == 0 and config.min_heads == 0 and _is_number(config.fixed_budget)
        allowed = _between(config.fixed_budget, 0, 1) and (config.fixed_budget > 0 or low_enough)
        _require(config, "fixed_budget", allowed, "lie in (0, 1], or be 0 with min_heads=0")
        _require(config, "fixed_budget", config.budgeted, "be None when budgeted is False")
    if config.default_budget is not None:
        allowed = _between(config.default_budget, 0, 1) and config.default_budget > 0
        _require(config, "default_budget", allowed, "be None or lie in (0, 1]")
        _require(config, "default_budget", config.budgeted, "be None when budgeted is False")
    if config.head_choice == "random":
        _require(config, "head_choice", config.budgeted, "be learned when budgeted is False")
        _require(config, "head_choice", config.budget_sampling == 0, "be learned with budget_sampling above 0")
    if config.class_weights is not None:
        fits = len(config.class_weights) == config.num_labels and all(
            _between(w, 0, math.inf) for w in config.class_weights
        )
        _require(
            config, "class_weights", fits, f"hold one number of at least 0 for each of the {config.num_labels} labels"
        )
    _check_pretrained(config)


def _check_kept_heads(config: Any) -> None:
    """Where heads were dropped, every layer has a list of those that it kept."""
    kept, heads, layers = config.kept_heads, config.num_attention_heads, config.num_hidden_layers
    if kept is None:
        return
    listed = isinstance(kept, list | tuple) and len(kept) == layers and all(isinstance(k, list | tuple) for k in kept)
    _require(config, "kept_heads", listed, f"be None or a list of heads for each of the {layers} layers")
    for layer, own in enumerate(kept):
        numbers = all(_is_int(h) and 0 <= h < heads for h in own)
        if not numbers or list(own) != sorted(set(own)):
            raise ValueError(
                f"kept_heads must list each head of a layer once, in rising order, from 0 to {heads - 1}; layer "
                f"{layer} has {list(own)}"
            )
        if len(own) < config.min_heads:
            raise ValueError(
                f"kept_heads must leave every layer at least min_heads heads ({config.min_heads}); layer {layer} has "
                f"{len(own)}"
            )


def _check_pretrained(config: Any) -> None:
    """The fields that only models converted from other encoders use."""
    for field in ("position_offset", "local_attention"):
        value = getattr(config, field)
        _require(config, field, _is_int(value) and value >= 0, "be a whole number, at least 0")
    for field, limit in (("embedding_size", math.inf), ("model_max_length", config.max_position_embeddings)):
        value = getattr(config, field)
        rule = "be a whole number, at least 1" + (f" and at most {limit}" if limit < math.inf else "")
        _require(config, field, value is None or (_is_int(value) and 1 <= value <= limit), rule)
    activation = config.classifier_activation
    allowed = CHOICES["hidden_act"]
    _require(config, "classifier_activation", activation is None or activation in allowed, f"be {', '.join(allowed)}")
    for field in ("global_rope_theta", "local_rope_theta"):
        value = getattr(config, field)
        _require(config, field, _between(value, 0, math.inf) and value > 0, "be above 0")
    even = config.position_embedding_type != "rotary" or config.head_size % 2 == 0
    _require(config, "hidden_size", even, "give heads of an even size with rotary positions")
    check_layer_types(config)


def check_layer_types(config: Any) -> None:
    """Refuse layer types that are unknown or too few, before ``transformers`` does so by another error."""
    types = config.layer_types
    if types is not None:
        fits = isinstance(types, list | tuple) and len(types) == config.num_hidden_layers
        fits = fits and all(name in LAYER_TYPES for name in types)
        _require(config, "layer_types", fits, f"name one of {', '.join(LAYER_TYPES)} for every layer")


def check_num_labels(number: Any) -> None:
    """Refuse a number of classes for which ``transformers`` would make more names than the memory holds."""
    if _is_int(number) and number > MOST_LABELS:
        raise ValueError(f"num_labels must be at most {MOST_LABELS}, got {number}")


def _require(config: Any, field: str, holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(f"{field} must {rule}, got {getattr(config, field)!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _between(value: Any, low: float, high: float) -> bool:
    return _is_number(value) and math.isfinite(value) and low <= value <= high
