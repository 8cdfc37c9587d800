"""``train()``: one documented training run over ``transformers.Trainer``, from a file to a model folder."""

from __future__ import annotations

import math
import os
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from transformers import DataCollatorWithPadding, PrinterCallback, TrainingArguments, set_seed
from transformers.integrations import TensorBoardCallback

from ..configuration import BudgetFormerConfig
from ..curve import BudgetChoice
from ..inference import pick_device
from ..locking import alone_in
from ..model_folder import CHECKPOINTS
from ..modeling import BudgetFormerForSequenceClassification
from ..reporting.card import model_card
from .checkpoints import newest_checkpoint
from .folder import check_output, quiet_transformers, start_output, write_model_folder
from .guards import Interrupted, Patience, Progress, StopOnSignal, TimeOver
from .phases import Phases
from .prepare import PreparedData, prepare
from .record import keep_settings, training_record
from .schedule import BudgetSchedule, TrainingWatch, budgetformer_in
from .settings import TrainingSettings, check_examples
from .sharding import check_sharding, sharding_arguments, whole_model
from .start import BudgetStart, Start
from .target import measure_target
from .trainer import BudgetTrainer, classification_metrics
from .word_dropout import WordDropout


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """``output`` the model folder; ``metrics`` on the ``validation_rows``; ``history`` the Trainer's log rows.

    ``best_update`` is the update whose state was kept, None when the last one was. ``choice``: with
    ``target_accuracy_drop``, the budget that became the folder's default. ``pruning``: what was dropped for good.
    """

    output: Path
    metrics: dict[str, float]
    validation_rows: int
    history: list[dict[str, Any]]
    best_update: int | None
    seconds: float
    choice: BudgetChoice | None = None
    pruning: dict[str, Any] | None = None


def train(**settings: Any) -> TrainingResult:
    """Train a classifier and write a model folder; the keyword arguments are those of ``TrainingSettings``.

    Raises:
        ValueError: for settings or data that cannot be used, before anything is trained.
        NonFiniteError: when a loss or gradient is NaN or infinite, at that update; checkpoints stay.
        Interrupted: after Ctrl-C or SIGTERM, with the state saved for ``resume=True``.

    Example:
        >>> train(train="news.csv", output="runs/news", preset="small")
    """
    return run(TrainingSettings(**settings))


