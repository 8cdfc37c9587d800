"""Write a model for other programs: an ONNX file, or a folder that carries its own code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o

if TYPE_CHECKING:
    from ..answers import Pair
    from ..exporting import OnnxExport

NAME = "export"
FORMATS = ("onnx", "hub")
EXAMPLES = (
    "Examples:",
    "budgetformer export runs/news --format onnx --output exported/news.onnx",
    "budgetformer export runs/news --format onnx --output exported/news-2.onnx --budget 0.25 --data news.csv",
    "budgetformer export runs/news --format hub --output exported/news",
)


def run(
    folder: o.Folder,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="onnx|hub",
            help="onnx: one file for ONNX Runtime. hub: a folder for transformers that needs no budgetformer.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", metavar="FILE|DIR", help="The .onnx file, beside which the tokenizer goes; or a folder."
        ),
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", metavar="", help="Replace an .onnx file.")] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="S",
            parser=o.share,
            rich_help_panel=o.BUDGET,
            help="onnx: the same heads for every text, this share of each layer; the others are cut out of the file. "
            "Needs --data. Default: the graph chooses for each text and computes all heads.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="FILE|NAME",
            help="onnx: texts on which the file is checked too, and from which --budget chooses heads.",
        ),
    ] = None,
    rows: Annotated[
        int | None, typer.Option("--rows", metavar="N", help="Texts of --data, taken evenly. Default: 512.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="train|validation|test", help="Of a data set. Default: test.")
    ] = None,
    data_folder: o.DataFolder = None,
    text_column: o.TextColumn = None,
    pair_column: o.PairColumn = None,
    data_format: Annotated[
        str | None,
        typer.Option(
            "--data-format",
            metavar="csv|tsv|jsonl|parquet",
            rich_help_panel=o.FORMAT,
            help="Of --data. Default: by the file's extension.",
        ),
    ] = None,
    no_header: o.NoHeader = False,
    encoding: o.Encoding = None,
    quoting: o.Quoting = None,
    delimiter: o.Delimiter = None,
) -> None:
    if format not in FORMATS:
        raise ValueError(f"--format must be one of {', '.join(FORMATS)}, got {format!r}")
    o.require_share(budget, None)
    of_data: dict[str, Any] = {"--rows": rows, "--split": split, "--data-folder": data_folder}
    of_data |= {"--text-column": text_column, "--pair-column": pair_column, "--data-format": data_format}
    of_data |= {"--no-header": no_header, "--encoding": encoding, "--quoting": quoting, "--delimiter": delimiter}
    if format == "hub":
        o.refuse({"--budget": budget, "--data": data, "--overwrite": overwrite} | of_data, "with --format hub")
        _hub(folder, output)
        return
    if data is None:
        o.refuse(of_data, "without --data")
        if budget is not None:
            raise ValueError(
                f"--budget {budget} chooses the heads by their relevance on your texts: give --data FILE too"
            )
    if rows is not None and rows < 1:
        raise ValueError(f"--rows must be at least 1, got {rows}")
    from .early import check_inputs

    reading = o.reading_of(
        format=data_format, no_header=no_header, encoding=encoding, quoting=quoting, delimiter=delimiter
    )
    check_inputs(folder, data, reading)
    from ..exporting import export_onnx
    from ..exporting.graph import require_onnx
    from ..exporting.onnx_file import check_onnx_output
    from ..model_folder import load_config
    from .libraries import quiet_libraries

    quiet_libraries()
    require_onnx()
    check_onnx_output(folder, output, overwrite=overwrite)
    texts: list[str | Pair] = []
    if data is not None:
        from ..data.columns import Columns
        from .sources import texts_of

        texts = texts_of(
            data,
            config=load_config(folder),
            asked=Columns(text=tuple(text_column or ()), pair=pair_column),
            reading=reading,
            split=split,
            data_folder=data_folder,
            rows=rows or 512,
        )
    _report(export_onnx(folder, output, budget=budget, texts=texts, overwrite=overwrite))


def _hub(folder: Path, output: Path) -> None:
    from ..model_folder import check_folder

    check_folder(folder)
    from ..exporting import export_hub
    from .libraries import quiet_libraries

    quiet_libraries()
    done = export_hub(folder, output)
    print(f"folder: {done.folder} ({', '.join(done.files)})")
    print(f"checked: its own code gives the same logits on {done.inputs} inputs")
    print('load it with transformers alone: pipeline("text-classification", model=…, trust_remote_code=True)')


def _report(done: OnnxExport) -> None:
    checked = done.checked
    print(f"file: {done.file} ({done.bytes / 1e6:.1f} MB); tokenizer: {', '.join(f.name for f in done.tokenizer)}")
    choices = f" with {checked.head_sets} different choices of heads" if checked.head_sets > 1 else ""
    print(
        f"checked: {checked.inputs} inputs{choices} in ONNX Runtime, largest difference of a logit "
        f"{checked.difference:.1e}"
    )
    if done.sets is None:
        print("heads: as the model chooses them for each text; the graph computes all of them, so no work is saved")
        return
    for layer, heads in enumerate(done.sets.kept):
        print(f"layer {layer}: heads {' '.join(map(str, heads)) or 'none'}")
    print(
        f"labels: {done.sets.same_labels:.1%} of {done.sets.texts} texts get the label that the model gives with its "
        "own choice"
    )
