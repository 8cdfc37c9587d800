"""ELECTRA (the discriminator): BERT's shape, embeddings that may be narrower than the model."""

from __future__ import annotations

from typing import Any

from .bert import encoder_table
from .family import Family, common
from .keys import linear


def _fields(config: Any) -> dict[str, Any]:
    fields = common(config)
    return fields | {
        "embedding_size": config.embedding_size,
        "classifier_activation": "gelu",
        "pooler_dropout": fields["classifier_dropout"],
    }


FAMILY = Family(
    name="ELECTRA",
    model_type="electra",
    encoder_class="ElectraModel",
    classifier_class="ElectraForSequenceClassification",
    prefix="electra.",
    fields=_fields,
    encoder=encoder_table(word_level=linear("embeddings_project", "embeddings.projection")),
    head=(
        *linear("classifier.dense", "budgetformer.pooler.dense"),
        *linear("classifier.out_proj", "classifier"),
    ),
)
