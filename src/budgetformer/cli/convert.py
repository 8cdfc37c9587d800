"""Turn a pretrained encoder or classifier into a BudgetFormer; with --data one that needs few of its heads."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..calling import program
from . import options as o
from . import training_options as t

if TYPE_CHECKING:
    from ..conversion import Conversion

NAME = "convert"
EXAMPLES = (
    "Examples:",
    "budgetformer convert my-classifier --output runs/mine",
    "budgetformer convert sentence-transformers/all-MiniLM-L6-v2 --output runs/minilm",
    "budgetformer convert my-classifier --output runs/cheap --data train.csv",
    "budgetformer convert my-classifier --output runs/floor --zero-shot --data train.csv --budget 0.75",
    "budgetformer convert runs/cheap --output runs/small --prune-unused --data train.csv --validation test.csv",
    "What works: BERT, RoBERTa, XLM-RoBERTa, DistilBERT, ELECTRA and ModernBERT, in safetensors.",
)
ZERO_SHOT = "Zero-shot"


def run(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A folder, or a name of the hub: an encoder or a sequence classifier. With --prune-unused also a "
            "BudgetFormer folder, which is not trained then.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="The model folder to write; new or empty.")],
    zero_shot: Annotated[
        bool,
        typer.Option(
            "--zero-shot",
            metavar="",
            rich_help_panel=ZERO_SHOT,
            help="Rank the heads on --data and keep a fixed share of them, without training.",
        ),
    ] = False,
    prune_unused: Annotated[
        bool,
        typer.Option(
            "--prune-unused",
            metavar="",
            help="Drop heads for good that no training row of --data chooses. --validation rows say what that changes.",
        ),
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="FILE|NAME",
            help="Labelled rows, with the classifier's own labels: a file, or the training rows of a data set by name. "
            "Its budgets are trained on them.",
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget", metavar="S", rich_help_panel=ZERO_SHOT, help="Share of the heads, in (0, 1]. Default: 0.75."
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option("--rows", rich_help_panel=ZERO_SHOT, help="Rows to rank on, taken evenly. Default: 256."),
    ] = None,
    validation: t.Validation = None,
    validation_fraction: t.ValidationFraction = None,
    s_min: t.SMin = None,
    s_max: t.SMax = None,
    s_max_start: t.SMaxStart = None,
    ceiling_until: t.CeilingUntil = None,
    budget_sampling: t.BudgetSampling = None,
    alpha_max: t.AlphaMax = None,
    gate_learning_rate: t.GateLearningRate = None,
    distillation: t.Distillation = None,
    target_accuracy_drop: t.TargetAccuracyDrop = None,
    epochs: t.Epochs = None,
    max_steps: t.MaxSteps = None,
    batch_size: t.BatchSize = None,
    learning_rate: t.LearningRate = None,
    seed: t.Seed = 0,
    max_length: t.MaxLength = None,
    precision: o.TrainingPrecision = "float32",
    device: o.Device = "auto",
    eval_steps: t.EvalSteps = None,
    resume: t.Resume = False,
    overwrite: t.Overwrite = False,
    quiet: t.Quiet = False,
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
) -> None:
    o.require_share(budget, None)
    o.require_points(target_accuracy_drop)
    config = {"s_min": s_min, "s_max": s_max, "s_max_start": s_max_start, "ceiling_until": ceiling_until}
    config |= {"budget_sampling": budget_sampling, "alpha_max": alpha_max, "distillation": distillation}
    training: dict[str, Any] = {
        "validation": validation,
        "validation_fraction": validation_fraction,
        "gate_learning_rate": gate_learning_rate,
        "target_accuracy_drop": target_accuracy_drop,
        "epochs": epochs,
        "max_steps": max_steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "max_length": max_length,
        "eval_steps": eval_steps,
        "resume": resume,
        "overwrite": overwrite,
    }
    prunes = _is_pruned_only(model, prune_unused, data)
    trains = data is not None and not zero_shot and not prunes
    if prunes:
        o.refuse({"--zero-shot": zero_shot or None}, "with a BudgetFormer folder, whose budgets are there already")
    if zero_shot and data is None:
        raise ValueError("--zero-shot ranks the heads on labelled rows: give them with --data FILE")
    if data is None:
        given: dict[str, Any] = {"--data-folder": data_folder, "--text-column": text_column}
        given |= {"--pair-column": pair_column, "--label-column": label_column, "--unlabelled": unlabelled}
        given |= {"--format": format, "--no-header": no_header, "--encoding": encoding}
        given |= {"--device": None if device == "auto" else device}
        o.refuse(given | {"--quoting": quoting, "--delimiter": delimiter}, "without --data")
    if not zero_shot:
        o.refuse({"--budget": budget, "--rows": rows}, "without --zero-shot")
    if not trains:
        training |= {"validation": None} if prunes else {}
        named = {"--" + name.replace("_", "-"): value for name, value in (config | training).items()}
        named |= {"--seed": seed or None, "--precision": None if precision == "float32" else precision}
        where = "with a BudgetFormer folder, which is not trained here" if prunes else "with --zero-shot"
        o.refuse(named, "without --data, on which budgets are trained" if data is None else where)
    if validation is not None:
        o.refuse({"--validation-fraction": validation_fraction}, "with --validation")
    from .early import check_training_source
    from .libraries import quiet_libraries

    if data is not None:
        check_training_source(
            [data],
            reading={"--format": format, "--no-header": no_header, "--encoding": encoding, "--quoting": quoting}
            | {"--delimiter": delimiter},
            columns={"--text-column": text_column, "--pair-column": pair_column, "--label-column": label_column},
            validation=validation is not None,
            data_folder=data_folder,
        )
    quiet_libraries()
    reading = o.reading_of(format=format, no_header=no_header, encoding=encoding, quoting=quoting, delimiter=delimiter)
    if trains:
        from ..conversion import budget_classifier
        from .trained import report

        result = budget_classifier(
            model,
            train=data,
            output=output,
            text_column=text_column or (),
            pair_column=pair_column,
            label_column=label_column,
            reading=reading,
            unlabelled=o.unlabelled_of(unlabelled),
            data_folder=data_folder,
            config={name: value for name, value in config.items() if value is not None},
            prune_unused=prune_unused,
            seed=seed,
            precision=precision,
            device=device,
            quiet=quiet,
            **training,
        )
        if not quiet and os.environ.get("RANK", "0") == "0":
            report(result)
        return
    from tqdm.auto import tqdm

    from ..conversion import RowSource, ZeroShot, convert
    from ..conversion.converting import RANKING_ROWS, ZERO_SHOT_BUDGET
    from ..data.columns import Columns
    from .pruning import prune_folder

    asked = None
    if data is not None:
        source = RowSource(
            data=data,
            columns=Columns(text=tuple(text_column or ()), pair=pair_column, label=label_column),
            reading=reading,
            unlabelled=o.unlabelled_of(unlabelled),
            data_folder=data_folder,
        )
        if prunes:
            prune_folder(model, output=output, source=source, held_out=validation, device=device, quiet=quiet)
            return
        most = RANKING_ROWS if rows is None else rows
        asked = ZeroShot(source=source, budget=budget or ZERO_SHOT_BUDGET, most=most, prune=prune_unused)
    with tqdm(desc="Ranking heads", unit="row", leave=False, disable=quiet or not zero_shot or None) as bar:
        converted = convert(model, output=output, zero_shot=asked, device=device, progress=bar.update)
    if not quiet:
        _report(converted)


def _is_pruned_only(model: str, prune_unused: bool, data: str | None) -> bool:
    """Whether heads of a BudgetFormer are to be dropped, and nothing else. ValueError when that cannot be done."""
    if not prune_unused:
        return False
    if data is None:
        raise ValueError("--prune-unused counts what rows choose: give them with --data FILE")
    from ..model_folder import check_folder, is_model_folder

    return is_model_folder(model) and bool(check_folder(model))


def _report(result: Conversion) -> None:
    config = result.config
    kind = "classifier" if result.classifier else "encoder"
    shape = f"{config.num_hidden_layers} layers of {config.num_attention_heads} heads, width {config.hidden_size}"
    print(f"{result.family} {kind}: {shape}, at most {config.text_limit} tokens")
    if result.classifier:
        print(f"labels: {', '.join(config.id2label[i] for i in range(config.num_labels))}")
    for note in result.notes:
        print(f"note: {note}", file=sys.stderr)
    if result.rows:
        print(
            f"heads: ranked on {result.rows} rows; every layer keeps {result.heads_kept} of "
            f"{config.num_attention_heads} (budget {config.fixed_budget:g})"
            + ("" if config.kept_heads is None else "; the others are dropped for good")
        )
    else:
        print("heads: all are kept, so the answers are those of the source")
    print(f"\nModel folder: {result.output}")
    if result.classifier:
        print(f"Next: {program()} evaluate {result.output} --data FILE")