def run(settings: TrainingSettings, start: Start | None = None, *, deadline: float | None = None) -> TrainingResult:
    """Train as ``settings`` say; see ``train``. With a ``start`` the run begins with a pretrained model.

    At ``deadline`` (of ``time.monotonic``) it saves its state and raises TimeOver.
    """
    started = time.perf_counter()
    settings = settings.resolved()
    output = Path(settings.output)
    main_process = int(os.environ.get("RANK", "0")) == 0

    def say(text: str) -> None:
        if main_process and not settings.quiet:
            print(text, file=sys.stderr)

    if main_process:
        checkpoint = check_output(output, resume=settings.resume, overwrite=settings.overwrite, say=say)
    else:
        checkpoint = newest_checkpoint(output) if settings.resume else None
    device = pick_device(settings.device)  # like the next lines: refused before data are read
    if settings.fsdp:
        check_sharding(device, pretrained=start is not None)
    if start is None:
        _check_scratch(settings)
    set_seed(settings.seed)
    data = prepare(settings, say, start)
    check_examples(settings.examples, pairs=data.columns.pair is not None)
    set_seed(settings.seed)
    if start is None:
        model = BudgetFormerForSequenceClassification(build_config(settings, data))
    else:
        model = start.model(task_fields(settings, data) | {"model_max_length": settings.max_length} | settings.config)
    config = model.config
    if settings.gradient_checkpointing:
        # older versions of transformers know the second name only, newer ones warn about it
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable()
    if main_process:
        output.mkdir(parents=True, exist_ok=True)
    with alone_in(output) if main_process else nullcontext():
        if main_process and checkpoint is None:
            check_output(output, resume=False, overwrite=settings.overwrite)  # another run may have come first
            start_output(output)
        arguments = training_arguments(settings, rows=len(data.train))
        phases = Phases(settings.dense_share)
        trainer = build_trainer(settings, model, arguments, data, phases)
        if start is not None and config.budgeted:
            trainer.add_callback(BudgetStart(start, trainer, output / CHECKPOINTS))
        keep_settings(output, settings, data, trainer, checkpoint=checkpoint, say=say)
        with StopOnSignal(deadline) as stop:
            trainer.add_callback(stop)
            with quiet_transformers():
                trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        if stop.stopped:
            kept = newest_checkpoint(output)
            reason = TimeOver if stop.signal is None and deadline is not None else Interrupted
            raise reason(f"stopped; the state is in {kept}. Go on with the same command and --resume")
        pruning = None
        if start is not None and start.finish is not None:
            trained = budgetformer_in(trainer.model)
            assert isinstance(trained, BudgetFormerForSequenceClassification)
            pruning = start.finish(trained, data.train, data.validation)
        metrics = {k.removeprefix("eval_"): v for k, v in trainer.evaluate().items()}
        result = TrainingResult(
            output=output,
            metrics=metrics,
            validation_rows=len(data.validation),
            history=trainer.state.log_history,
            best_update=trainer.kept_update,
            pruning=pruning,
            seconds=time.perf_counter() - started,
        )
        finished = whole_model(trainer)
        if trainer.is_world_process_zero():
            source = None if start is None else asdict(start.origin)
            record = training_record(settings, data, trainer, metrics=metrics, seconds=result.seconds, source=source)
            record |= {} if pruning is None else {"pruning": pruning}
            card, picture = model_card(config=config, record=record), None
            if settings.target_accuracy_drop is not None:
                drop, shown = settings.target_accuracy_drop, not settings.quiet
                target = measure_target(finished, data, target=drop, progress=shown)
                record |= target.record()
                card, picture = target.add_to(card)
                result = replace(result, choice=target.choice)
            write_model_folder(
                output, model=finished, tokenizer=data.tokenizer, card=card, record=record, picture=picture
            )
            say(f"model folder written to {output}")
        trainer.accelerator.wait_for_everyone()
        return result


def _check_scratch(settings: TrainingSettings) -> None:
    """Refuse fields that cannot work, and settings for a pretrained model, before data are read."""
    fields = {"max_position_embeddings": settings.max_length} | settings.config
    config = BudgetFormerConfig.preset(settings.preset, **fields)
    for name, value in (("dense_share", settings.dense_share), ("distillation", config.distillation)):
        if value:
            raise ValueError(f"{name} ({value}) needs a pretrained model to begin with; see docs/pretrained.md")
    if "ceiling_until" in settings.config and config.s_max_start is None:
        raise ValueError("ceiling_until has no effect without s_max_start, from where the ceiling comes down")
    if settings.gate_learning_rate is not None and not config.budgeted:
        raise ValueError("gate_learning_rate has no effect with full attention, which has no nets f and g")


def build_config(settings: TrainingSettings, data: PreparedData) -> BudgetFormerConfig:
    """The configuration of a new model for these settings and data."""
    fields: dict[str, Any] = {
        "vocab_size": max(len(data.tokenizer), max(data.tokenizer.get_vocab().values()) + 1),
        "max_position_embeddings": settings.max_length,
        "type_vocab_size": 2 if data.columns.pair is not None else 0,
        "pad_token_id": data.tokenizer.pad_token_id,
    }
    return BudgetFormerConfig.preset(settings.preset, **(fields | task_fields(settings, data) | settings.config))


def task_fields(settings: TrainingSettings, data: PreparedData) -> dict[str, Any]:
    """The fields that classes, columns and the weighing of classes settle."""
    names = dict(enumerate(data.class_names))
    return {
        "id2label": names,
        "label2id": {name: i for i, name in names.items()},
        "label_smoothing": settings.label_smoothing,
        "class_weights": class_weights(settings, data),
        "text_columns": list(data.columns.text),
        "pair_column": data.columns.pair,
        "label_column": data.columns.label,
    }


