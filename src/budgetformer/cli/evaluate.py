"""Measure a model on labelled rows: accuracy, heads and cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o

if TYPE_CHECKING:
    from ..inference import Classifier

NAME = "evaluate"
CLASSES_SHOWN = 30
EXAMPLES = (
    "Examples:",
    "budgetformer evaluate runs/news --data test.csv --json figures.json",
    "budgetformer evaluate runs/news --data test.csv --max-budget 0.25 --errors wrong.csv",
    "budgetformer evaluate runs/ag --data ag_news --split test",
    "budgetformer evaluate runs/news --data test.csv --energy --region FRA",
)


def run(
    folder: o.Folder,
    data: Annotated[
        str, typer.Option("--data", metavar="FILE|NAME", help="Labelled rows: a file, or a data set by name.")
    ],
    split: Annotated[
        str | None, typer.Option("--split", metavar="train|validation|test", help="Of a data set. Default: test.")
    ] = None,
    data_folder: o.DataFolder = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write all figures, with the confusion matrix; replaces FILE."),
    ] = None,
    errors: Annotated[
        Path | None,
        typer.Option(
            "--errors",
            metavar="FILE",
            help="Write the rows that the model got wrong (.csv, .tsv, .jsonl); replaces FILE.",
        ),
    ] = None,
    text_column: o.TextColumn = None,
    pair_column: o.PairColumn = None,
    label_column: o.LabelColumn = None,
    unlabelled: o.Unlabelled = None,
    format: o.Format = None,
    no_header: o.NoHeader = False,
    encoding: o.Encoding = None,
    quoting: o.Quoting = None,
    delimiter: o.Delimiter = None,
    budget: o.Budget = None,
    max_budget: o.MaxBudget = None,
    execution: o.Execution = "auto",
    precision: o.Precision = "float32",
    device: o.Device = "auto",
    batch_tokens: o.BatchTokens = None,
    threads: o.Threads = None,
    max_length: o.CutAt = None,
    agreement: Annotated[
        bool,
        typer.Option(
            "--agreement/--no-agreement",
            metavar="",
            rich_help_panel=o.RUNNING,
            help="With another format than float32: answer once more in float32, say its accuracy and how much agrees.",
        ),
    ] = True,
    energy: o.Energy = False,
    watts: o.Watts = None,
    grid_intensity: o.GridIntensity = None,
    region: o.Region = None,
) -> None:
    o.require_share(budget, max_budget)
    from .running import Running

    running = Running(batch_tokens=batch_tokens, threads=threads, max_length=max_length)
    o.require_energy(energy, watts=watts, grid_intensity=grid_intensity, region=region)
    from ..metering.grid import grid
    from .early import check_inputs
    from .rows import error_writer, kind_of
    from .writing import check_target, write_json

    grid(grams_per_kwh=grid_intensity, region=region)  # a region that is not known is refused before the work
    reading = o.reading_of(format=format, no_header=no_header, encoding=encoding, quoting=quoting, delimiter=delimiter)
    if errors is not None:
        kind_of(errors)
    inputs = check_inputs(folder, data, reading)
    if errors is not None:
        check_target(errors, inputs=inputs)
    if json_file is not None:
        check_target(json_file, inputs=inputs if errors is None else [*inputs, errors])
    from contextlib import nullcontext

    from ..data.columns import Columns
    from ..evaluation import evaluate
    from ..metering.carbon import EnergyMeter
    from .models import effective_budgets, load_classifier
    from .seen import seen_in_training
    from .sources import labelled_rows

    classifier = load_classifier(folder, device=device, precision=precision, execution=execution, running=running)
    request = effective_budgets(classifier, budget=budget, max_budget=max_budget)
    rows = labelled_rows(
        data,
        config=classifier.config,
        asked=Columns(text=tuple(text_column or ()), pair=pair_column, label=label_column),
        reading=reading,
        split=split,
        unlabelled=o.unlabelled_of(unlabelled),
        data_folder=data_folder,
    )
    place = classifier.model.device
    meter = EnergyMeter(device=place, watts=watts, grams_per_kwh=grid_intensity, region=region) if energy else None
    with error_writer(errors, pairs="pair" in rows.dataset.features) as on_mistake, meter or nullcontext():
        measured = evaluate(classifier, rows.dataset, **request, on_mistake=on_mistake, progress=True)
    compared = None
    if agreement and classifier.precision.name != "float32":
        from ..agreement import agreement as compare

        plain = load_classifier(
            folder, device=device, precision="float32", execution=execution_of(execution), running=running
        )
        compared = compare(classifier, plain, rows.dataset, **request, progress=True)
    seen = seen_in_training(folder, data, split=split)
    figures = measured.figures | {"agreement": compared, "data": rows.source, "seen_in_training": seen}
    figures["max_length"] = classifier.config.text_limit
    exact = classifier.precision.name == "float32"
    figures["accuracy_float32"] = measured.figures["accuracy"] if exact else (compared or {}).get("accuracy_float32")
    figures |= paper_figures(classifier, measured.figures)
    if meter is not None:
        figures["energy"] = meter.energy.row(figures["rows"])
    if json_file is not None:
        write_json(json_file, figures)
    _report(classifier, figures)
    if seen is not None:
        print(f"note: {seen}")
    if meter is not None:
        print(f"energy: {meter.energy.describe(figures['rows'])}")
    if json_file is not None:
        print(f"figures: {json_file}")
    if errors is not None:
        wrong = figures["rows"] - sum(row[i] for i, row in enumerate(figures["confusion"]))
        print(f"errors: {errors} ({wrong:,} of {figures['rows']:,} rows)")


def execution_of(asked: str) -> str:
    """What float32 takes where another format took ``asked``: the GPU's half-precision path has no float32."""
    return "auto" if asked == "cuda" else asked


