"""RoBERTa and XLM-RoBERTa: BERT's shape, positions counted from padding_idx + 1, a head of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .bert import encoder_table
from .family import Family, common
from .keys import linear


def _fields(config: Any) -> dict[str, Any]:
    """The position table has ``padding_idx + 1`` rows before that of the first token, and so many tokens fewer."""
    offset = config.pad_token_id + 1
    fields = common(config)
    return fields | {
        "max_position_embeddings": config.max_position_embeddings - offset,
        "position_offset": offset,
        "classifier_activation": "tanh",
        "pooler_dropout": fields["classifier_dropout"],
    }


FAMILY = Family(
    name="RoBERTa",
    model_type="roberta",
    encoder_class="RobertaModel",
    classifier_class="RobertaForSequenceClassification",
    prefix="roberta.",
    fields=_fields,
    encoder=encoder_table(),
    head=(
        *linear("classifier.dense", "budgetformer.pooler.dense"),
        *linear("classifier.out_proj", "classifier"),
    ),
)

XLM = replace(
    FAMILY,
    name="XLM-RoBERTa",
    model_type="xlm-roberta",
    encoder_class="XLMRobertaModel",
    classifier_class="XLMRobertaForSequenceClassification",
)
