"""A run that begins with a pretrained model: what it brings, and the moment when its budgets begin.

Until then all heads are kept. Then the model is copied as the teacher, its heads are ranked and its budgets lowered.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
from transformers import PreTrainedTokenizerBase, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ..modeling import BudgetFormerForSequenceClassification
from ..reporting.origin import Origin
from .folder import quiet_transformers
from .schedule import budgetformer_in
from .trainer import BudgetTrainer

TEACHER = "teacher"
"""The folder beside the checkpoints."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """A pretrained model that a run begins with.

    ``classes``: those that it has learned, in order; None for an encoder. ``segments``: it tells the parts of a pair
    apart. ``origin``: what the card says of it. ``model``: the classifier with open gates and these further fields of
    the configuration. ``begin_budgets``: ranks its heads on the encoded training rows and lowers its budgets to where
    they can be trained. ``finish``: changes the trained model in place before it is measured and written, knowing the
    encoded training and validation rows; what it returns is kept in ``training.json`` as ``pruning``.
    """

    tokenizer: PreTrainedTokenizerBase
    classes: tuple[str, ...] | None
    segments: bool
    origin: Origin
    model: Callable[[dict[str, Any]], BudgetFormerForSequenceClassification]
    begin_budgets: Callable[[BudgetFormerForSequenceClassification, datasets.Dataset], None]
    finish: (
        Callable[[BudgetFormerForSequenceClassification, datasets.Dataset, datasets.Dataset], dict[str, Any]] | None
    ) = None


class BudgetStart(TrainerCallback):
    """Begins the budgets at their update, with the model of that moment as the teacher where one is wanted.

    The teacher lies in ``folder``, so that a run that goes on later has the same one.
    """

    def __init__(self, start: Start, trainer: BudgetTrainer, folder: Path) -> None:
        self.start, self.trainer, self.folder = start, trainer, folder

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.global_step and self.trainer.phases.restore(self.folder, state.global_step) and self._teaches():
            with quiet_transformers():
                self._set_teacher(BudgetFormerForSequenceClassification.from_pretrained(self.folder / TEACHER))

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        phases = self.trainer.phases
        if phases.begun is not None or state.global_step < phases.first(state.max_steps):
            return
        model = self._model()
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._teaches():
            teacher = deepcopy(model)
            if args.should_save:
                self._save(teacher)
            self._set_teacher(teacher)
        self.start.begin_budgets(model, self.trainer.train_dataset)
        phases.begun = state.global_step
        if args.should_save:
            phases.keep(self.folder)

    def _teaches(self) -> bool:
        return self._model().config.distillation > 0

    def _model(self) -> BudgetFormerForSequenceClassification:
        model = budgetformer_in(self.trainer.model)
        assert isinstance(model, BudgetFormerForSequenceClassification)
        return model

    def _set_teacher(self, teacher: BudgetFormerForSequenceClassification) -> None:
        self.trainer.teacher = teacher.to(self.trainer.args.device).requires_grad_(False).eval()

    def _save(self, teacher: BudgetFormerForSequenceClassification) -> None:
        aside = self.folder / f".{TEACHER}.partial"
        shutil.rmtree(aside, ignore_errors=True)
        with quiet_transformers():
            teacher.save_pretrained(aside)
        shutil.rmtree(self.folder / TEACHER, ignore_errors=True)
        aside.rename(self.folder / TEACHER)
