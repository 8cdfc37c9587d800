"""What is known of a family of encoders: its classes, its configuration in our fields, its tensor names in ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .keys import Table, prefixed

ACTIVATIONS = {"gelu_python": "gelu"}
"""Names of activations that are another one by definition."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family of source models.

    name: as people call it. model_type: as ``config.json`` does. encoder_class, classifier_class: of ``transformers``.
    prefix: of the encoder's tensors within the classifier. fields: the fields of a BudgetFormer of this architecture,
    those of the classifier's head included. encoder: the table of the encoder's tensors, without prefix.
    head: of the classifier's, names whole. has_pooler: the encoder class brings the dense layer of the head.
    """

    name: str
    model_type: str
    encoder_class: str
    classifier_class: str
    prefix: str
    fields: Callable[[Any], dict[str, Any]]
    encoder: Table
    head: Table
    has_pooler: bool = False

    def table(self, *, classifier: bool) -> Table:
        """The table of a classifier, or of an encoder alone."""
        if not classifier:
            return self.encoder
        return (*prefixed(self.encoder, source=self.prefix, ours="budgetformer."), *self.head)


HEADLESS: dict[str, Any] = {
    "classifier_activation": None,
    "classifier_bias": True,
    "classifier_norm": False,
    "pooler_dropout": 0.0,
}
"""The fields of a model that has nothing between pooling and the classifier."""


def common(config: Any) -> dict[str, Any]:
    """The fields that the families of BERT's descent call alike."""
    activation = config.hidden_act
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "intermediate_size": config.intermediate_size,
        "hidden_act": ACTIVATIONS.get(activation, activation),
        "hidden_dropout_prob": config.hidden_dropout_prob,
        "attention_probs_dropout_prob": config.attention_probs_dropout_prob,
        "classifier_dropout": first_number(config.classifier_dropout, config.hidden_dropout_prob),
        "max_position_embeddings": config.max_position_embeddings,
        "type_vocab_size": config.type_vocab_size,
        "layer_norm_eps": config.layer_norm_eps,
        "initializer_range": config.initializer_range,
        "pad_token_id": config.pad_token_id,
        "position_embedding_type": "learned",
        "embedding_norm": True,
        "norm_position": "post",
        "pooling": "first",
    }


def first_number(*values: float | None) -> float:
    """The first value that is not None."""
    return next(value for value in values if value is not None)
