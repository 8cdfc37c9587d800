"""Train on BBC News beside full attention and TF-IDF, and write a report. Takes about ten minutes on two cores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

NAME = "demo"
EXAMPLES = (
    "Examples:",
    "budgetformer demo",
    "budgetformer demo --output runs/quick --epochs 1",
)


def run(
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Folder of the models and the report.")
    ] = Path("runs/demo"),
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of split and training.")] = 0,
    epochs: Annotated[float | None, typer.Option("--epochs", metavar="X", help="Default: the demo's own.")] = None,
    results: Annotated[
        Path | None, typer.Option("--results", metavar="FILE", help="Append the figures to this file as a JSON row.")
    ] = None,
) -> None:
    if epochs is not None and epochs <= 0:
        raise ValueError(f"--epochs must be above 0, got {epochs}")
    from ..model_folder import is_model_folder
    from .libraries import quiet_libraries

    if is_model_folder(output):
        raise ValueError(f"--output {output} holds a model, whose files the demo would replace; give another folder")
    quiet_libraries()
    from ..demo import run_demo

    options: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    run_demo(output, seed=seed, results=results, **options)
