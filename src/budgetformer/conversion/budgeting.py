"""Train a pretrained model's budgets: from an encoder or classifier to a BudgetFormer that needs few of its heads.

The gates start open, the heads are ranked by measured importance, the upper end of the budget's interval comes down
from 1, noise is small, and the model of before teaches. docs/pretrained.md says why, and what was measured.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import torch
from accelerate.utils import broadcast

from ..data.encoding import Encoded
from ..modeling import BudgetFormerForSequenceClassification
from ..training import TrainingResult, TrainingSettings
from ..training import run as run_training
from ..training.start import Start
from .architecture import build, target_fields
from .converting import RANKING_ROWS
from .gates import lower_budgets, rank_heads
from .head_use import drop_unused, windows_of
from .importance import head_importance
from .source import Source, load_source

BUDGET_BIAS = 3.0
"""Last bias of f where budgets begin: s = 0.95, high enough to keep nearly all heads and low enough for a gradient."""
BUDGET_WEIGHT = 20.0
"""Weight of the budget loss, shared by the layers."""
GATE_FACTOR = 20.0
"""Learning rate of f and g over that of the encoder."""
METHOD: dict[str, Any] = {
    "sigma_max": 0.1,
    "s_min": 0.25,
    "s_max": 0.35,
    "s_max_start": 1.0,
    "ceiling_until": 0.4,
    "distillation": 1.0,
}
"""Fields of the configuration that a warm start changes; the interval by the rows of results/pretrained.jsonl, the rest
in early trials on SNLI (docs/pretrained.md)."""
ATTENTION_DROPOUT = 0.0
"""In place of the source's, usually 0.1: with it attention takes an unfused kernel on a CPU, about four times slower
(LOG.md)."""
OPTIMISATION: dict[str, Any] = {"learning_rate": 1e-4, "batch_size": 32}
LONGEST_TEXT = 256
"""Tokens of a text at most, unless more are asked for."""
CLASSIFIER_EPOCHS = 2.0
WHOLE_EPOCHS, DENSE_SHARE = 3.0, 1 / 3


def budget_classifier(model: str | Path, *, prune_unused: bool = False, **settings: Any) -> TrainingResult:
    """Train the budgets of an existing classifier on labelled rows and write a BudgetFormer folder.

    The keyword arguments are those of ``TrainingSettings``, ``train`` (labels as the classifier calls them) and
    ``output`` at least; ``config`` takes further fields such as ``s_max`` or ``distillation``. The classifier itself is
    the teacher. ``prune_unused``: at the end heads that no training row chooses are dropped for good; the result's
    ``pruning`` says how many and what that changed on the validation rows. Raises ValueError in one line, before
    anything is written, for a model or data that do not fit.

    Example:
        >>> budget_classifier("my-classifier", train="news.csv", output="runs/cheap", epochs=2)
    """
    source = load_source(str(model))
    if not source.classifier:
        raise ValueError(
            f"{source.place.name} is an encoder without labels, so it is no classifier yet: fine-tune it and train its "
            "budgets in one run with `budgetformer train --from`"
        )
    return _run(source, {"epochs": CLASSIFIER_EPOCHS, "title": "Budgets"}, settings, prune_unused=prune_unused)


def train_from(model: str | Path, **settings: Any) -> TrainingResult:
    """Fine-tune a pretrained encoder or classifier with all heads, then train its budgets, in one run.

    As ``budget_classifier``; ``dense_share`` of the updates (a third) are for the first phase, whose result teaches the
    second. An encoder gets a new classifier for the classes of the training rows; a classifier keeps its own.

    Example:
        >>> train_from("sentence-transformers/all-MiniLM-L6-v2", train="news.csv", output="runs/news")
    """
    return _run(load_source(str(model)), {"epochs": WHOLE_EPOCHS, "dense_share": DENSE_SHARE}, settings)


def _run(
    source: Source, defaults: dict[str, Any], asked: dict[str, Any], *, prune_unused: bool = False
) -> TrainingResult:
    told = {name: value for name, value in asked.items() if value is not None}
    settings = TrainingSettings(**warm_settings(source, defaults, told))
    if not settings.quiet and os.environ.get("RANK", "0") == "0":
        for note in source.notes:
            print(f"note: {note}", file=sys.stderr)
    start = start_of(source)
    if prune_unused:
        if not settings.config.get("budgeted", True) or settings.config.get("head_choice") == "random":
            raise ValueError("prune_unused needs heads that are chosen by what a text is; leave it out here")
        start = replace(start, finish=drop_unused_heads)
    return run_training(settings, start)


def warm_settings(source: Source, defaults: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """The settings that were told, on top of those of a warm start. Raises ValueError for those it cannot have."""
    config = dict(told.pop("config", {}))
    for name in ("preset", "tokenizer", "vocab_size"):
        if name in told:
            raise ValueError(f"{name} has no effect with a pretrained model, which brings its own; leave it out")
    if config.get("selection", "straight_through") != "straight_through":
        raise ValueError(
            f"selection must be straight_through with a pretrained model, got {config['selection']!r}: other gates "
            "would rescale its heads"
        )
    fields = target_fields(source)
    limit = fields.get("model_max_length") or fields["max_position_embeddings"]
    length = told.setdefault("max_length", min(LONGEST_TEXT, limit))
    if length > limit:
        raise ValueError(f"max_length must be at most {limit}, the limit of {source.place.name}, got {length}")
    if "max_steps" in told:
        defaults = {name: value for name, value in defaults.items() if name != "epochs"}
    if config.get("budgeted", True):
        rate = told.get("learning_rate", OPTIMISATION["learning_rate"])
        told.setdefault("gate_learning_rate", GATE_FACTOR * rate)
    else:
        for name in ("dense_share", "gate_learning_rate"):
            if name in told:
                raise ValueError(f"{name} has no effect with full attention; leave it out")
        defaults = {name: value for name, value in defaults.items() if name != "dense_share"}
    config = warm_config(config, layers=fields["num_hidden_layers"])
    return OPTIMISATION | defaults | told | {"config": config, "start": source.place.name}


def warm_config(told: dict[str, Any], *, layers: int) -> dict[str, Any]:
    """The fields of the configuration that a warm start changes in a model of so many layers, under those told."""
    own: dict[str, Any] = {"attention_probs_dropout_prob": ATTENTION_DROPOUT}
    if told.get("budgeted", True):
        weight = BUDGET_WEIGHT / max(layers, 1)
        own |= METHOD | {"alpha_base": min(weight, told.get("alpha_max", weight)), "alpha_max": weight}
        for one, other, farther in (("s_max", "s_min", min), ("s_min", "s_max", max)):  # of one told, the other follows
            if isinstance(told.get(one), int | float):
                own[other] = farther(own[other], told[one])
    return own | told


def start_of(source: Source) -> Start:
    """What a run needs of a source."""
    own = source.config.id2label if source.classifier else None

    def model(changes: dict[str, Any]) -> BudgetFormerForSequenceClassification:
        made, _ = build(source, changes)
        if isinstance(made, BudgetFormerForSequenceClassification):
            return made
        classifier = BudgetFormerForSequenceClassification(made.config)
        classifier.budgetformer.load_state_dict(made.state_dict())
        return classifier

    return Start(
        tokenizer=source.tokenizer,
        classes=None if own is None else tuple(str(own[i]) for i in sorted(own)),
        origin=source.origin,
        segments=target_fields(source)["type_vocab_size"] > 1,
        model=model,
        begin_budgets=begin_budgets,
    )


def drop_unused_heads(
    model: BudgetFormerForSequenceClassification, rows: datasets.Dataset, validation: datasets.Dataset
) -> dict[str, Any]:
    """Drop the heads that none of the encoded ``rows`` chooses; what that changed, on the validation rows too."""
    labels = [int(label) for label in validation["labels"]]
    held_out = partial(windows_of, validation)
    return drop_unused(model, partial(windows_of, rows), held_out=held_out, labels=labels).describe()


def begin_budgets(model: BudgetFormerForSequenceClassification, rows: datasets.Dataset) -> None:
    """Rank the heads of every layer on some of the encoded ``rows``, and lower the budgets to ``BUDGET_BIAS``."""
    picked = range(0, len(rows), max(1, len(rows) // RANKING_ROWS))[:RANKING_ROWS]
    some = rows.select(picked).to_dict()
    none = (False,) * len(picked)
    encoded = Encoded(
        input_ids=some["input_ids"], token_type_ids=some.get("token_type_ids"), truncated=none, empty=none
    )
    importance_LH = head_importance(model, encoded, some["labels"])
    if torch.distributed.is_initialized():  # rounding may differ between processes, and the ranking must not
        importance_LH = broadcast(importance_LH.to(model.device)).cpu()
    rank_heads(model, importance_LH)
    if model.config.fixed_budget is None:
        lower_budgets(model, BUDGET_BIAS)
