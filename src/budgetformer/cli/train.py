"""Train a classifier on a file or a named data set and write a model folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from . import options as o

NAME = "train"
EXAMPLES = (
    "Examples:",
    "budgetformer train --train news.csv --output runs/news --preset tiny",
    "budgetformer train --train pairs.jsonl --text-column premise --pair-column hypothesis --output runs/nli",
    "torchrun --nproc-per-node 2 -m budgetformer train --train ag_news --output runs/ag",
)
MODEL, OPTIMISATION = "Model", "Optimisation"


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
    validation: Annotated[
        Path | None,
        typer.Option("--validation", metavar="FILE", help="Default: rows set aside from the training data."),
    ] = None,
    validation_fraction: Annotated[
        float | None,
        typer.Option("--validation-fraction", metavar="X", help="Share of the rows to set aside. Default: 0.1."),
    ] = None,
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
    preset: Annotated[
        str, typer.Option("--preset", metavar="tiny|small|base|paper", rich_help_panel=MODEL, help="Size and defaults.")
    ] = "small",
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", metavar="NAME|DIR", rich_help_panel=MODEL, help="Default: learn a vocabulary."),
    ] = None,
    vocab_size: Annotated[
        int | None,
        typer.Option("--vocab-size", metavar="N", rich_help_panel=MODEL, help="Word pieces at most. Default: 30522."),
    ] = None,
    max_length: Annotated[
        int, typer.Option("--max-length", metavar="N", rich_help_panel=MODEL, help="Tokens of a text; the rest is cut.")
    ] = 256,
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
    s_min: Annotated[
        float | None,
        typer.Option("--s-min", metavar="X", rich_help_panel=o.BUDGET, help="Least mean share of heads wanted."),
    ] = None,
    s_max: Annotated[
        float | None,
        typer.Option("--s-max", metavar="X", rich_help_panel=o.BUDGET, help="Largest mean share of heads wanted."),
    ] = None,
    min_heads: Annotated[
        int | None,
        typer.Option("--min-heads", metavar="N", rich_help_panel=o.BUDGET, help="Heads at least; 0 lets a layer rest."),
    ] = None,
    budget_price: Annotated[
        float | None,
        typer.Option("--budget-price", metavar="X", rich_help_panel=o.BUDGET, help="What all heads of a layer cost."),
    ] = None,
    budget_sampling: Annotated[
        float | None,
        typer.Option(
            "--budget-sampling",
            metavar="X",
            rich_help_panel=o.BUDGET,
            help="Share of rows trained at a random number of heads.",
        ),
    ] = None,
    alpha_max: Annotated[
        float | None,
        typer.Option(
            "--alpha-max", metavar="X", rich_help_panel=o.BUDGET, help="Weight of the interval at the end of training."
        ),
    ] = None,
    epochs: Annotated[
        float | None, typer.Option("--epochs", metavar="X", rich_help_panel=OPTIMISATION, help="Default: the preset's.")
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option("--max-steps", metavar="N", rich_help_panel=OPTIMISATION, help="Updates, instead of --epochs."),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option("--batch-size", metavar="N", rich_help_panel=OPTIMISATION, help="Rows per process and step."),
    ] = None,
    gradient_accumulation: Annotated[
        int,
        typer.Option("--gradient-accumulation", metavar="N", rich_help_panel=OPTIMISATION, help="Steps per update."),
    ] = 1,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", metavar="X", rich_help_panel=OPTIMISATION)
    ] = None,
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
    seed: Annotated[int, typer.Option("--seed", metavar="N", rich_help_panel=OPTIMISATION)] = 0,
    gradient_checkpointing: Annotated[
        bool,
        typer.Option(
            "--gradient-checkpointing", metavar="", rich_help_panel=OPTIMISATION, help="Less memory, more time."
        ),
    ] = False,
    precision: o.TrainingPrecision = "float32",
    device: o.Device = "auto",
    logging_steps: Annotated[
        int | None,
        typer.Option("--logging-steps", metavar="N", rich_help_panel=o.RUNNING, help="Updates between log rows."),
    ] = None,
    eval_steps: Annotated[
        int | None,
        typer.Option(
            "--eval-steps",
            metavar="N",
            rich_help_panel=o.RUNNING,
            help="Updates between evaluations. Default: an epoch.",
        ),
    ] = None,
    tensorboard: Annotated[
        Path | None, typer.Option("--tensorboard", metavar="DIR", rich_help_panel=o.RUNNING, help="Write logs there.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", metavar="", rich_help_panel=o.RUNNING, help="Go on from the newest checkpoint in --output."
        ),
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", metavar="", rich_help_panel=o.RUNNING, help="Replace an earlier run in --output."),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", metavar="", rich_help_panel=o.RUNNING, help="Say nothing but warnings and errors."),
    ] = False,
) -> None:
    heads = {
        "selection": selection,
        "s_min": s_min,
        "s_max": s_max,
        "min_heads": min_heads,
        "budget_price": budget_price,
        "budget_sampling": budget_sampling,
        "alpha_max": alpha_max,
    }
    if dense:
        o.refuse({_option(name): value for name, value in heads.items()}, "with --dense, which has no budgets")
    if tokenizer is not None:
        o.refuse({"--vocab-size": vocab_size}, "with --tokenizer, which brings its vocabulary")
    if validation is not None:
        o.refuse({"--validation-fraction": validation_fraction}, "with --validation")
    if tensorboard is not None:
        _require_tensorboard()
    from ..model_folder import check_run_folder
    from .early import check_file, check_preset, check_training_source
    from .libraries import quiet_libraries

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
    from ..training import TrainingSettings
    from ..training import run as run_training

    changes: dict[str, Any] = {name: value for name, value in heads.items() if value is not None}
    changes |= {"pooling": pooling} if pooling is not None else {}
    changes |= {"budgeted": False} if dense else {}
    settings = TrainingSettings(
        train=train[0] if named or len(train) == 1 else train,
        output=output,
        validation=validation,
        text_column=text_column or (),
        pair_column=pair_column,
        label_column=label_column,
        reading=described,
        unlabelled=o.unlabelled_of(unlabelled),
        data_folder=data_folder,
        validation_fraction=0.1 if validation_fraction is None else validation_fraction,
        preset=preset,
        tokenizer=tokenizer,
        vocab_size=30522 if vocab_size is None else vocab_size,
        max_length=max_length,
        config=changes,
        epochs=epochs,
        max_steps=max_steps,
        batch_size=batch_size,
        gradient_accumulation=gradient_accumulation,
        learning_rate=learning_rate,
        warmup=warmup,
        weight_decay=weight_decay,
        patience=patience,
        class_weights=weights,
        label_smoothing=label_smoothing,
        seed=seed,
        precision=precision,
        gradient_checkpointing=gradient_checkpointing,
        device=device,
        logging_steps=logging_steps,
        eval_steps=eval_steps,
        resume=resume,
        overwrite=overwrite,
        tensorboard=tensorboard,
        quiet=quiet,
    )
    result = run_training(settings)
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
        raise ValueError("--tensorboard needs a package that is not installed: pip install 'budgetformer[tensorboard]'")
