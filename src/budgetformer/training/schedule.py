"""The Trainer callback that drives t/T, watches the gradients, and logs what the heads do."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ..pretrained import BudgetFormerPreTrainedModel
from .phases import Phases


class NonFiniteError(ArithmeticError):
    """A loss or gradient became NaN or infinite; the message has the update."""


class TrainingWatch(TrainerCallback):
    """Stops a run at the update whose gradient is not finite, and adds the model's statistics to each log line."""

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if not args.fp16:  # there the gradient scaler skips such updates by design
            check_gradients(kwargs["model"], state.global_step + 1)

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
        extra = training_statistics(kwargs["model"])
        logs.update(extra)
        if state.log_history:
            state.log_history[-1].update(extra)


class BudgetSchedule(TrainingWatch):
    """Sets ``t/T`` before every update, from the real number of updates, in any ``transformers.Trainer``.

    T is ``state.max_steps``, which counts accumulation, ``max_steps``, resumed runs and several processes.
    With ``phases`` a first part of the updates trains with all heads, and t/T counts those after it.
    A non-finite gradient stops the run before the optimizer sees it. Each log line of the Trainer gains the means
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


def check_gradients(model: nn.Module, update: int) -> None:
    """Raise NonFiniteError when any gradient is NaN or infinite."""
    norms = torch._foreach_norm([p.grad for p in model.parameters() if p.grad is not None])
    if norms and not bool(torch.isfinite(torch.stack(list(norms))).all()):
        raise NonFiniteError(
            f"update {update}: the gradients are not finite, so the loss was NaN or infinite. The update was not made. "
            "Try a lower --learning-rate, --precision float32, or look for broken rows."
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
