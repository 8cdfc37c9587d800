"""What an ONNX file says about itself: everything that a program needs beside the graph and the tokenizer."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ..inference import Classifier
from ..version import __version__
from .graph import OPSET, output_names
from .head_sets import HeadSets
from .verification import TOLERANCE, Verification

ALL_COMPUTED = "chosen for each input; the graph computes all heads and closes the others, so nothing is saved"
CUT_OUT = "the same for every input; the others are not in the graph"
NO_CHOICE = "all heads, full attention"


def metadata(classifier: Classifier, *, folder: Path, sets: HeadSets | None, checked: Verification) -> dict[str, str]:
    """``metadata_props`` of the file, by name; values that are not one word or number are JSON."""
    config = classifier.config
    names = classifier.labels
    normalizer = classifier.tokenizer.backend_tokenizer.normalizer
    if not config.budgeted:
        heads = NO_CHOICE
    else:
        heads = ALL_COMPUTED if sets is None else CUT_OUT
    found: dict[str, Any] = {
        "model_type": config.model_type,
        "budgetformer": __version__,
        "opset": OPSET,
        "weights_sha256": _digest(folder),
        "labels": names,
        "id2label": dict(enumerate(names)),
        "task": "single_label_classification",
        "scores": "softmax of logits",
        "outputs": output_names(classifier.model, fixed=sets is not None),
        "inputs": "pair" if config.pair_column else "text",
        "text_columns": config.text_columns,
        "pair_column": config.pair_column,
        "joined_by": "\n",
        "max_length": config.text_limit,
        "longer_texts": "end cut off; of a pair the longer text first",
        "pad_token_id": config.pad_token_id,
        "padding": "either side; attention_mask 0 there",
        "lowercase": normalizer is not None and normalizer.normalize_str("AB") == "ab",
        "strip_accents": normalizer is not None and normalizer.normalize_str("é").lower() == "e",
        "special_tokens_in_texts": "are text",
        "token_type_ids": config.type_vocab_size > 1,
        "precision": "float32",
        "layers": config.num_hidden_layers,
        "heads_per_layer": config.num_attention_heads,
        "kept_heads": config.kept_heads,
        "heads": heads,
        "selection": config.selection if config.budgeted else None,
        "default_budget": config.default_budget if sets is None else None,
        "tolerance": TOLERANCE,
        "verified_inputs": checked.inputs,
        "verified_difference": checked.difference,
    }
    if sets is not None:
        found |= {
            "budget": sets.budget,
            "fixed_heads": sets.kept,
            "fixed_heads_from_texts": sets.texts,
            "fixed_heads_same_labels": sets.same_labels,
        }
    return {
        k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for k, v in found.items() if v is not None
    }


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        with open(file, "rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()
