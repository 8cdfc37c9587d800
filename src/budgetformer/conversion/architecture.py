"""The BudgetFormer that a source becomes: its configuration and its weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ..configuration import BudgetFormerConfig
from ..modeling import BudgetFormerForSequenceClassification, BudgetFormerModel
from .families import FAMILIES
from .family import HEADLESS, Family
from .gates import open_gates
from .keys import for_layers, to_ours
from .source import Source

NETS = ("budget_net.", "relevance_net.")
"""Tensors that no source has: f and g of every layer."""


def target_fields(source: Source) -> dict[str, Any]:
    """The fields of the new configuration that the source settles, labels and origin included."""
    try:
        fields = source.family.fields(source.config)
    except ValueError as problem:
        raise ValueError(f"{source.place.name}: {problem}") from problem
    if not source.classifier:
        fields |= _encoder_fields(source, fields)
    limit = source.max_length
    if limit is not None and limit < fields["max_position_embeddings"]:
        fields["model_max_length"] = limit
    if fields["pad_token_id"] is None:
        fields["pad_token_id"] = source.tokenizer.pad_token_id or 0
    if source.classifier:
        fields["id2label"] = {int(i): str(name) for i, name in source.config.id2label.items()}
    kind = source.family.classifier_class if source.classifier else source.family.encoder_class
    return fields | {
        "source": {
            "name": source.place.title,
            "model_type": source.family.model_type,
            "class": kind,
            "config": _plain(source.config),
        }
    }


def _encoder_fields(source: Source, fields: dict[str, Any]) -> dict[str, Any]:
    """An encoder keeps the dense layer only where it brings one, and pools as sentence-transformers was told."""
    changes = {} if source.place.pooling is None else {"pooling": source.place.pooling}
    pooled_first = (changes | {"pooling": changes.get("pooling", fields["pooling"])})["pooling"] == "first"
    keeps = source.family.has_pooler and "pooler.dense.weight" in source.state and pooled_first
    return changes if keeps else changes | HEADLESS


def build(
    source: Source, changes: dict[str, Any] | None = None
) -> tuple[BudgetFormerForSequenceClassification | BudgetFormerModel, dict[str, Tensor]]:
    """The new model with open gates, in evaluation, and the source's tensors that it does not read.

    ``changes`` are further fields of the configuration. Raises ValueError naming tensors that do not fit.
    """
    try:
        config = BudgetFormerConfig(**(target_fields(source) | (changes or {})))
    except ValueError as problem:
        raise ValueError(f"{source.place.name} cannot be converted: {problem}") from problem
    kind = BudgetFormerForSequenceClassification if source.classifier else BudgetFormerModel
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # of the nets f and g, so that converting twice gives the same folder
        model = kind(config).eval()
    table = source.family.table(classifier=source.classifier)
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    found, left = to_ours(table, source.state, layers=layers, heads=heads)
    unread = {name: left.pop(name) for name in list(left) if name.startswith("pooler.")}
    if isinstance(model, BudgetFormerModel) and model.pooler is None:
        # The names of the encoder's pooler are the same on both sides.
        unread |= {name: found.pop(name) for name in list(found) if name.startswith("pooler.")}
    fill(model, found, left, name=source.place.name, names=source_names(source.family, config, source.classifier))
    if config.budgeted:
        open_gates(model)
    return model, unread


def fill(
    model: torch.nn.Module, found: dict[str, Tensor], left: Iterable[str], *, name: str, names: dict[str, str]
) -> None:
    """Put the tensors into the model, all of them or none. Raises ValueError naming those that do not fit."""
    own = {key: tensor for key, tensor in model.state_dict().items() if not any(net in key for net in NETS)}
    missing = sorted(names.get(key, key) for key in own.keys() - found.keys())
    unknown = sorted([*left, *(names.get(key, key) for key in found.keys() - own.keys())])
    shapes = sorted(
        f"{names.get(key, key)} {list(found[key].shape)} for {list(own[key].shape)}"
        for key in own.keys() & found.keys()
        if own[key].shape != found[key].shape
    )
    problems = [
        f"{what}: {', '.join(keys[:8])}"
        for what, keys in (("missing", missing), ("unknown", unknown), ("of another shape", shapes))
        if keys
    ]
    if problems:
        raise ValueError(f"{name}: the weights do not fit the architecture; tensors {'; '.join(problems)}")
    model.load_state_dict(found, strict=False)


def source_names(family: Family, config: BudgetFormerConfig, classifier: bool) -> dict[str, str]:
    """How the source calls each of our tensors."""
    table = family.table(classifier=classifier)
    return {e.ours: " + ".join(e.sources) for e in for_layers(table, config.num_hidden_layers)}


def family_named(model_type: str) -> Family:
    """The family that a converted model remembers."""
    if model_type not in FAMILIES:
        raise ValueError(f"source must name a model type of {', '.join(FAMILIES)}, got {model_type!r}")
    return FAMILIES[model_type]


def _plain(config: Any) -> dict[str, Any]:
    """The source's configuration without labels, file names and versions, which have places of their own."""
    left_out = {"_name_or_path", "transformers_version", "id2label", "label2id", "architectures", "dtype"}
    return {key: value for key, value in config.to_diff_dict().items() if key not in left_out}
