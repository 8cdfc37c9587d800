"""Options that several commands share, and what the columns and the file format are made of."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..data.files import Reading

COLUMNS, FORMAT, BUDGET, RUNNING, ENERGY = "Columns", "File format", "Heads", "Running", "Energy"

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A model folder, as budgetformer train writes it.")]
TextColumn = Annotated[
    list[str] | None,
    typer.Option(
        "--text-column",
        metavar="NAME",
        rich_help_panel=COLUMNS,
        help="Column of the text; several are joined by line ends.",
    ),
]
PairColumn = Annotated[
    str | None,
    typer.Option(
        "--pair-column", metavar="NAME", rich_help_panel=COLUMNS, help="Column of the second text, for pairs."
    ),
]
LabelColumn = Annotated[
    str | None, typer.Option("--label-column", metavar="NAME", rich_help_panel=COLUMNS, help="Column of the label.")
]
Unlabelled = Annotated[
    list[str] | None,
    typer.Option(
        "--unlabelled",
        metavar="TEXT",
        rich_help_panel=COLUMNS,
        help="A spelling that means 'no label' (repeat for several), or keep: every spelling is a class. "
        "Default: '-', and -1 beside whole numbers.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="csv|tsv|jsonl|parquet", rich_help_panel=FORMAT, help="Default: by the file's extension."
    ),
]
NoHeader = Annotated[
    bool,
    typer.Option(
        "--no-header", metavar="", rich_help_panel=FORMAT, help="The first line is a record; columns are called 0, 1, …"
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", rich_help_panel=FORMAT, help="Of csv, tsv, jsonl. Default: utf-8."),
]
Quoting = Annotated[
    str | None,
    typer.Option(
        "--quoting",
        metavar="csv|none",
        rich_help_panel=FORMAT,
        help="Whether quote marks enclose cells. Default: csv for csv, none for tsv.",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter", metavar="CHAR", rich_help_panel=FORMAT, help=r"One character, \t for a tab. Default: by format."
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data-folder",
        metavar="DIR",
        help="Where the named data sets lie, one folder each. Default: $BUDGETFORMER_DATA, else the hub.",
    ),
]


def share(text: str) -> float:
    """A number; what looks like a percentage is answered with the share that it means."""
    try:
        return float(text)
    except ValueError:
        percent = text.strip().removesuffix("%").strip()
    try:
        hint = f"; for {percent} % give {float(percent) / 100:g}"
    except ValueError:
        hint = ", such as 0.25 for a quarter of the heads"
    raise typer.BadParameter(f"{text!r} is not a share in (0, 1]{hint}")


def points(text: str) -> float:
    """A number of percentage points; what has a percent sign is answered with the number."""
    try:
        return float(text)
    except ValueError:
        number = text.strip().removesuffix("%").strip()
    try:
        hint = f"; give {float(number):g}"
    except ValueError:
        hint = "; give 0.5 for half a point"
    raise typer.BadParameter(f"{text!r} is no number of percentage points{hint}")


Budget = Annotated[
    float | None,
    typer.Option(
        "--budget", metavar="S", parser=share, rich_help_panel=BUDGET, help="Use this share of the heads, in (0, 1]."
    ),
]
MaxBudget = Annotated[
    float | None,
    typer.Option(
        "--max-budget", metavar="S", parser=share, rich_help_panel=BUDGET, help="Use at most this share of the heads."
    ),
]
Device = Annotated[
    str, typer.Option("--device", metavar="auto|cpu|cuda|cuda:N", rich_help_panel=RUNNING, help="Where to compute.")
]
Precision = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="float32|bf16|int8|auto",
        rich_help_panel=RUNNING,
        help="Number format. int8: fastest on most CPUs. auto: measures and takes the fastest.",
    ),
]
Fsdp = Annotated[
    bool,
    typer.Option(
        "--fsdp",
        metavar="",
        rich_help_panel=RUNNING,
        help="The GPUs of torchrun share the model (FSDP) instead of each holding it.",
    ),
]
TrainingPrecision = Annotated[
    str, typer.Option("--precision", metavar="float32|bf16", rich_help_panel=RUNNING, help="Number format.")
]
Execution = Annotated[
    str,
    typer.Option(
        "--execution",
        metavar="auto|packed|cuda|reference",
        rich_help_panel=RUNNING,
        help="How attention is computed: packed skips heads, cuda too (bf16, GPU), reference computes all and masks.",
    ),
]
BatchTokens = Annotated[
    int | None,
    typer.Option(
        "--batch-tokens", metavar="N", rich_help_panel=RUNNING, help="Padded tokens in a batch at most. Default: 4096."
    ),
]
CutAt = Annotated[
    int | None,
    typer.Option(
        "--max-length",
        metavar="N",
        rich_help_panel=RUNNING,
        help="Cut texts to N tokens, up to the model's positions. Default: as in its training.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", metavar="N", rich_help_panel=RUNNING, help="Of the CPU. Default: all cores, or $OMP_NUM_THREADS."
    ),
]

Energy = Annotated[
    bool,
    typer.Option(
        "--energy",
        metavar="",
        rich_help_panel=ENERGY,
        help="Joules and grams of CO2e per 1,000 texts: measured by CodeCarbon where it may, else a marked estimate.",
    ),
]
Watts = Annotated[
    float | None,
    typer.Option("--watts", metavar="W", rich_help_panel=ENERGY, help="Use this mean power in place of a meter."),
]
GridIntensity = Annotated[
    float | None,
    typer.Option(
        "--grid-intensity",
        metavar="G",
        rich_help_panel=ENERGY,
        help="Grams of CO2e per kWh of your electricity. Default: the world average, 475.",
    ),
]
Region = Annotated[
    str | None,
    typer.Option(
        "--region", metavar="ISO", rich_help_panel=ENERGY, help="Or the country, in three letters such as FRA."
    ),
]


def reading_of(
    *, format: str | None, no_header: bool, encoding: str | None, quoting: str | None, delimiter: str | None
) -> Reading:
    """The file format that the options describe."""
    from ..data.files import Reading

    return Reading(
        format=format,
        header=not no_header,
        quoting=quoting,
        delimiter="\t" if delimiter == "\\t" else delimiter,
        encoding=encoding or "utf-8",
    )


def unlabelled_of(spellings: list[str] | None) -> str | list[str] | None:
    """The setting that ``data.labels`` takes."""
    others = [text for text in spellings or () if text != "keep"]
    if spellings and 0 < len(others) < len(spellings):
        raise ValueError(
            f"--unlabelled keep makes every spelling a class, but {others[0]!r} was to mean none; give one"
        )
    return "keep" if spellings == ["keep"] else spellings or None


def refuse(options: dict[str, Any], why: str) -> None:
    """Raise ValueError for the first option that was given though it has no effect. Keys are option names."""
    for name, value in options.items():
        if value is not None and value is not False and value != []:
            raise ValueError(f"{name} has no effect {why}; leave it out")


def require_share(budget: float | None, max_budget: float | None) -> None:
    """Refuse budgets outside (0, 1], and both together, before anything is loaded."""
    for name, value in (("--budget", budget), ("--max-budget", max_budget)):
        if value is not None and not 0 < value <= 1:
            percent = f"; for {value:g} % give {value / 100:g}" if 1 < value <= 100 else ""
            raise ValueError(f"{name} must lie in (0, 1], got {value}{percent}")
    if budget is not None and max_budget is not None:
        raise ValueError(f"give --budget ({budget}) or --max-budget ({max_budget}), not both")


def require_points(drop: float | None) -> None:
    """Refuse a loss of accuracy that is none, and say the unit."""
    if drop is not None and not 0 <= drop < 100:
        raise ValueError(
            f"--target-accuracy-drop is in percentage points, from 0 to below 100 (0.5 is half a point), got {drop}"
        )


def require_energy(asked: bool, *, watts: float | None, grid_intensity: float | None, region: str | None) -> None:
    """Refuse options of the energy meter that are out of range or have no effect, before anything is loaded."""
    if not asked:
        refuse({"--watts": watts, "--grid-intensity": grid_intensity, "--region": region}, "without --energy")
    if watts is not None and not 0 < watts < math.inf:
        raise ValueError(f"--watts must be above 0, got {watts}")
    if grid_intensity is not None and not 0 <= grid_intensity < math.inf:
        raise ValueError(f"--grid-intensity must be 0 or above, got {grid_intensity}")
    if grid_intensity is not None and region is not None:
        raise ValueError(f"give --grid-intensity ({grid_intensity}) or --region ({region}), not both")
