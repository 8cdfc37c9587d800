"""Measure the speed of a model beside a dense BERT of its shape, or its accuracy at every budget (--curve)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from . import options as o

NAME = "bench"
AGAINST = ("dense", "hf", "onnxruntime")
PICTURES = (".png", ".svg", ".pdf")
EXAMPLES = (
    "Examples:",
    "budgetformer bench runs/news --data test.csv",
    "budgetformer bench runs/news --data test.csv --precision float32 --precision int8 --figure speed.png",
    "budgetformer bench runs/ag --data ag_news --rows 1000 --against hf --json bench.json",
    "budgetformer bench runs/news --data validation.csv --curve --figure curve.png --card",
    "budgetformer bench runs/news --data validation.csv --curve --target-accuracy-drop 0.5 --set-default",
)
CURVE = "Curve of budgets"


def run(
    folder: o.Folder,
    data: Annotated[str, typer.Option("--data", metavar="FILE|NAME", help="Texts: a file, or a data set by name.")],
    split: Annotated[
        str | None, typer.Option("--split", metavar="train|validation|test", help="Of a data set. Default: test.")
    ] = None,
    data_folder: o.DataFolder = None,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows", metavar="N", help="Texts, taken evenly from the whole. Default: 256; with --curve all of them."
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", metavar="N", help="Timed rounds; in each, every candidate runs once. Default: 5."),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", metavar="N", help="Of those that we compare with. Default: 32.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="dense,hf,onnxruntime",
            help="Compare with: our own execution that computes all heads, a BERT of this shape in transformers, the "
            "same in ONNX Runtime. Separate by commas; none for nothing. Default: all three.",
        ),
    ] = None,
    precision: Annotated[
        list[str] | None,
        typer.Option(
            "--precision",
            metavar="float32|bf16|int8",
            rich_help_panel=o.RUNNING,
            help="Number formats to measure (repeat for several). Default: float32.",
        ),
    ] = None,
    latency_texts: Annotated[
        int | None,
        typer.Option(
            "--latency-texts", metavar="N", help="Texts that are also sent one by one; 0 for none. Default: 64."
        ),
    ] = None,
    curve: Annotated[
        bool,
        typer.Option(
            "--curve",
            metavar="",
            rich_help_panel=CURVE,
            help="In place of speed: accuracy and work of labelled rows at 1, 2, … heads, learned and random ones, and "
            "at the model's own budgets.",
        ),
    ] = False,
    target_accuracy_drop: Annotated[
        float | None,
        typer.Option(
            "--target-accuracy-drop",
            metavar="POINTS",
            parser=o.points,
            rich_help_panel=CURVE,
            help="Name the smallest budget that loses at most so many percentage points of accuracy, such as 0.5; of a "
            "data set the validation rows are used.",
        ),
    ] = None,
    set_default: Annotated[
        bool,
        typer.Option(
            "--set-default", metavar="", rich_help_panel=CURVE, help="Make that budget the folder's (config.json)."
        ),
    ] = False,
    card: Annotated[
        bool,
        typer.Option(
            "--card",
            metavar="",
            rich_help_panel=CURVE,
            help="Keep the curve and its picture in the folder's model card; replaces an earlier curve there.",
        ),
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all figures.")] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE", help="Draw speed by heads (.png, .svg, .pdf).")
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
    device: o.Device = "auto",
    batch_tokens: o.BatchTokens = None,
    threads: o.Threads = None,
    max_length: o.CutAt = None,
) -> None:
    if figure is not None and figure.suffix.lower() not in PICTURES:
        raise ValueError(f"--figure {figure}: a picture is written as {', '.join(PICTURES)}; choose one of these")
    if rows is not None and rows < 1:
        raise ValueError(f"--rows must be at least 1, got {rows}")
    o.require_points(target_accuracy_drop)
    from .running import Running

    running = Running(batch_tokens=batch_tokens, threads=threads, max_length=max_length)
    formats = list(dict.fromkeys(precision or ["float32"]))
    if curve:
        of_speed = {"--rounds": rounds, "--batch-size": batch_size, "--against": against}
        o.refuse(of_speed | {"--latency-texts": latency_texts}, "with --curve, which measures accuracy")
        if len(formats) > 1:
            raise ValueError(f"--curve takes one --precision, got {', '.join(formats)}")
        if card or set_default:
            o.refuse({"--max-length": max_length}, "with --card or --set-default, which describe the model as it is")
        if target_accuracy_drop is None:
            o.refuse({"--set-default": set_default}, "without --target-accuracy-drop, which chooses the budget")
    else:
        of_curve = {"--target-accuracy-drop": target_accuracy_drop, "--set-default": set_default, "--card": card}
        o.refuse(of_curve | {"--label-column": label_column, "--unlabelled": unlabelled}, "without --curve")
    from .early import check_inputs
    from .writing import check_target, write_figure, write_json

    if "auto" in formats:
        raise ValueError("--precision auto has no effect in a bench: name the formats that are to be measured")
    against = ",".join(AGAINST) if against is None else against
    compared = () if against == "none" else tuple(name.strip() for name in against.split(",") if name.strip())
    for name in compared:
        if name not in AGAINST:
            raise ValueError(f"--against must name some of {', '.join(AGAINST)}, or be none, got {name!r}")
    reading = o.reading_of(format=format, no_header=no_header, encoding=encoding, quoting=quoting, delimiter=delimiter)
    inputs = check_inputs(folder, data, reading)
    for target in (json_file, figure):
        if target is not None:
            check_target(target, inputs=inputs)
            inputs.append(target)
    if curve:
        from .bench_curve import check_writes, split_of

        check_writes(folder, card=card, set_default=set_default)
        split_of(data, split, target=target_accuracy_drop)
    from ..data.columns import Columns

    asked = Columns(text=tuple(text_column or ()), pair=pair_column, label=label_column)
    if curve:
        from .bench_curve import CurveOptions, run_curve

        run_curve(
            CurveOptions(
                folder=folder,
                data=data,
                split=split,
                data_folder=data_folder,
                columns=asked,
                reading=reading,
                unlabelled=o.unlabelled_of(unlabelled),
                rows=rows,
                device=device,
                precision=formats[0],
                running=running,
                target=target_accuracy_drop,
                card=card,
                set_default=set_default,
                json_file=json_file,
                figure=figure,
            )
        )
        return
    from ..bench import BenchSettings, StageBar, bench
    from ..bench.report import bench_figure, bench_table, short_table
    from ..reporting.results import environment
    from .models import load_classifier
    from .sources import texts_of
    from .tables import show_widest

    settings = BenchSettings(
        precisions=formats,
        against=compared,
        batch_size=32 if batch_size is None else batch_size,
        rounds=5 if rounds is None else rounds,
        latency_texts=64 if latency_texts is None else latency_texts,
    )
    wanted = [*formats, *(["float32"] if "dense" in settings.against and "float32" not in formats else [])]
    classifiers = {
        p: load_classifier(folder, device=device, precision=p, execution="auto", running=running) for p in wanted
    }
    config = next(iter(classifiers.values())).config
    texts = texts_of(
        data,
        config=config,
        asked=asked,
        reading=reading,
        split=split,
        data_folder=data_folder,
        rows=256 if rows is None else rows,
    )
    with StageBar() as bar:
        result = bench(classifiers, texts, settings, progress=bar)
    if not show_widest([bench_table(result).to_rich(), short_table(result).to_rich()]):
        print("labels: the same as those of the float32 reference. A wider terminal shows more figures, --json all.")
    for line in (*result.notes, *(f"{name}: not measured. {why}" for name, why in result.skipped.items())):
        print(line)
    if json_file is not None:
        write_json(
            json_file,
            {"model": str(folder), "data": data, "max_length": config.text_limit} | asdict(result) | environment(),
        )
        print(f"figures: {json_file}")
    if figure is not None:
        write_figure(figure, bench_figure(result))
        print(f"picture: {figure}")
