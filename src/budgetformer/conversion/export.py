"""The way back: a converted model in the class of ``transformers`` that it came from."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import transformers
from safetensors.torch import load_file
from torch import Tensor
from transformers import CONFIG_MAPPING, PreTrainedModel

from ..configuration import BudgetFormerConfig
from ..model_folder import load_config, load_tokenizer
from ..modeling import BudgetFormerForSequenceClassification, BudgetFormerModel
from .architecture import family_named
from .family import HEADLESS, Family
from .folder import UNREAD, check_output, write_folder
from .keys import to_source
from .lost_heads import with_lost_heads
from .source import quietly

HEAD = ("pooling", "classifier_activation", "classifier_bias", "classifier_norm")
"""Fields that say what stands between the last layer and the classifier."""


def to_transformers(folder: str | Path, *, output: str | Path | None = None, encoder: bool = False) -> PreTrainedModel:
    """The model of a converted folder with all its heads, in its source's class, in evaluation.

    The weights are those of the source, or what training made of them; budgets are left behind. Heads that were dropped
    for good come back with weights of 0, which add nothing: no class of ``transformers`` has layers with fewer heads.
    With ``output``, it is written there with its tokenizer, to be loaded by ``transformers`` alone. ``encoder``:
    without the classifier, which works for every folder that began with an encoder, also where the classifier's class
    reads its tokens otherwise.

    Raises ValueError when the folder holds no converted model, or one that its source's class cannot be.
    """
    target = None if output is None else check_output(output)
    folder = Path(folder)
    config = load_config(folder)
    if not config.source:
        raise ValueError(f"{folder} was not converted from another model, so there is no class to take it back to")
    if config.budgeted and config.selection != "straight_through":
        raise ValueError(
            f"{folder} has selection {config.selection!r}, whose gates weigh the heads: no other class can do that"
        )
    classifier = "BudgetFormerModel" not in (config.architectures or [])
    family = family_named(config.source["model_type"])
    with quietly():
        model = (BudgetFormerForSequenceClassification if classifier else BudgetFormerModel).from_pretrained(folder)
        state = model.state_dict()
        if classifier and encoder:
            inner = "budgetformer."
            state = {key.removeprefix(inner): tensor for key, tensor in state.items() if key.startswith(inner)}
        result = _back(folder, config, family, state, classifier=classifier and not encoder)
    if target is not None:
        write_folder(target, model=result, tokenizer=load_tokenizer(folder, config))
    return result


def _back(
    folder: Path, config: BudgetFormerConfig, family: Family, state: dict[str, Tensor], *, classifier: bool
) -> PreTrainedModel:
    source_config = CONFIG_MAPPING[family.model_type].from_dict(config.source["config"] if config.source else {})
    if classifier:
        source_config.id2label, source_config.label2id = dict(config.id2label), dict(config.label2id)
        _check_head(folder, config, family, source_config)
    table = family.table(classifier=classifier)
    state = with_lost_heads(state, config)
    found = to_source(table, state, layers=config.num_hidden_layers, heads=config.num_attention_heads)
    if not classifier and (folder / UNREAD).is_file():
        found |= load_file(folder / UNREAD)
    kind = getattr(transformers, family.classifier_class if classifier else family.encoder_class)
    pooler = any(name.startswith("pooler.") for name in found)
    options: dict[str, Any] = {} if classifier or pooler or not _takes_pooler(kind) else {"add_pooling_layer": False}
    model = kind(source_config, **options).eval()
    outcome = model.load_state_dict({name: tensor.clone() for name, tensor in found.items()}, strict=False)
    problems = [*outcome.missing_keys, *outcome.unexpected_keys]
    if problems:
        raise ValueError(f"{folder}: {kind.__name__} cannot take these weights; tensors {', '.join(problems[:8])}")
    return model


def _check_head(folder: Path, config: BudgetFormerConfig, family: Family, source_config: Any) -> None:
    """Refuse a classifier that reads its tokens otherwise than its source's class does."""
    wanted = HEADLESS | family.fields(source_config)
    for name in HEAD:
        if getattr(config, name) != wanted[name]:
            raise ValueError(
                f"{folder}: {family.classifier_class} has {name} {wanted[name]!r}, and this model "
                f"{getattr(config, name)!r}: it cannot be taken back whole; encoder=True takes its encoder"
            )


def _takes_pooler(kind: type) -> bool:
    return "add_pooling_layer" in inspect.signature(kind).parameters
