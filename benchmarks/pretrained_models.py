"""The trainings of ``benchmarks/pretrained.py``: which model each one begins with, and what it is told."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from budgetformer.attention import budgeted_layers
from budgetformer.conversion.budgeting import start_of, warm_settings
from budgetformer.conversion.gates import OPEN, lower_budgets, rank_heads
from budgetformer.conversion.importance import head_importance
from budgetformer.conversion.rows import labelled_rows
from budgetformer.conversion.source import Source
from budgetformer.data.encoding import TextEncoder
from budgetformer.data.sources import RowSource
from budgetformer.model_folder import load_config, load_tokenizer
from budgetformer.modeling import BudgetFormerForSequenceClassification
from budgetformer.training import TrainingSettings, run
from budgetformer.training.checkpoints import newest_checkpoint
from budgetformer.training.start import Start
from budgetformer.training.trainer import is_of_gates
from budgetformer_paper.rows import Drawn
from budgetformer_paper.trained import drop_checkpoints, is_trained

RANKING_ROWS = 256
"""Training rows on which the importance of heads is measured, as in a warm start."""
BUDGET_BIAS = "budget_bias"
"""The one option of a warm start that is no field of the settings or of the configuration."""
STILL: dict[str, Any] = {
    "sigma_max": 0.0,
    "alpha_base": 0.0,
    "alpha_max": 0.0,
    "beta_max": 0.0,
    "s_min": 0.0,
    "s_max": 1.0,
    "s_max_start": None,
}
"""Fields of a model whose heads are settled: no noise, and no loss but those of task and distillation."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What all trainings share: the source, the rows, and settings such as seed and maximum length."""

    source: Source
    drawn: Drawn
    settings: Mapping[str, Any]
    config: Mapping[str, Any]


def train(told: Told, folder: Path, *, start: Start, title: str, settings: TrainingSettings) -> None:
    """Train into ``folder`` unless its model is there; a run that was stopped goes on from its newest checkpoint.

    Beside the folder lies how long it took in all, and in how many sessions.
    """
    if is_trained(folder):
        return
    resume = newest_checkpoint(folder) is not None
    again = replace(settings, output=folder, resume=resume, overwrite=not resume and folder.exists(), title=title)
    with _on_the_clock(folder.with_suffix(".json")):
        run(again, start)
    drop_checkpoints(folder)


def training_of(folder: Path) -> dict[str, Any]:
    """What a row says of a training: length, time, and what the run was told that can be told to another one."""
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    clock = json.loads(folder.with_suffix(".json").read_text(encoding="utf-8"))
    names = ("epochs", "batch_size", "learning_rate", "gate_learning_rate", "warmup", "weight_decay", "max_grad_norm")
    names += ("max_length", "seed", "keep_best", "eval_steps", "precision", "config")
    return clock | {
        "updates": record["updates"],
        "best_update": record["best_update"],
        "validation": record["validation"],
        "settings": {name: record["settings"][name] for name in names},
    }


def settings_of(
    told: Told, *, epochs: float, options: Mapping[str, Any], config: Mapping[str, Any]
) -> TrainingSettings:
    """Settings of one training with the defaults of a warm start, and ``options`` and fields ``config`` on top."""
    columns = told.drawn.columns
    asked: dict[str, Any] = {
        **told.settings,
        "train": told.drawn.train,
        "validation": told.drawn.validation,
        "text_column": columns.text,
        "pair_column": columns.pair,
        "label_column": columns.label,
        "output": "output",
        "epochs": epochs,
        **options,
        "config": {**told.config, **config},
    }
    return TrainingSettings(**warm_settings(told.source, {}, asked))


def split_options(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], float | None]:
    """Options of the warm start as those of the settings, fields of the configuration, and the first budget's bias."""
    known = {field.name for field in fields(TrainingSettings)}
    options = {name: value for name, value in given.items() if name in known}
    config = {name: value for name, value in given.items() if name not in known and name != BUDGET_BIAS}
    return options, config, given.get(BUDGET_BIAS)


def from_encoder(told: Told) -> Start:
    """Begin with the encoder itself."""
    return start_of(told.source)


def from_dense(told: Told, folder: Path, *, bias: float | None = None) -> Start:
    """Begin with the dense classifier in ``folder``, in place of the encoder; ``bias`` is that of the first budgets."""
    plain = start_of(told.source)

    def begin(model: BudgetFormerForSequenceClassification, rows: Any) -> None:
        plain.begin_budgets(model, rows)
        if bias is not None:
            lower_budgets(model, bias)

    return replace(
        plain,
        classes=classes_of(folder),
        model=lambda changes: _filled(plain.model(changes), folder),
        begin_budgets=begin,
    )


