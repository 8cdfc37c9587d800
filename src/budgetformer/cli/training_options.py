"""Options of the commands that train: how heads are learned, how long, and how a run is stopped and gone on with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import BUDGET, RUNNING, points

MODEL, OPTIMISATION = "Model", "Optimisation"

Validation = Annotated[
    Path | None,
    typer.Option("--validation", metavar="FILE", help="Default: rows set aside from the training data."),
]
ValidationFraction = Annotated[
    float | None,
    typer.Option("--validation-fraction", metavar="X", help="Share of the rows to set aside. Default: 0.1."),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="MODEL",
        rich_help_panel=MODEL,
        help="Begin with a pretrained encoder or classifier (folder or hub name): first all heads, then budgets.",
    ),
]
SMin = Annotated[
    float | None,
    typer.Option(
        "--s-min",
        metavar="X",
        rich_help_panel=BUDGET,
        help="Least mean share of heads wanted. Default: 0.1; from a pretrained model 0.25.",
    ),
]
SMax = Annotated[
    float | None,
    typer.Option(
        "--s-max",
        metavar="X",
        rich_help_panel=BUDGET,
        help="Largest mean share of heads wanted. Default: 0.3; from a pretrained model 0.35.",
    ),
]
SMaxStart = Annotated[
    float | None,
    typer.Option(
        "--s-max-start", metavar="X", rich_help_panel=BUDGET, help="Begin with this --s-max, and come down to it."
    ),
]
CeilingUntil = Annotated[
    float | None,
    typer.Option(
        "--ceiling-until",
        metavar="SHARE",
        rich_help_panel=BUDGET,
        help="Share of the training (of the budgets) in which --s-max-start comes down. Default: 0.6; "
        "from a pretrained model 0.4.",
    ),
]
BudgetSampling = Annotated[
    float | None,
    typer.Option(
        "--budget-sampling",
        metavar="X",
        rich_help_panel=BUDGET,
        help="Share of rows trained at a random number of heads.",
    ),
]
AlphaMax = Annotated[
    float | None,
    typer.Option(
        "--alpha-max", metavar="X", rich_help_panel=BUDGET, help="Weight of the interval at the end of training."
    ),
]
GateLearningRate = Annotated[
    float | None,
    typer.Option(
        "--gate-learning-rate",
        metavar="X",
        rich_help_panel=BUDGET,
        help="Of the nets f and g. Default: --learning-rate; 20 times that for a pretrained model.",
    ),
]
Distillation = Annotated[
    float | None,
    typer.Option(
        "--distillation",
        metavar="WEIGHT",
        rich_help_panel=BUDGET,
        help="Of the answers that a pretrained model gave with all heads. 0: none. Default: 1.",
    ),
]
DenseShare = Annotated[
    float | None,
    typer.Option(
        "--dense-share",
        metavar="SHARE",
        rich_help_panel=BUDGET,
        help="With --from: updates with all heads first. Default: a third.",
    ),
]
TargetAccuracyDrop = Annotated[
    float | None,
    typer.Option(
        "--target-accuracy-drop",
        metavar="POINTS",
        parser=points,
        rich_help_panel=BUDGET,
        help="After training, make the smallest budget that loses at most so many percentage points of accuracy on the "
        "validation rows the folder's default, such as 0.5 for half a point.",
    ),
]
Epochs = Annotated[
    float | None,
    typer.Option(
        "--epochs",
        metavar="X",
        rich_help_panel=OPTIMISATION,
        help="Default: the preset's; 2 in convert, 3 with --from.",
    ),
]
MaxSteps = Annotated[
    int | None,
    typer.Option("--max-steps", metavar="N", rich_help_panel=OPTIMISATION, help="Updates, instead of --epochs."),
]
BatchSize = Annotated[
    int | None,
    typer.Option("--batch-size", metavar="N", rich_help_panel=OPTIMISATION, help="Rows per process and step."),
]
LearningRate = Annotated[float | None, typer.Option("--learning-rate", metavar="X", rich_help_panel=OPTIMISATION)]
Seed = Annotated[int, typer.Option("--seed", metavar="N", rich_help_panel=OPTIMISATION)]
MaxLength = Annotated[
    int | None,
    typer.Option(
        "--max-length", metavar="N", rich_help_panel=MODEL, help="Tokens of a text; the rest is cut. Default: 256."
    ),
]
Example = Annotated[
    list[str] | None,
    typer.Option(
        "--example",
        metavar="TEXT",
        rich_help_panel=RUNNING,
        help="A text to try that the model card names and the page of `serve` offers (repeat for several).",
    ),
]
EvalSteps = Annotated[
    int | None,
    typer.Option(
        "--eval-steps", metavar="N", rich_help_panel=RUNNING, help="Updates between evaluations. Default: an epoch."
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", metavar="", rich_help_panel=RUNNING, help="Go on from the newest checkpoint in --output."),
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", metavar="", rich_help_panel=RUNNING, help="Replace an earlier run in --output."),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", metavar="", rich_help_panel=RUNNING, help="Say nothing but warnings and errors."),
]
