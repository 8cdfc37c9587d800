"""Everything that a training run can be told, with defaults by preset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..configuration import PRESETS
from ..curve import check_target
from ..data.files import Reading
from ..model_folder import LONGEST_EXAMPLE, MOST_EXAMPLES

OPTIMISATION: dict[str, dict[str, Any]] = {
    "tiny": {"learning_rate": 1e-3, "batch_size": 16, "epochs": 8},
    "small": {"learning_rate": 5e-4, "batch_size": 32, "epochs": 8},
    "base": {"learning_rate": 2e-4, "batch_size": 32, "epochs": 6},
    "paper": {"learning_rate": 2e-5, "batch_size": 16, "epochs": 10, "warmup": 0.0, "weight_decay": 0.01},
}
"""Optimisation defaults of each preset; AdamW with linear decay throughout."""

WHOLE = (
    "batch_size",
    "gradient_accumulation",
    "max_steps",
    "patience",
    "logging_steps",
    "eval_steps",
    "vocab_size",
    "max_length",
    "seed",
)
"""Settings that are whole numbers."""

VALIDATION_FRACTION = 0.1
PRECISIONS = ("float32", "bf16")


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """A complete description of one run. None means the preset's value or none at all.

    Data: train (a file, several files, or the name of a data set), output (the model folder), validation,
    text_column (one or several, joined with a line break), pair_column, label_column, reading (file format),
    unlabelled ("keep" or spellings that mean "no label"), data_folder (of the named sets),
    validation_fraction (set aside when no validation file is given).

    Model: preset, tokenizer (a folder or hub name, NAME@COMMIT to pin it; otherwise a vocabulary of vocab_size is
    trained), max_length (tokens of one text, special ones included), config (further fields of BudgetFormerConfig).

    Optimisation: epochs or max_steps, batch_size (per process), gradient_accumulation, learning_rate, warmup (share
    of the updates), weight_decay, max_grad_norm, patience (evaluations without a better score before stopping),
    class_weights ("balanced" or one per class), label_smoothing, word_dropout (share of the tokens that a training step
    does not see; 0.1 to 0.3 helps where texts are few), seed, precision ("float32" or "bf16" autocast),
    gradient_checkpointing, device, fsdp (the GPUs of several processes share the model instead of each holding it).

    Pretrained (docs/pretrained.md): start (the name of the model that the run begins with, told by who begins it),
    dense_share (share of the updates with all heads, before the budgets), gate_learning_rate (of the nets f and g).

    Afterwards: target_accuracy_drop (percentage points of accuracy on the validation rows that the folder's default
    budget may cost; None: the model's own budgets are the default, and nothing is measured).

    examples: single texts to try, at most six, which the card names and the server's page offers.

    Running: logging_steps and eval_steps in updates (None: chosen from the length of the run; every epoch), resume,
    overwrite, keep_best (False keeps the last state instead of the best one), tensorboard (a folder), quiet.
    """

    train: str | Path | Sequence[str | Path]
    output: str | Path
    validation: str | Path | None = None
    text_column: Sequence[str] = ()
    pair_column: str | None = None
    label_column: str | None = None
    reading: Reading = field(default_factory=Reading)
    unlabelled: str | Sequence[str] | None = None
    data_folder: str | Path | None = None
    validation_fraction: float = VALIDATION_FRACTION
    preset: str = "small"
    tokenizer: str | None = None
    vocab_size: int = 30522
    max_length: int = 256
    config: dict[str, Any] = field(default_factory=dict)
    epochs: float | None = None
    max_steps: int | None = None
    batch_size: int | None = None
    gradient_accumulation: int = 1
    learning_rate: float | None = None
    warmup: float | None = None
    weight_decay: float | None = None
    max_grad_norm: float = 1.0
    patience: int | None = None
    class_weights: str | Sequence[float] | None = None
    label_smoothing: float = 0.0
    word_dropout: float = 0.0
    seed: int = 0
    start: str | None = None
    dense_share: float = 0.0
    gate_learning_rate: float | None = None
    target_accuracy_drop: float | None = None
    examples: Sequence[str] = ()
    precision: str = "float32"
    gradient_checkpointing: bool = False
    fsdp: bool = False
    device: str = "auto"
    logging_steps: int | None = None
    eval_steps: int | None = None
    resume: bool = False
    overwrite: bool = False
    keep_best: bool = True
    tensorboard: str | Path | None = None
    quiet: bool = False
    title: str = "Training"

    def __post_init__(self) -> None:
        columns = (self.text_column,) if isinstance(self.text_column, str) else tuple(self.text_column or ())
        object.__setattr__(self, "text_column", columns)
        self._check()

    def _check(self) -> None:
        for name in ("epochs", "learning_rate", "gate_learning_rate", "max_grad_norm"):
            value = getattr(self, name)
            if value is not None and not (_number(value) and value > 0):
                raise ValueError(f"{name} must be above 0, got {value!r}")
        for name in WHOLE:
            value = getattr(self, name)
            least, most = (0, 2**32 - 1) if name == "seed" else (1, 2**31 - 1)
            if value is not None and not (_number(value) and value == int(value) and value >= least):
                raise ValueError(f"{name} must be a whole number, at least {least}, got {value!r}")
            if value is not None and value > most:
                raise ValueError(f"{name} must be at most {most}, got {value!r}")
        for name in ("warmup", "label_smoothing", "word_dropout", "dense_share"):
            value = getattr(self, name)
            if value is not None and not (_number(value) and 0 <= value < 1):
                raise ValueError(f"{name} must lie in [0, 1), got {value!r}")
        if self.weight_decay is not None and not (_number(self.weight_decay) and self.weight_decay >= 0):
            raise ValueError(f"weight_decay must be 0 or above, got {self.weight_decay!r}")
        if not (_number(self.validation_fraction) and 0 < self.validation_fraction < 1):
            raise ValueError(f"validation_fraction must lie between 0 and 1, got {self.validation_fraction!r}")
        if self.preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {self.preset!r}")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        if isinstance(self.class_weights, str) and self.class_weights != "balanced":
            raise ValueError(f"class_weights must be 'balanced' or a number per class, got {self.class_weights!r}")
        if self.epochs is not None and self.max_steps is not None:
            raise ValueError(f"give epochs ({self.epochs}) or max_steps ({self.max_steps}), not both")
        if self.device.startswith("cuda:") and self.device != "cuda:0":
            raise ValueError(
                f"device {self.device!r}: training takes the first GPU it sees; give cuda and set the environment "
                f"variable CUDA_VISIBLE_DEVICES={self.device[5:]}"
            )
        if self.target_accuracy_drop is not None:
            check_target(self.target_accuracy_drop)
            if not self.config.get("budgeted", True):
                raise ValueError("target_accuracy_drop has no effect with full attention, which has no budgets")
        check_examples(self.examples, pairs=self.pair_column is not None)
        if self.resume and self.overwrite:
            raise ValueError(
                "resume goes on with the run in the output folder and overwrite deletes it: give one of them"
            )

    def resolved(self) -> TrainingSettings:
        """With the preset's optimisation defaults filled in."""
        defaults = {"warmup": 0.06, "weight_decay": 0.01} | OPTIMISATION[self.preset]
        if self.max_steps is not None:
            defaults.pop("epochs")
        return replace(self, **{k: v for k, v in defaults.items() if getattr(self, k) is None})

    def describe(self) -> dict[str, Any]:
        """The settings as JSON values."""
        described: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Reading):
                value = {f.name: getattr(value, f.name) for f in fields(value)}
            elif isinstance(value, Path):
                value = str(value)
            elif isinstance(value, tuple | list):
                value = [str(v) if isinstance(v, Path) else v for v in value]
            described[item.name] = value
        return described


def check_examples(examples: Sequence[str], *, pairs: bool) -> None:
    """Refuse examples that the card or the page could not show, and any for a model of ``pairs``."""
    if examples and pairs:
        raise ValueError("an example is a single text and this model takes pairs: write pairs into the card by hand")
    if isinstance(examples, str) or len(examples) > MOST_EXAMPLES:
        raise ValueError(f"examples must be a list of at most {MOST_EXAMPLES} texts, got {len(examples)}")
    for text in examples:
        if not text.strip() or len(text) > LONGEST_EXAMPLE:
            raise ValueError(f"an example must have 1 to {LONGEST_EXAMPLE} characters, got {len(text)}: {text[:40]!r}")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ValueError(f"an example must be text that can be written as UTF-8, got {text[:40]!r}")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
