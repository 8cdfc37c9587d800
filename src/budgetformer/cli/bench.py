"""Measure the speed of a model, side by side with a dense BERT of the same shape."""

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
)


def run(
    folder: o.Folder,
    data: Annotated[str, typer.Option("--data", metavar="FILE|NAME", help="Texts: a file, or a data set by name.")],
    split: Annotated[
        str | None, typer.Option("--split", metavar="train|validation|test", help="Of a data set. Default: test.")
    ] = None,
    data_folder: o.DataFolder = None,
    rows: Annotated[int, typer.Option("--rows", metavar="N", help="Texts, taken evenly from the whole.")] = 256,
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", help="Timed rounds; in each, every candidate runs once.")
    ] = 5,
    batch_size: Annotated[int, typer.Option("--batch-size", metavar="N", help="Of those that we compare with.")] = 32,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            metavar="dense,hf,onnxruntime",
            help="Compare with: our own execution that computes all heads, a BERT of this shape in transformers, the "
            "same in ONNX Runtime. Separate by commas; none for nothing.",
        ),
    ] = "dense,hf,onnxruntime",
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
        int, typer.Option("--latency-texts", metavar="N", help="Texts that are also sent one by one; 0 for none.")
    ] = 64,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all figures.")] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE", help="Draw speed by heads (.png, .svg, .pdf).")
    ] = None,
    text_column: o.TextColumn = None,
    pair_column: o.PairColumn = None,
    format: o.Format = None,
    no_header: o.NoHeader = False,
    encoding: o.Encoding = None,
    quoting: o.Quoting = None,
    delimiter: o.Delimiter = None,
    device: o.Device = "auto",
) -> None:
    if figure is not None and figure.suffix.lower() not in PICTURES:
        raise ValueError(f"--figure {figure}: a picture is written as {', '.join(PICTURES)}; choose one of these")
    if rows < 1:
        raise ValueError(f"--rows must be at least 1, got {rows}")
    from .early import check_inputs
    from .writing import check_target, write_json

    formats = list(dict.fromkeys(precision or ["float32"]))
    if "auto" in formats:
        raise ValueError("--precision auto has no effect in a bench: name the formats that are to be measured")
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
    from ..bench import BenchSettings, StageBar, bench
    from ..bench.report import bench_figure, bench_table, short_table
    from ..data.columns import Columns
    from ..reporting.results import environment
    from .models import load_classifier
    from .sources import texts_of
    from .tables import show_widest

    settings = BenchSettings(
        precisions=formats,
        against=compared,
        batch_size=batch_size,
        rounds=rounds,
        latency_texts=latency_texts,
    )
    wanted = [*formats, *(["float32"] if "dense" in settings.against and "float32" not in formats else [])]
    classifiers = {p: load_classifier(folder, device=device, precision=p, execution="auto") for p in wanted}
    texts = texts_of(
        data,
        config=next(iter(classifiers.values())).config,
        asked=Columns(text=tuple(text_column or ()), pair=pair_column),
        reading=reading,
        split=split,
        data_folder=data_folder,
        rows=rows,
    )
    with StageBar() as bar:
        result = bench(classifiers, texts, settings, progress=bar)
    if not show_widest([bench_table(result).to_rich(), short_table(result).to_rich()]):
        print("labels: the same as those of the float32 reference. A wider terminal shows more figures, --json all.")
    for line in (*result.notes, *(f"{name}: not measured. {why}" for name, why in result.skipped.items())):
        print(line)
    if json_file is not None:
        write_json(json_file, {"model": str(folder), "data": data} | asdict(result) | environment())
        print(f"figures: {json_file}")
    if figure is not None:
        bench_figure(result).savefig(figure, dpi=150)
        print(f"picture: {figure}")
