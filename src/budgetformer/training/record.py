"""What a run was told, kept beside its checkpoints for resuming, and ``training.json``, what came out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from ..model_folder import CHECKPOINTS
from ..version import __version__
from .prepare import PreparedData
from .settings import TrainingSettings
from .trainer import BudgetTrainer

RUN_FILE = "run.json"
LENGTH = ("epochs", "max_steps")
FREE = (
    *LENGTH,
    "patience",
    "eval_steps",
    "output",
    "resume",
    "overwrite",
    "quiet",
    "logging_steps",
    "tensorboard",
    "device",
    "title",
    "keep_best",
    "target_accuracy_drop",
    "examples",
)


def keep_settings(
    output: Path,
    settings: TrainingSettings,
    data: PreparedData,
    trainer: BudgetTrainer,
    *,
    checkpoint: Path | None,
    say: Callable[[str], None],
) -> None:
    """Write what this run is told; before that, when it goes on from ``checkpoint``, compare and say what changed.

    Raises ValueError for a change that would make it another run.
    """
    file = output / CHECKPOINTS / RUN_FILE
    told = {"settings": settings.describe(), "data": data.fingerprint, "processes": trainer.args.world_size}
    now = json.loads(json.dumps(told))
    if checkpoint is not None:
        before = _before(file)
        earlier = TrainingSettings(train="", output="").describe() | before["settings"]  # fewer fields in older runs
        changed = {name: (earlier[name], value) for name, value in now["settings"].items() if earlier[name] != value}
        if before["processes"] != now["processes"]:
            changed["number of processes"] = (before["processes"], now["processes"])
        other = {k: v for k, v in changed.items() if k not in FREE}
        if other:
            name, (old, new) = next(iter(other.items()))
            raise ValueError(f"--resume goes on with the same run, but {name} was {old!r} and is {new!r} now")
        if before["data"] != now["data"]:
            raise ValueError("--resume goes on with the same run, but the training rows are not the same as before")
        length = {k: v for k, v in changed.items() if k in LENGTH}
        if length:
            words = ", ".join(f"{k} {_or_none(old)} → {_or_none(new)}" for k, (old, new) in length.items())
            say(
                f"note: the length of the run changed ({words}): learning rate, noise, temperature and loss weights "
                f"go on as if the new length had been planned from the start, a jump at update {checkpoint.name[11:]}"
            )
    if checkpoint is not None:
        say(f"going on from {checkpoint}")
    if trainer.is_world_process_zero():
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_suffix(".partial")
        aside.write_text(json.dumps(now, indent=1), encoding="utf-8")
        aside.replace(file)


def _or_none(value: Any) -> Any:
    return "not given" if value is None else value


def _before(file: Path) -> dict[str, Any]:
    try:
        before = json.loads(file.read_text(encoding="utf-8"))
        if not {"settings", "data", "processes"} <= set(before):
            raise ValueError("fields are missing")
        return before
    except (OSError, ValueError, TypeError) as problem:
        raise ValueError(
            f"{file} cannot be read ({problem}), so it is not known what the run was told; start anew with --overwrite"
        ) from problem


def training_record(
    settings: TrainingSettings,
    data: PreparedData,
    trainer: BudgetTrainer,
    *,
    metrics: dict[str, float],
    seconds: float,
    source: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """``training.json``: settings, data counts, measured figures, versions, and the whole log.

    ``source``: the ``Origin`` of a pretrained model that the run began with; no preset gave it its size then.
    """
    described = settings.describe() | ({"preset": None} if source else {})
    return {
        "budgetformer": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "settings": described,
        "source": source,
        "data": data.counts | {"classes": data.class_counts, "fingerprint": data.fingerprint, "files": data.files},
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        "updates": trainer.state.global_step,
        "best_update": trainer.kept_update,
        "validation": metrics,
        "seconds": round(seconds, 1),
        "history": trainer.state.log_history,
    }
