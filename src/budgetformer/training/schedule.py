"""The Trainer callback that drives t/T, watches loss and gradients, and logs what the heads do."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ..pretrained import BudgetFormerPreTrainedModel
from .phases import Phases
from .sharding import own_part

ADVICE = "Try a lower --learning-rate, --precision float32, or look for broken rows."


class NonFiniteError(ArithmeticError):
    """A loss or gradient became NaN or infinite; the message has the update."""


class TrainingWatch(TrainerCallback):
    """Stops a run at the update whose loss or gradient is not finite, and adds the model's statistics to each log line.

    What the Trainer adds to the model's own loss (``compute_loss`` of a subclass) is seen too: in a ``BudgetTrainer``
    at that update, in others at the next log line, of which there is one before every checkpoint.
    """

    _logged = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        args.logging_nan_inf_filter = False  # it would log another number in place of such a loss
        self._logged = state.global_step

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        # With fp16 the gradient scaler skips updates with such gradients by design.
        check_update(kwargs["model"], state.global_step + 1, args, gradients=not args.fp16)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        control.should_log = control.should_log or control.should_save or control.should_evaluate

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        control.should_log = control.should_log or control.should_save or control.should_evaluate

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if logs is None or "loss" not in logs:
            return
        first, self._logged = self._logged + 1, state.global_step
        if not math.isfinite(logs["loss"]):
            update = f"{first} to {self._logged}" if first < self._logged else f"{self._logged}"
            raise NonFiniteError(f"update {update}: the loss is not finite. {ADVICE}")
        extra = training_statistics(kwargs["model"])
        logs.update(extra)
        if state.log_history:
            state.log_history[-1].update(extra)


class BudgetSchedule(TrainingWatch):
    """Sets ``t/T`` before every update, from the real number of updates, in any ``transformers.Trainer``.

    T is ``state.max_steps``, which counts accumulation, ``max_steps``, resumed runs and several processes.
    With ``phases`` a first part of the updates trains with all heads, and t/T counts those after it.
    A non-finite loss or gradient stops the run (``TrainingWatch``). Each log line of the Trainer gains the means
    since the last one: task, budget, price and entropy loss, τ, mean budget, and per layer budget, heads,
    entropy, effective heads (exp of the entropy) and distinct heads in use.

    Example:
        >>> trainer = Trainer(model=model, args=args, train_dataset=rows, callbacks=[BudgetSchedule()])
    """

    def __init__(self, phases: Phases | None = None) -> None:
        self.phases = phases or Phases()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if args.label_smoothing_factor:
            raise ValueError(
                f"label_smoothing_factor ({args.label_smoothing_factor}) of the Trainer replaces the model's loss, so "
                "that budget and entropy losses would be left out: set label_smoothing in the model's configuration"
            )
        super().on_train_begin(args, state, control, **kwargs)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        first = self.phases.first(state.max_steps)
        progress = max(0, state.global_step - first) / max(state.max_steps - first, 1)
        model = budgetformer_in(kwargs["model"])
        model.set_progress(min(progress, 1.0), all_heads=state.global_step < first)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        budgetformer_in(kwargs["model"]).set_progress(1.0)


def budgetformer_in(model: nn.Module) -> BudgetFormerPreTrainedModel:
    """The BudgetFormer inside wrappers such as DistributedDataParallel. Raises TypeError when there is none."""
    for module in model.modules():
        if isinstance(module, BudgetFormerPreTrainedModel):
            return module
    raise TypeError(f"BudgetSchedule needs a BudgetFormer model, got {type(model).__name__}")


def check_update(model: nn.Module, update: int, args: TrainingArguments, *, gradients: bool = True) -> None:
    """Raise NonFiniteError when the loss of a batch or (if ``gradients``) a gradient is not finite.

    Several processes ask each other, so that all of them raise at the same update: the batch may have been that of one.
    """
    statistics = getattr(budgetformer_in(model), "statistics", None)
    broken_loss = None if statistics is None else statistics.not_finite()
    norms = (
        torch._foreach_norm([own_part(p.grad) for p in model.parameters() if p.grad is not None]) if gradients else ()
    )
    nothing = torch.zeros((), dtype=torch.bool, device=args.device)
    broken = torch.stack(
        [
            nothing if broken_loss is None else broken_loss.to(args.device),
            ~torch.isfinite(torch.stack(list(norms))).all().to(args.device) if norms else nothing,
        ]
    ).int()
    if args.world_size > 1:
        torch.distributed.all_reduce(broken, torch.distributed.ReduceOp.MAX)
    loss, gradient = broken.tolist()
    if loss or gradient:
        what = " and ".join([*["the loss"] * loss, *["the gradients"] * gradient])
        raise NonFiniteError(
            f"update {update}: {what} {'are' if gradient else 'is'} not finite. The update was not made. {ADVICE}"
        )


def training_statistics(model: nn.Module) -> dict[str, float]:
    """Take the statistics that the model gathered since the last call, with the current τ."""
    inner = budgetformer_in(model)
    statistics = getattr(inner, "statistics", None)
    logged = statistics.pop() if statistics is not None else {}
    attention = next((m for m in inner.modules() if getattr(m, "relevance_net", None) is not None), None)
    if logged and attention is not None:
        logged["tau"] = attention.temperature(attention.progress or 0.0)
    return logged
