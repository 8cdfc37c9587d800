"""``transformers.Trainer`` with checkpoints that are whole or absent, and head statistics in evaluation."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import EvalPrediction, Trainer
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, rotate_checkpoints

from ..configuration import IGNORED, BudgetFormerConfig
from ..metering.macs import dense_macs, executed_macs
from ..metering.scores import scores
from .order import EpochOrder
from .phases import Phases
from .sharding import keep_float32, mixed_precision
from .word_dropout import WordDropout

VIOLATION = 1.0
"""What the score of a checkpoint loses when its mean budget leaves ``[s_min, s_max]``; twice before budgets begin."""


NOT_GATHERED = ["relevance", "gates", "kept"]


class CheckpointError(OSError):
    """A checkpoint could not be written; the older ones are untouched."""


class BudgetTrainer(Trainer):
    """The Trainer that ``train()`` uses.

    Rows come in the order of ``EpochOrder``, which takes their ``length`` from the data set.
    Checkpoints are written to a hidden folder beside their place and renamed when complete; older ones go after
    that. No pickled arguments are written. Evaluation adds ``eval_mean_heads``, ``eval_mean_budget``, the heads per
    layer, ``eval_macs`` (multiply-adds per text), ``eval_macs_dense`` (with all heads), and ``eval_score`` by which the
    best checkpoint is chosen: accuracy, minus ``VIOLATION`` when the mean budget leaves the interval by more than one
    percentage point, ties broken by the loss.

    ``phases``: the learning rates fall to 0 in each of them. ``gate_learning_rate``: that of the nets f and g, None: as
    for the rest. ``teacher``: from when it is set, its logits with all heads join the training batches.
    ``word_dropout``: hides tokens of the training batches, from the model and not from its teacher.
    """

    optimizer: Any
    lr_scheduler: Any

    def __init__(
        self,
        *args: Any,
        phases: Phases | None = None,
        gate_learning_rate: float | None = None,
        word_dropout: WordDropout | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.phases = phases or Phases()
        self.gate_learning_rate = gate_learning_rate
        self.word_dropout = word_dropout
        self.teacher: nn.Module | None = None
        keep_float32(self)

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """As in ``Trainer``; in training, with the teacher's logits and without the words that are dropped."""
        if self.teacher is not None and model.training:
            with torch.no_grad():
                known = {name: value for name, value in inputs.items() if name != "labels"}
                inputs = {**inputs, "teacher_logits": self.teacher(**known, budget=1.0).logits}
        if self.word_dropout is not None and model.training:
            inputs = {**inputs, "input_ids": self.word_dropout(inputs["input_ids"])}
        with mixed_precision(self):
            return super().compute_loss(model, inputs, *args, **kwargs)

    def training_step(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        """As in ``Trainer``; the loss is shown to ``TrainingWatch``."""
        loss = super().training_step(model, inputs, *args, **kwargs)
        self.model.statistics.watch(loss)
        return loss

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """As in ``Trainer``, with groups of their own for f and g when these have another learning rate."""
        if self.optimizer is not None or self.gate_learning_rate is None:
            return super().create_optimizer(model)
        trained = self.model if model is None else model
        decaying = set(self.get_decay_parameter_names(trained))
        groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
        for name, parameter in trained.named_parameters():
            if parameter.requires_grad:
                groups.setdefault((is_of_gates(name), name in decaying), []).append(parameter)
        kind, options = self.get_optimizer_cls_and_kwargs(self.args, trained)
        described = [
            {
                "params": parameters,
                "weight_decay": self.args.weight_decay if decays else 0.0,
                "lr": self.gate_learning_rate if of_gates else self.args.learning_rate,
            }
            for (of_gates, decays), parameters in groups.items()
        ]
        self.optimizer = kind(described, **options)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> LRScheduler:
        """As in ``Trainer``, once for each phase."""
        if self.lr_scheduler is None and self.phases.dense_share > 0:
            optimizer = self.optimizer if optimizer is None else optimizer
            rate = partial(self.phases.rate, updates=num_training_steps, warmup=self.warmup_share)
            self.lr_scheduler = LambdaLR(optimizer, rate)
            self._created_lr_scheduler = True
        return super().create_scheduler(num_training_steps, optimizer)

    @property
    def warmup_share(self) -> float:
        """Share of the updates in which learning rates rise."""
        return float(self.args.warmup_steps) if self.args.warmup_steps < 1 else 0.0

    @property
    def kept_update(self) -> int | None:
        """The update whose state is kept because it was the best; None when the last one is."""
        return self.state.best_global_step if self.args.load_best_model_at_end else None

    def _get_train_sampler(self, train_dataset: Any = None) -> EpochOrder:
        return EpochOrder(
            lengths=self.train_dataset["length"][:],  # the argument has lost this column
            group=self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size,
            seed=self.args.seed,
            epoch=lambda: int(self.state.epoch or 0),
        )

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        run = Path(self.args.output_dir)
        final = run / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        aside = run / f".{final.name}.partial"
        try:
            if self.args.should_save:
                shutil.rmtree(aside, ignore_errors=True)
            self.accelerator.wait_for_everyone()
            self._write_checkpoint(aside, final)
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                shutil.rmtree(final, ignore_errors=True)
                aside.rename(final)
                rotate_checkpoints(
                    output_dir=str(run),
                    save_total_limit=self.args.save_total_limit,
                    best_model_checkpoint=self.state.best_model_checkpoint,
                    use_mtime=False,
                )
            self.accelerator.wait_for_everyone()
        except Exception as error:
            shutil.rmtree(aside, ignore_errors=True)
            older = any(run.glob(f"{PREFIX_CHECKPOINT_DIR}-*"))
            way_on = "Older checkpoints are complete: go on with --resume" if older else "Start anew with --overwrite"
            raise CheckpointError(
                f"cannot write the checkpoint {final}: {error}. {way_on} when there is space or the folder is mended."
            ) from error

    def _write_checkpoint(self, aside: Path, final: Path) -> None:
        self.store_flos()
        self.save_model(str(aside), _internal_call=True)
        self._save_optimizer_and_scheduler(str(aside))
        self._save_scaler(str(aside))
        self._save_rng_state(str(aside))
        best = self.state.best_global_step
        if best:
            folder = final.with_name(f"{PREFIX_CHECKPOINT_DIR}-{best}")
            if folder == final or folder.is_dir():
                self.state.best_model_checkpoint = str(folder)
        if self.args.should_save:
            for part in [*self.callback_handler.callbacks, self.control]:
                if isinstance(part, ExportableState):
                    self.state.stateful_callbacks[type(part).__name__] = part.state()
            self.state.save_to_json(str(aside / TRAINER_STATE_NAME))

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save_pretrained(folder, state_dict=state_dict)
        if self.processing_class is not None:
            self.processing_class.save_pretrained(folder)

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> Any:
        """As in ``Trainer``; behind the logits come, for each row, budgets and heads kept (B, L) and length (B,).

        The Trainer gathers them as it does logits, without the rows that fill the last batch of several processes.
        """
        asked = {**inputs, "output_budgets": True}
        loss, outputs, labels = super().prediction_step(model, asked, prediction_loss_only, NOT_GATHERED)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return loss, (*outputs, inputs["attention_mask"].sum(dim=1).to(outputs[0].device)), labels

    def evaluation_loop(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> Any:
        """As in ``Trainer``, with the figures of the heads and the score among the metrics."""
        output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **kwargs)
        metrics = output.metrics
        for name, value in head_figures(self.model.config, output.predictions).items():
            metrics[f"{metric_key_prefix}_{name}"] = value
        accuracy = metrics.get(f"{metric_key_prefix}_accuracy")
        if accuracy is not None:
            score = accuracy - 1e-4 * metrics[f"{metric_key_prefix}_loss"]
            budget = metrics.get(f"{metric_key_prefix}_mean_budget")
            config = self.model.config
            if (
                budget is not None
                and config.fixed_budget is None
                and not config.s_min - 0.01 <= budget <= config.s_max + 0.01
            ):
                score -= VIOLATION * (1 + self.model.all_heads)
            metrics[f"{metric_key_prefix}_score"] = score
        return output


def is_of_gates(name: str) -> bool:
    """Whether a parameter of this name belongs to a net f or g."""
    return ".budget_net." in name or ".relevance_net." in name


def head_figures(config: BudgetFormerConfig, predictions: Any) -> dict[str, float]:
    """Means over the rows of an evaluation: budget, heads, multiply-adds per text and those with all heads.

    ``predictions``: what ``BudgetTrainer.prediction_step`` gave, gathered. Multiply-adds are those of the packed
    execution (``executed_macs``); with full attention they are all that there is.
    """
    *_, lengths_B = predictions
    dense = float(dense_macs(config, lengths_B).mean())
    if len(predictions) == 2:
        return {"macs": dense, "macs_dense": dense}
    _, budget_BL, heads_BL, _ = predictions
    heads_L = heads_BL.mean(axis=0)
    figures = {"mean_budget": float(budget_BL.mean()), "mean_heads": float(heads_L.mean())}
    figures |= {"macs": float(executed_macs(config, lengths_B, heads_BL).mean()), "macs_dense": dense}
    return figures | {f"layer_{i}/heads": float(heads) for i, heads in enumerate(heads_L)}


def classification_metrics(prediction: EvalPrediction) -> dict[str, float]:
    """Accuracy and macro-F1 over the rows with a label."""
    logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
    known = prediction.label_ids != IGNORED
    labels, guesses = prediction.label_ids[known], np.argmax(logits, axis=-1)[known]
    if not len(labels):
        return {}
    return scores(labels, guesses)