def class_weights(settings: TrainingSettings, data: PreparedData) -> list[float] | None:
    """One weight per class, scaled so that the mean over the training rows is 1."""
    if settings.class_weights is None:
        return None
    counts = [data.class_counts[name] for name in data.class_names]
    if settings.class_weights == "balanced":
        raw = [1.0 / max(n, 1) for n in counts]
    else:
        raw = [float(w) for w in settings.class_weights]
        if len(raw) != len(counts) or not all(math.isfinite(w) and w >= 0 for w in raw) or not any(raw):
            raise ValueError(
                f"class_weights must be one number of at least 0 for each class "
                f"({', '.join(data.class_names)}), got {raw}"
            )
    mean = sum(w * n for w, n in zip(raw, counts, strict=True)) / sum(counts)
    return [w / mean for w in raw]


def training_arguments(settings: TrainingSettings, *, rows: int) -> TrainingArguments:
    """The Trainer's arguments; nothing is written but checkpoints."""
    device = pick_device(settings.device)
    assert settings.batch_size is not None
    batches = math.ceil(rows / settings.batch_size)
    updates = settings.max_steps or math.ceil(batches / settings.gradient_accumulation) * (settings.epochs or 1)
    every = "steps" if settings.eval_steps else "epoch"
    arguments = TrainingArguments(
        output_dir=str(Path(settings.output) / CHECKPOINTS),
        num_train_epochs=settings.epochs or 3.0,
        max_steps=settings.max_steps or -1,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=2 * settings.batch_size,
        gradient_accumulation_steps=settings.gradient_accumulation,
        learning_rate=settings.learning_rate or 5e-4,
        lr_scheduler_type="linear",
        warmup_steps=settings.warmup or 0.0,
        weight_decay=settings.weight_decay or 0.0,
        max_grad_norm=settings.max_grad_norm,
        bf16=settings.precision == "bf16",
        use_cpu=device == "cpu",
        seed=settings.seed,
        logging_steps=settings.logging_steps or max(1, int(updates) // 1000),
        logging_nan_inf_filter=False,
        eval_strategy=every,
        eval_steps=settings.eval_steps,
        save_strategy=every,
        save_steps=settings.eval_steps or 500,
        save_total_limit=2,
        load_best_model_at_end=settings.keep_best,
        metric_for_best_model="eval_score",
        greater_is_better=True,
        dataloader_pin_memory=device != "cpu",
        ddp_find_unused_parameters=False,
        **(sharding_arguments() if settings.fsdp else {}),
        label_names=["labels"],
        report_to=[],
        disable_tqdm=True,
    )
    if arguments.n_gpu > 1:  # one process takes one GPU: copies of the model in threads would share its statistics
        arguments._n_gpu = 1
    return arguments


def build_trainer(
    settings: TrainingSettings,
    model: BudgetFormerForSequenceClassification,
    arguments: TrainingArguments,
    data: PreparedData,
    phases: Phases | None = None,
) -> BudgetTrainer:
    """The Trainer with schedule, progress and early stopping."""
    trainer = BudgetTrainer(
        model=model,
        args=arguments,
        train_dataset=data.train,
        eval_dataset=data.validation,
        processing_class=data.tokenizer,
        data_collator=DataCollatorWithPadding(data.tokenizer),
        compute_metrics=classification_metrics,
        phases=phases,
        gate_learning_rate=settings.gate_learning_rate,
        word_dropout=WordDropout(data.tokenizer, share=settings.word_dropout) if settings.word_dropout else None,
    )
    # First, so that loggers such as TensorBoard see what it adds to a log row.
    trainer.callback_handler.callbacks.insert(0, BudgetSchedule(phases) if model.config.budgeted else TrainingWatch())
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Progress(title=settings.title, quiet=settings.quiet))
    if settings.tensorboard is not None:
        board = TensorBoardCallback()
        board.logging_dir = str(settings.tensorboard)
        trainer.add_callback(board)
    if settings.patience is not None:
        trainer.add_callback(Patience(early_stopping_patience=settings.patience))
    return trainer
