"""DistilBERT: BERT's layers under other names, no segments, a head with ReLU."""

from __future__ import annotations

from typing import Any

from .family import ACTIVATIONS, Family
from .keys import linear, projections

NORM_EPS = 1e-12
"""Fixed in the source's code, in no configuration."""


def _fields(config: Any) -> dict[str, Any]:
    """Sinusoidal positions are a table among the weights there, so they are learned ones here."""
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.dim,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "intermediate_size": config.hidden_dim,
        "hidden_act": ACTIVATIONS.get(config.activation, config.activation),
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "classifier_dropout": config.seq_classif_dropout,
        "max_position_embeddings": config.max_position_embeddings,
        "type_vocab_size": 0,
        "layer_norm_eps": NORM_EPS,
        "initializer_range": config.initializer_range,
        "pad_token_id": config.pad_token_id,
        "position_embedding_type": "learned",
        "embedding_norm": True,
        "norm_position": "post",
        "pooling": "first",
        "classifier_activation": "relu",
    }


_LAYER = "transformer.layer.{i}"
FAMILY = Family(
    name="DistilBERT",
    model_type="distilbert",
    encoder_class="DistilBertModel",
    classifier_class="DistilBertForSequenceClassification",
    prefix="distilbert.",
    fields=_fields,
    encoder=(
        *linear("embeddings.word_embeddings", "embeddings.word_embeddings"),
        *linear("embeddings.position_embeddings", "embeddings.position_embeddings"),
        *linear("embeddings.LayerNorm", "embeddings.norm"),
        *projections(tuple(f"{_LAYER}.attention.{name}_lin" for name in ("q", "k", "v")), "layers.{i}.attention.qkv"),
        *linear(f"{_LAYER}.attention.out_lin", "layers.{i}.attention.output"),
        *linear(f"{_LAYER}.sa_layer_norm", "layers.{i}.attention_norm"),
        *linear(f"{_LAYER}.ffn.lin1", "layers.{i}.intermediate"),
        *linear(f"{_LAYER}.ffn.lin2", "layers.{i}.feed_forward"),
        *linear(f"{_LAYER}.output_layer_norm", "layers.{i}.feed_forward_norm"),
    ),
    head=(
        *linear("pre_classifier", "budgetformer.pooler.dense"),
        *linear("classifier", "classifier"),
    ),
)
