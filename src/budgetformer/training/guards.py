"""Ctrl-C, SIGTERM, early stopping and Trainer progress: long work can be stopped, and says where it is."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

import torch
from tqdm.auto import tqdm
from transformers import EarlyStoppingCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

SAME_SIGNAL = 2.0
"""Seconds."""


class Interrupted(Exception):
    """The run was stopped by a signal after its state was saved."""


class TimeOver(Interrupted):
    """The run was stopped at its deadline after its state was saved."""


class StopOnSignal(TrainerCallback):
    """On SIGINT or SIGTERM: finish the update, save once, leave. A second signal leaves at once.

    At ``deadline``, a time of ``time.monotonic``, it leaves in the same way.

    Of several processes all leave at the same update, whichever was told; and since a launcher passes a Ctrl-C on that
    they have had already, signals within ``SAME_SIGNAL`` seconds count as one there. ``stopped`` says that training was
    left early.

    Use as a context manager around ``Trainer.train``; the former handlers come back at the end. Outside the main
    thread, where Python takes no signal handlers, it does nothing.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self.deadline = deadline
        self.signal: int | None = None
        self.stopped = False
        self._saved_at: int | None = None
        self._since = 0.0
        self._former: dict[int, Any] = {}

    def __enter__(self) -> StopOnSignal:
        if threading.current_thread() is threading.main_thread():
            self._former = {s: signal.signal(s, self._handle) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            if torch.distributed.is_initialized() and time.monotonic() - self._since < SAME_SIGNAL:
                return
            raise KeyboardInterrupt
        self.signal, self._since = number, time.monotonic()
        # Not print: the signal may have come in the middle of one, and the stream cannot be entered twice.
        text = f"\n{signal.Signals(number).name}: saving after this update; again to leave at once.\n"
        os.write(2, text.encode())

    def _is_to_stop(self, args: TrainingArguments) -> bool:
        told = self.signal is not None or (self.deadline is not None and time.monotonic() >= self.deadline)
        if args.world_size > 1:
            anyone = torch.tensor(int(told), device=args.device)
            torch.distributed.all_reduce(anyone, torch.distributed.ReduceOp.MAX)
            told = bool(anyone)
        self.stopped = self.stopped or told
        return self.stopped

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._is_to_stop(args):
            control.should_evaluate = False
            control.should_save = True
            control.should_training_stop = True

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self._is_to_stop(args):
            control.should_evaluate = False
            control.should_save = self._saved_at != state.global_step
            control.should_training_stop = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._saved_at = state.global_step

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._is_to_stop(args):
            control.should_save = True
            control.should_training_stop = True


class Patience(EarlyStoppingCallback):
    """Early stopping that goes on counting in a resumed run, with the patience that this run was given."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        saved = state.stateful_callbacks.get(type(self).__name__, {})
        self.early_stopping_patience_counter = saved.get("attributes", {}).get("early_stopping_patience_counter", 0)


class Progress(TrainerCallback):
    """A bar over all updates with loss, heads and accuracy; one line per evaluation."""

    def __init__(self, *, title: str, quiet: bool = False) -> None:
        self.title, self.quiet = title, quiet
        self._bar: Any = None
        self._shown: dict[str, str] = {}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            self._bar = tqdm(
                total=state.max_steps,
                initial=state.global_step,
                desc=self.title,
                bar_format="{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {elapsed}<{remaining}{postfix}",
                disable=self.quiet or None,
                dynamic_ncols=True,
            )

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if self._bar is None or not logs:
            return
        for name in ("loss", "mean_heads", "eval_accuracy"):
            if name in logs:
                self._shown[name.replace("mean_", "").replace("eval_", "")] = f"{logs[name]:.3g}"
        self._bar.set_postfix(self._shown, refresh=False)

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        if self._bar is None or self.quiet or not metrics:
            return
        parts = [
            f"epoch {state.epoch or 0:.4g}/{state.num_train_epochs}",
            f"update {state.global_step}/{state.max_steps}",
        ]
        shown = {
            "eval_loss": "loss",
            "eval_accuracy": "accuracy",
            "eval_macro_f1": "macro-F1",
            "eval_mean_heads": "heads",
        }
        parts += [f"{label} {metrics[name]:.4f}" for name, label in shown.items() if name in metrics]
        self._bar.write(f"{self.title}: validation at " + ", ".join(parts), file=sys.stderr)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