def from_kept(told: Told, folder: Path, importance_LH: torch.Tensor, heads_L: list[int]) -> Start:
    """Begin with the dense classifier, ``heads_L`` of the most important heads of each layer kept for good."""

    def model(changes: dict[str, Any]) -> BudgetFormerForSequenceClassification:
        made = from_dense(told, folder).model(changes)
        keep_heads(made, importance_LH, heads_L)
        return made

    return replace(from_dense(told, folder), model=model, begin_budgets=lambda model, rows: None)


def classes_of(folder: Path) -> tuple[str, ...]:
    """Class names of a model folder in order."""
    config = load_config(folder)
    return tuple(config.id2label[i] for i in range(config.num_labels))


def budgeted_from(told: Told, folder: Path, **changes: Any) -> BudgetFormerForSequenceClassification:
    """The dense classifier in ``folder`` with open gates, to be measured or ranked."""
    dense = load_config(folder)
    same = ("id2label", "label2id", "text_columns", "pair_column", "label_column", "model_max_length")
    fields = {name: getattr(dense, name) for name in same}
    return _filled(start_of(told.source).model(fields | changes), folder).eval()


def importance_of(told: Told, folder: Path) -> torch.Tensor:
    """The importance of every head (L, H) of the dense classifier in ``folder`` on some training rows."""
    model = budgeted_from(told, folder)
    encoder = TextEncoder(
        tokenizer=load_tokenizer(folder, model.config),
        max_length=model.config.text_limit,
        uses_segments=model.config.type_vocab_size > 1,
    )
    rows = labelled_rows(
        RowSource(data=str(told.drawn.train), columns=told.drawn.columns),
        names=classes_of(folder),
        encoder=encoder,
        most=RANKING_ROWS,
    )
    return head_importance(model, rows.encoded, rows.labels)


def most_important(importance_LH: torch.Tensor, heads: int) -> list[int]:
    """How many heads each layer keeps when the ``heads`` most important of all layers are kept, one a layer at least.

    Importance is divided by its L2 norm within the layer first (Michel, Levy and Neubig, arXiv 1905.10650).
    """
    layers, all_heads = importance_LH.shape
    assert layers <= heads <= layers * all_heads
    scaled_LH = importance_LH / importance_LH.norm(dim=1, keepdim=True).clamp(min=1e-30)
    best_L1 = scaled_LH.argmax(dim=1, keepdim=True)
    first_LH = scaled_LH.scatter(1, best_L1, torch.inf)
    kept = torch.sort(first_LH.flatten(), descending=True, stable=True).indices[:heads]
    return torch.bincount(kept // all_heads, minlength=layers).tolist()


@torch.no_grad()
def keep_heads(model: BudgetFormerForSequenceClassification, importance_LH: torch.Tensor, heads_L: list[int]) -> None:
    """Make every budget ``heads_L`` of H and the ranking that of importance, for all inputs and for good."""
    rank_heads(model, importance_LH)
    for layer, heads in zip(budgeted_layers(model), heads_L, strict=True):
        assert isinstance(layer.budget_net, torch.nn.Sequential)
        last = layer.budget_net[-1]
        share = (heads + 0.5) / layer.num_heads  # half a head away from the floor's edge
        last.weight.zero_()
        last.bias.fill_(OPEN if share >= 1 else float(torch.logit(torch.tensor(share))))
    for name, parameter in model.named_parameters():
        if is_of_gates(name):
            parameter.requires_grad_(False)


def _filled(model: BudgetFormerForSequenceClassification, folder: Path) -> BudgetFormerForSequenceClassification:
    outcome = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    assert not outcome.unexpected_keys
    assert all(is_of_gates(name) for name in outcome.missing_keys)
    return model


@contextmanager
def _on_the_clock(file: Path) -> Iterator[None]:
    """Add up the time of sessions; one that ended without a word counts as a session of unknown length."""
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"seconds": 0.0, "sessions": 0}
    now = {"seconds": before["seconds"], "sessions": before["sessions"] + 1, "unknown": before.get("unknown", 0) + 1}
    file.parent.mkdir(parents=True, exist_ok=True)
    write(file, now)
    started = time.perf_counter()
    try:
        yield
    finally:
        seconds = round(before["seconds"] + time.perf_counter() - started, 1)
        write(file, now | {"seconds": seconds, "unknown": now["unknown"] - 1})


def write(file: Path, content: Mapping[str, Any]) -> None:
    """JSON in one piece or not at all."""
    aside = file.with_suffix(".partial")
    aside.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    aside.replace(file)
