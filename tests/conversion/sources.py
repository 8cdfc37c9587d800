"""Small random models of every family in folders, each with a real tokenizer of its kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data.tokenizers_at_hand import FAMILIES as TOKENIZERS

LABELS = ("refund", "praise", "Übrig / other")
TEXTS = [
    "The quick brown fox jumps over the lazy dog, again and again.",
    "Budgets for heads",
    "a",
    "some inputs are worth one head, others are worth eight! " * 3,
    "Größe, naïve café and more 12345 numbers (like 3.14).",
]
SECONDS = ["others are worth eight", "The lazy dog", "a", "some", "quick quick quick brown fox " * 4]

BERT = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
SHAPES: dict[str, dict[str, Any]] = {
    "bert": BERT,
    "roberta": BERT | {"max_position_embeddings": 66, "type_vocab_size": 1},
    "xlm-roberta": BERT | {"max_position_embeddings": 66, "type_vocab_size": 1},
    "distilbert": {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 64},
    "electra": BERT | {"embedding_size": 20},
    "modernbert": BERT
    | {
        "num_hidden_layers": 4,
        "local_attention": 8,
        "cls_token_id": None,
        "sep_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    },
}
WORDS = {"roberta": "byte_level", "xlm-roberta": "unigram"}
CLASSES = {
    "bert": "Bert",
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "distilbert": "DistilBert",
    "electra": "Electra",
    "modernbert": "ModernBert",
}


def tokenizer_of(family: str) -> PreTrainedTokenizerBase:
    """A tokenizer of the family's kind."""
    return TOKENIZERS[WORDS.get(family, "wordpiece")]()


def random_model(family: str, kind: str = "ForSequenceClassification", **changes: Any) -> PreTrainedModel:
    """A random model of a family in evaluation, with no parameter at its usual start, so that each one matters."""
    torch.manual_seed(0)
    tokenizer = tokenizer_of(family)
    fields = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "id2label": dict(enumerate(LABELS))}
    fields |= {"label2id": {name: i for i, name in enumerate(LABELS)}}
    config = getattr(transformers, f"{CLASSES[family]}Config")(**(fields | SHAPES[family] | changes))
    model = getattr(transformers, f"{CLASSES[family]}{kind}")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 0.25 if parameter.dim() > 1 else 0.1
            parameter.add_(torch.randn_like(parameter) * scale)
    return model.eval()


def write_source(
    folder: Path, family: str, kind: str = "ForSequenceClassification", *, with_tokenizer: bool = True, **changes: Any
) -> Path:
    """The model in a folder, as its author would have saved it."""
    random_model(family, kind, **changes).save_pretrained(folder)
    if with_tokenizer:
        tokenizer = tokenizer_of(family)
        tokenizer.model_max_length = 48
        tokenizer.save_pretrained(folder)
    return folder


def change_config(folder: Path, **changes: Any) -> Path:
    """The folder with other values in its config.json."""
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | changes), encoding="utf-8")
    return folder
