"""Train a classifier on a file or a named data set and write a model folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..extras import how_to_install
from . import options as o
from . import training_options as t
from .training_options import MODEL, OPTIMISATION

NAME = "train"
EXAMPLES = (
    "Examples:",
    "budgetformer train --train news.csv --output runs/news --preset tiny",
    "budgetformer train --train pairs.jsonl --text-column premise --pair-column hypothesis --output runs/nli",
    "budgetformer train --from sentence-transformers/all-MiniLM-L6-v2 --train news.csv --output runs/minilm",
    "torchrun --nproc-per-node 2 -m budgetformer train --train ag_news --output runs/ag",
)


def run(
    train: Annotated[
        list[str],
        typer.Option(
            "--train",
            metavar="FILE|NAME",
            help="csv, tsv, jsonl or parquet (repeat for several files), or ag_news, dbpedia14, imdb, snli, yelp_full.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="The model folder to write.")],
    validation: t.Validation = None,
    validation_fraction: t.ValidationFraction = None,
    data_folder: o.DataFolder = None,
    text_column: o.TextColumn = None,
    pair_column: o.PairColumn = None,
    label_column: o.LabelColumn = None,
    unlabelled: o.Unlabelled = None,
    format: o.Format = None,
    no_header: o.NoHeader = False,
    encoding: o.Encoding = None,
    quoting: o.Quoting = None,
    delimiter: o.Delimiter = None,
    from_model: t.From = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="tiny|small|base|paper",
            rich_help_panel=MODEL,
            help="Size and defaults. Default: small.",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer", metavar="NAME[@COMMIT]|DIR", rich_help_panel=MODEL, help="Default: learn a vocabulary."
        ),
    ] = None,
    vocab_size: Annotated[
        int | None,
        typer.Option("--vocab-size", metavar="N", rich_help_panel=MODEL, help="Word pieces at most. Default: 30522."),
    ] = None,
    max_length: t.MaxLength = None,
    pooling: Annotated[
        str | None,
        typer.Option("--pooling", metavar="mean|first", rich_help_panel=MODEL, help="What the classifier reads."),
    ] = None,
    dense: Annotated[
        bool,
        typer.Option(
            "--dense", metavar="", rich_help_panel=MODEL, help="Full attention: the same model without budgets."
        ),
    ] = False,
    selection: Annotated[
        str | None,
        typer.Option(
            "--selection", metavar="straight_through|soft", rich_help_panel=o.BUDGET, help="How heads are chosen."
        ),
    ] = None,
    s_min: t.SMin = None,
    s_max: t.SMax = None,
    s_max_start: t.SMaxStart = None,
    ceiling_until: t.CeilingUntil = None,
    min_heads: Annotated[
        int | None,
        typer.Option("--min-heads", metavar="N", rich_help_panel=o.BUDGET, help="Heads at least; 0 lets a layer rest."),
    ] = None,
    budget_price: Annotated[
        float | None,
        typer.Option("--budget-price", metavar="X", rich_help_panel=o.BUDGET, help="What all heads of a layer cost."),
    ] = None,
    budget_sampling: t.BudgetSampling = None,
    alpha_max: t.AlphaMax = None,
    gate_learning_rate: t.GateLearningRate = None,
    distillation: t.Distillation = None,
    dense_share: t.DenseShare = None,
    target_accuracy_drop: t.TargetAccuracyDrop = None,
    epochs: t.Epochs = None,
    max_steps: t.MaxSteps = None,
    batch_size: t.BatchSize = None,
    gradient_accumulation: Annotated[
        int,
        typer.Option("--gradient-accumulation", metavar="N", rich_help_panel=OPTIMISATION, help="Steps per update."),
    ] = 1,
    learning_rate: t.LearningRate = None,
    warmup: Annotated[
        float | None, typer.Option("--warmup", metavar="X", rich_help_panel=OPTIMISATION, help="Share of the updates.")
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option("--weight-decay", metavar="X", rich_help_panel=OPTIMISATION)
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            "--patience", metavar="N", rich_help_panel=OPTIMISATION, help="Stop after so many evaluations without gain."
        ),
    ] = None,
    class_weights: Annotated[
        str | None,
        typer.Option("--class-weights", metavar="balanced|1,2,…", rich_help_panel=OPTIMISATION, help="In label order."),
    ] = None,
    label_smoothing: Annotated[
        float, typer.Option("--label-smoothing", metavar="X", rich_help_panel=OPTIMISATION)
    ] = 0.0,
    word_dropout: Annotated[
        float,
        typer.Option(
            "--word-dropout",
            metavar="SHARE",
            rich_help_panel=OPTIMISATION,
            help="Tokens that a training step does not see. 0.1 to 0.3 helps where texts are few.",
        ),
    ] = 0.0,
    seed: t.Seed = 0,
    gradient_checkpointing: Annotated[
        bool,
        typer.Option(
            "--gradient-checkpointing", metavar="", rich_help_panel=OPTIMISATION, help="Less memory, more time."
        ),
    ] = False,
    precision: o.TrainingPrecision = "float32",
    device: o.Device = "auto",
    fsdp: o.Fsdp = False,
    logging_steps: Annotated[
        int | None,
        typer.Option("--logging-steps", metavar="N", rich_help_panel=o.RUNNING, help="Updates between log rows."),
    ] = None,
    eval_steps: t.EvalSteps = None,
    tensorboard: Annotated[
        Path | None, typer.Option("--tensorboard", metavar="DIR", rich_help_panel=o.RUNNING, help="Write logs there.")
    ] = None,
    example: t.Example = None,
    resume: t.Resume = False,
    overwrite: t.Overwrite = False,
    quiet: t.Quiet = False,
) -> None:
    heads = {
        "selection": selection,
        "s_min": s_min,
        "s_max": s_max,
        "s_max_start": s_max_start,
        "ceiling_until": ceiling_until,
        "distillation": distillation,
        "min_heads": min_heads,
        "budget_price": budget_price,
        "budget_sampling": budget_sampling,
        "alpha_max": alpha_max,
    }
    if dense:
        of_gates = heads | {"gate_learning_rate": gate_learning_rate, "dense_share": dense_share}
        of_gates |= {"target_accuracy_drop": target_accuracy_drop}
        o.refuse({_option(name): value for name, value in of_gates.items()}, "with --dense, which has no budgets")
    if from_model is None:
        o.refuse({"--distillation": distillation, "--dense-share": dense_share}, "without --from MODEL")
        preset = preset or "small"
    else:
        o.refuse(
            {"--preset": preset, "--tokenizer": tokenizer, "--vocab-size": vocab_size},
            "with --from, which brings its own",
        )
        o.refuse({"--fsdp": fsdp}, "with --from, whose heads are ranked on the way")
    o.require_points(target_accuracy_drop)
    if tokenizer is not None:
        o.refuse({"--vocab-size": vocab_size}, "with --tokenizer, which brings its vocabulary")
    if validation is not None:
        o.refuse({"--validation-fraction": validation_fraction}, "with --validation")
    if tensorboard is not None:
        _require_tensorboard()
    from ..model_folder import check_run_folder
    from .early import check_file, check_preset, check_training_source
    from .libraries import quiet_libraries

    if preset is not None:
        check_preset(preset)
    weights = _weights(class_weights)
    named = check_training_source(
        train,
        reading={"--format": format, "--no-header": no_header, "--encoding": encoding, "--quoting": quoting}
        | {"--delimiter": delimiter},
        columns={"--text-column": text_column, "--pair-column": pair_column, "--label-column": label_column},
        validation=validation is not None,
        data_folder=data_folder,
    )
    described = o.reading_of(
        format=format, no_header=no_header, encoding=encoding, quoting=quoting, delimiter=delimiter
    )
    for file in ([] if named else train) + ([] if validation is None else [validation]):
        check_file(file, described)
    if os.environ.get("RANK", "0") == "0" and not (resume and overwrite):
        check_run_folder(output, resume=resume, overwrite=overwrite)
    quiet_libraries()
    changes: dict[str, Any] = {name: value for name, value in heads.items() if value is not None}
    changes |= {"pooling": pooling} if pooling is not None else {}
    changes |= {"budgeted": False} if dense else {}
    settings: dict[str, Any] = {
        "train": train[0] if named or len(train) == 1 else train,
        "output": output,
        "validation": validation,
        "text_column": text_column or (),
        "pair_column": pair_column,
        "label_column": label_column,
        "reading": described,
        "unlabelled": o.unlabelled_of(unlabelled),
        "data_folder": data_folder,
        "validation_fraction": validation_fraction,
        "preset": preset,
        "tokenizer": tokenizer,
        "vocab_size": vocab_size,
        "max_length": max_length,
        "config": changes,
        "epochs": epochs,
        "max_steps": max_steps,
        "batch_size": batch_size,
        "gradient_accumulation": gradient_accumulation,
        "learning_rate": learning_rate,
        "warmup": warmup,
        "weight_decay": weight_decay,
        "patience": patience,
        "class_weights": weights,
        "label_smoothing": label_smoothing,
        "word_dropout": word_dropout,
        "seed": seed,
        "gate_learning_rate": gate_learning_rate,
        "dense_share": dense_share,
        "target_accuracy_drop": target_accuracy_drop,
        "examples": example or (),
        "precision": precision,
        "gradient_checkpointing": gradient_checkpointing,
        "device": device,
        "fsdp": fsdp,
        "logging_steps": logging_steps,
        "eval_steps": eval_steps,
        "resume": resume,
        "overwrite": overwrite,
        "tensorboard": tensorboard,
        "quiet": quiet,
    }
    told = {name: value for name, value in settings.items() if value is not None}
    if from_model is None:
        from ..training import train as train_preset

        result = train_preset(**told)
    else:
        from ..conversion import train_from

        result = train_from(from_model, **told)
    if not quiet and os.environ.get("RANK", "0") == "0":
        from .trained import report

        report(result)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _weights(text: str | None) -> str | list[float] | None:
    if text is None or text == "balanced":
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"--class-weights must be balanced or numbers with commas such as 1,2,0.5, got {text!r}"
        ) from None


def _require_tensorboard() -> None:
    from importlib.util import find_spec

    if find_spec("tensorboard") is None and find_spec("tensorboardX") is None:
        raise ValueError(f"--tensorboard needs a package that is not installed; {how_to_install('tensorboard')}")
