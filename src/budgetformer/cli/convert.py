"""Turn a pretrained encoder or classifier into a BudgetFormer that answers as it did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o

if TYPE_CHECKING:
    from ..conversion import Conversion

NAME = "convert"
EXAMPLES = (
    "Examples:",
    "budgetformer convert my-classifier --output runs/mine",
    "budgetformer convert sentence-transformers/all-MiniLM-L6-v2 --output runs/minilm",
    "budgetformer convert my-classifier --output runs/cheap --zero-shot --data train.csv --budget 0.75",
    "What works: BERT, RoBERTa, XLM-RoBERTa, DistilBERT, ELECTRA and ModernBERT, in safetensors.",
)
ZERO_SHOT = "Zero-shot"


def run(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A folder, or a name of the hub: an encoder or a sequence classifier."),
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
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="FILE|NAME",
            rich_help_panel=ZERO_SHOT,
            help="Labelled rows, with the classifier's own labels: a file, or the training rows of a data set by name.",
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
    if zero_shot and data is None:
        raise ValueError("--zero-shot ranks the heads on labelled rows: give them with --data FILE")
    if not zero_shot:
        given: dict[str, Any] = {"--data": data, "--budget": budget, "--rows": rows, "--data-folder": data_folder}
        given |= {"--text-column": text_column, "--pair-column": pair_column, "--label-column": label_column}
        given |= {"--unlabelled": unlabelled, "--format": format, "--no-header": no_header, "--encoding": encoding}
        o.refuse(given | {"--quoting": quoting, "--delimiter": delimiter}, "without --zero-shot")
    from .early import check_training_source
    from .libraries import quiet_libraries

    if data is not None:
        check_training_source(
            [data],
            reading={"--format": format, "--no-header": no_header, "--encoding": encoding, "--quoting": quoting}
            | {"--delimiter": delimiter},
            columns={"--text-column": text_column, "--pair-column": pair_column, "--label-column": label_column},
            validation=False,
            data_folder=data_folder,
        )
    quiet_libraries()
    from tqdm.auto import tqdm

    from ..conversion import RowSource, ZeroShot, convert
    from ..conversion.converting import RANKING_ROWS, ZERO_SHOT_BUDGET
    from ..data.columns import Columns

    asked = None
    if data is not None:
        source = RowSource(
            data=data,
            columns=Columns(text=tuple(text_column or ()), pair=pair_column, label=label_column),
            reading=o.reading_of(
                format=format, no_header=no_header, encoding=encoding, quoting=quoting, delimiter=delimiter
            ),
            unlabelled=o.unlabelled_of(unlabelled),
            data_folder=data_folder,
        )
        asked = ZeroShot(source=source, budget=budget or ZERO_SHOT_BUDGET, most=RANKING_ROWS if rows is None else rows)
    with tqdm(desc="Ranking heads", unit="row", leave=False, disable=not zero_shot) as bar:
        result = convert(model, output=output, zero_shot=asked, progress=bar.update)
    _report(result)


def _report(result: Conversion) -> None:
    config = result.config
    kind = "classifier" if result.classifier else "encoder"
    shape = f"{config.num_hidden_layers} layers of {config.num_attention_heads} heads, width {config.hidden_size}"
    print(f"{result.family} {kind}: {shape}, at most {config.text_limit} tokens")
    if result.classifier:
        print(f"labels: {', '.join(config.id2label[i] for i in range(config.num_labels))}")
    for note in result.notes:
        print(f"note: {note}")
    if result.rows:
        print(
            f"heads: ranked on {result.rows} rows; every layer keeps {result.heads_kept} of "
            f"{config.num_attention_heads} (budget {config.fixed_budget:g})"
        )
    else:
        print("heads: all are kept, so the answers are those of the source")
    print(f"\nModel folder: {result.output}")
    if result.classifier:
        print(f"Next: budgetformer evaluate {result.output} --data FILE")
