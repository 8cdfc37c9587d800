"""The list of families, and why another model cannot be converted."""

from __future__ import annotations

from typing import Any

from . import bert, distilbert, electra, modernbert, roberta
from .family import Family

FAMILIES = {
    family.model_type: family
    for family in (bert.FAMILY, roberta.FAMILY, roberta.XLM, distilbert.FAMILY, electra.FAMILY, modernbert.FAMILY)
}

RELATIVE = "its attention uses relative positions"
REASONS = {
    "albert": "its layers share one set of weights, and here every layer has its own",
    "deberta": RELATIVE,
    "deberta-v2": RELATIVE,
    "mpnet": RELATIVE,
    "xlnet": RELATIVE,
    "budgetformer": "it is a BudgetFormer already (with --prune-unused its unused heads can be dropped)",
}
DECODERS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
ENCODERS = ("Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification")
"""Ends of the class names that are converted; of the first three the encoder alone."""


def family_of(config: dict[str, Any], *, name: str) -> Family:
    """The family of a model by its ``config.json``. Raises ValueError with the reason and the list of what works."""
    kind = config.get("model_type")
    architecture = (config.get("architectures") or [""])[0]
    decoder = config.get("is_decoder") or config.get("is_encoder_decoder") or architecture.endswith(DECODERS)
    positions = config.get("position_embedding_type") or "absolute"
    if kind in REASONS:
        why = REASONS[kind]
    elif decoder:
        why = "it is a decoder or has one"
    elif kind not in FAMILIES:
        why = "models of this type are not known here"
    elif config.get("add_cross_attention"):
        why = "it attends to a second model"
    elif positions != "absolute":
        why = f"{RELATIVE} (position_embedding_type {positions!r})"
    elif config.get("quantization_config"):
        why = "its weights are quantised (quantization_config)"
    elif config.get("auto_map"):
        why = "it brings code of its own (auto_map), which is never run"
    elif architecture and not architecture.endswith(ENCODERS):
        why = f"it is a {architecture}"
    else:
        return FAMILIES[kind]
    raise ValueError(f"{name}: a model of type {kind!r} cannot be converted: {why}. {what_works()}")


def is_classifier(config: dict[str, Any]) -> bool:
    """Whether the class that wrote a ``config.json`` is a sequence classifier."""
    return any(name.endswith("ForSequenceClassification") for name in config.get("architectures") or ())


def what_works() -> str:
    """The list of what can be converted, as a sentence."""
    names = [family.name for family in FAMILIES.values()]
    return f"What works: encoders and sequence classifiers of {', '.join(names[:-1])} and {names[-1]}"
