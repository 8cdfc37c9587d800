"""ModernBERT: norms before the parts, rotary positions, gated feed-forward, layers with a local window."""

from __future__ import annotations

from typing import Any

from .family import ACTIVATIONS, Family
from .keys import linear, projections


def _fields(config: Any) -> dict[str, Any]:
    kinds = {kind: config.rope_parameters[kind] for kind in set(config.layer_types)}
    for kind, rope in kinds.items():
        if rope is not None and rope.get("rope_type", "default") != "default":
            raise ValueError(
                f"its rotary positions are of the type {rope['rope_type']!r} ({kind}), and only 'default' is known"
            )
    thetas = {kind: float(rope["rope_theta"]) for kind, rope in config.rope_parameters.items() if rope}
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "intermediate_size": config.intermediate_size,
        "hidden_act": ACTIVATIONS.get(config.hidden_activation, config.hidden_activation),
        "is_gated_act": True,
        "hidden_dropout_prob": config.mlp_dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "classifier_dropout": config.classifier_dropout,
        "max_position_embeddings": config.max_position_embeddings,
        "type_vocab_size": 0,
        "layer_norm_eps": config.norm_eps,
        "initializer_range": config.initializer_range,
        "pad_token_id": config.pad_token_id,
        "position_embedding_type": "rotary",
        "global_rope_theta": thetas["full_attention"],
        "local_rope_theta": thetas["sliding_attention"],
        "layer_types": list(config.layer_types),
        "local_attention": config.local_attention,
        "embedding_norm": True,
        "norm_position": "pre",
        "skip_first_norm": True,
        "norm_bias": config.norm_bias,
        "attention_bias": config.attention_bias,
        "mlp_bias": config.mlp_bias,
        "pooling": {"cls": "first", "mean": "mean"}[config.classifier_pooling],
        "classifier_activation": ACTIVATIONS.get(config.classifier_activation, config.classifier_activation),
        "classifier_bias": config.classifier_bias,
        "classifier_norm": True,
    }


_LAYER = "layers.{i}"
FAMILY = Family(
    name="ModernBERT",
    model_type="modernbert",
    encoder_class="ModernBertModel",
    classifier_class="ModernBertForSequenceClassification",
    prefix="model.",
    fields=_fields,
    encoder=(
        *linear("embeddings.tok_embeddings", "embeddings.word_embeddings"),
        *linear("embeddings.norm", "embeddings.norm"),
        *linear(f"{_LAYER}.attn_norm", "layers.{i}.attention_norm"),
        *projections((f"{_LAYER}.attn.Wqkv",), "layers.{i}.attention.qkv"),
        *linear(f"{_LAYER}.attn.Wo", "layers.{i}.attention.output"),
        *linear(f"{_LAYER}.mlp_norm", "layers.{i}.feed_forward_norm"),
        *linear(f"{_LAYER}.mlp.Wi", "layers.{i}.intermediate"),
        *linear(f"{_LAYER}.mlp.Wo", "layers.{i}.feed_forward"),
        *linear("final_norm", "final_norm"),
    ),
    head=(
        *linear("head.dense", "budgetformer.pooler.dense"),
        *linear("head.norm", "budgetformer.pooler.norm"),
        *linear("classifier", "classifier"),
    ),
)