def paper_figures(classifier: Classifier, figures: dict[str, Any]) -> dict[str, float]:
    """Multiply-adds per text as arXiv 2604.22583 counts them, at the model's padded length."""
    from ..metering.macs import paper_macs

    config = classifier.config
    length = config.text_limit
    full = paper_macs(config, length=length, rows=1)
    used = paper_macs(config, length=length, rows=1, budget=figures["mean_budget"]) if config.budgeted else full
    return {"paper_macs": used, "paper_macs_dense": full}


def _report(classifier: Classifier, figures: dict[str, Any]) -> None:
    from .tables import figures_table, show, table

    config = classifier.config
    per_layer = ", ".join(f"{heads:.2f}" for heads in figures["heads_per_layer"])
    asked = next(
        (f" ({name} {figures[key]:.7g})" for name, key in _ASKED if figures[key] is not None),
        "" if config.budgeted else " (full attention)",
    )
    rows = [
        ("accuracy", f"{figures['accuracy']:.4f}"),
        ("macro-F1", f"{figures['macro_f1']:.4f}"),
        ("rows scored", f"{figures['rows']:,}"),
        ("rows without label, left out", f"{figures['rows_without_label']:,}"),
        ("texts cut / without tokens", f"{figures['truncated']:,} / {figures['without_tokens']:,}"),
        ("heads per layer and text", f"{figures['mean_heads']:.2f} of {config.num_attention_heads}{asked}"),
        ("heads by layer", per_layer),
        ("mean budget", f"{figures['mean_budget']:.3f} (share of heads, rounded down for each text and layer)"),
        ("multiply-adds per text, executed", _share(figures["macs"], figures["macs_dense"], "with all heads")),
        (
            f"the paper's accounting (attention only, padded to {config.text_limit})",
            _share(figures["paper_macs"], figures["paper_macs_dense"], "with full attention"),
        ),
        ("texts per second", f"{figures['texts_per_second']:,.1f} ({figures['execution']}, {figures['precision']})"),
    ]
    if figures["agreement"] is not None:
        same = figures["agreement"]
        rows.insert(1, ("accuracy in float32", f"{figures['accuracy_float32']:.4f}"))
        rows.append(("same labels as float32", f"{same['labels']:.2%}"))
        heads = f"{same['heads']:.2%} of the choices, {same['head_sets']:.1%} of the sets of a layer"
        rows += [("same heads as float32", heads)] if config.budgeted else []
    show(figures_table(figures["data"], rows))
    names, cells = ("class", "precision", "recall", "rows"), class_rows(figures["labels"], figures["confusion"])
    show(table("By class", names, cells[:CLASSES_SHOWN]))
    if len(cells) > CLASSES_SHOWN:
        print(f"{len(cells) - CLASSES_SHOWN:,} more classes; --json has them all in its confusion matrix")


def class_rows(labels: list[str], confusion: list[list[int]]) -> list[tuple[str, str, str, str]]:
    """Class, precision, recall and rows, in label order; a dash where nothing was answered or asked."""
    answered = [sum(column) for column in zip(*confusion, strict=True)]
    return [
        (
            " ".join(label.split()),
            f"{row[i] / answered[i]:.3f}" if answered[i] else "–",
            f"{row[i] / sum(row):.3f}" if sum(row) else "–",
            f"{sum(row):,}",
        )
        for i, (label, row) in enumerate(zip(labels, confusion, strict=True))
    ]


_ASKED = (("asked: budget", "budget"), ("asked: at most", "max_budget"), ("the folder's default:", "default_budget"))


def _share(used: float, full: float, what: str) -> str:
    from .tables import millions

    return f"{millions(used)} of {millions(full)} {what} ({used / full:.1%})" if full else millions(used)
