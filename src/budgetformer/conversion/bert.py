"""BERT, and what is built like it (MiniLM, and most models of sentence-transformers)."""

from __future__ import annotations

from typing import Any

from .family import Family, common
from .keys import Table, linear, projections


def encoder_table(*, word_level: Table = ()) -> Table:
    """The tensors of an encoder of BERT's shape; ``word_level`` are more tensors of the embeddings."""
    layer = "encoder.layer.{i}"
    return (
        *linear("embeddings.word_embeddings", "embeddings.word_embeddings"),
        *linear("embeddings.position_embeddings", "embeddings.position_embeddings"),
        *linear("embeddings.token_type_embeddings", "embeddings.segment_embeddings"),
        *linear("embeddings.LayerNorm", "embeddings.norm"),
        *word_level,
        *projections(
            tuple(f"{layer}.attention.self.{name}" for name in ("query", "key", "value")), "layers.{i}.attention.qkv"
        ),
        *linear(f"{layer}.attention.output.dense", "layers.{i}.attention.output"),
        *linear(f"{layer}.attention.output.LayerNorm", "layers.{i}.attention_norm"),
        *linear(f"{layer}.intermediate.dense", "layers.{i}.intermediate"),
        *linear(f"{layer}.output.dense", "layers.{i}.feed_forward"),
        *linear(f"{layer}.output.LayerNorm", "layers.{i}.feed_forward_norm"),
    )


def _fields(config: Any) -> dict[str, Any]:
    """The pooler, a dense layer with tanh on the first token, belongs to the encoder."""
    return common(config) | {"classifier_activation": "tanh"}


FAMILY = Family(
    name="BERT",
    model_type="bert",
    encoder_class="BertModel",
    classifier_class="BertForSequenceClassification",
    prefix="bert.",
    fields=_fields,
    encoder=(*encoder_table(), *linear("pooler.dense", "pooler.dense")),
    head=linear("classifier", "classifier"),
    has_pooler=True,
)
