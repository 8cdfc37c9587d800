"""Repeat a table of arXiv 2604.22583, or print what was measured beside the paper's figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o
from .outcome import FAILED, MISTAKE, STOPPED, Stopped
from .reproduce_places import SETS, check_places, chosen_revisions

if TYPE_CHECKING:
    from budgetformer_paper.recipe import Recipe
    from budgetformer_paper.run import Outcome, Planned, Running

NAME = "reproduce"
REPORT = "report"
EXPERIMENTS = (
    "table2",
    "table3",
    "table4",
    "table5",
    "table6",
    "figure1",
    "figure2",
    "figure3",
    "figure4",
    "minilm",
    "ablations",
    "cost",
)
SCALES = ("smoke", "cpu-small", "cpu", "paper-shape", "paper")
WORK = Path("runs/reproduction")
EXAMPLES = (
    "Examples:",
    "budgetformer reproduce table2 --scale cpu --data-folder data --dry-run",
    "budgetformer reproduce table2 --scale cpu --data-folder data --data imdb --seeds 3",
    "budgetformer reproduce table5 --scale cpu --data ag_news --only 4L-8H --only 4L-12H",
    "budgetformer reproduce table2 --scale cpu-small --time-limit 30",
    "budgetformer reproduce table2 --scale paper",
    "torchrun --nproc-per-node 4 -m budgetformer reproduce table2 --scale paper --fsdp",
    "budgetformer reproduce report --output runs/reproduction",
)


def run(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"{', '.join(EXPERIMENTS)}; or {REPORT}, a page of all rows.")
    ],
    scale: Annotated[
        str | None,
        typer.Option(
            "--scale",
            metavar="|".join(SCALES),
            help="smoke: seconds, to see that it runs. cpu-small: an hour of 2 cores. cpu: a night of 2 cores, small "
            "model, part of the rows. paper: as printed. paper-shape: the paper's model on the rows that there are. "
            "Default: cpu; of a report: all.",
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="|".join(SETS), help="Only this data set (repeat for several)."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ROW", help="Only the rows of this name, as --dry-run lists them (repeat)."),
    ] = None,
    data_folder: o.DataFolder = None,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="Runs of every row, with seeds 0 to N - 1.")] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="List the runs with their expected time and do nothing.")
    ] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            metavar="MINUTES",
            help="When it is over, save the training in progress and begin no other; the same command goes on.",
        ),
    ] = None,
    results: Annotated[
        Path, typer.Option("--results", metavar="FILE", help="Rows of JSON: finished ones are skipped, new ones added.")
    ] = Path("results/reproduction.jsonl"),
    work: Annotated[
        Path, typer.Option("--work", metavar="DIR", help="Folder of the rows that were drawn and the models.")
    ] = WORK,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            metavar="NAME[@COMMIT]|DIR",
            help="At the scales paper and paper-shape, in place of google-bert/bert-base-uncased from the hub.",
        ),
    ] = None,
    revision: Annotated[
        list[str] | None,
        typer.Option(
            "--revision",
            metavar="SET=COMMIT",
            help="Of a data set on the hub, in place of the commit that is pinned (repeat for several).",
        ),
    ] = None,
    budgets: Annotated[
        Path | None, typer.Option("--budgets", metavar="DIR", help="Write the budgets of every test row there (csv).")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="DIR", help="Of a report: write report.md and report.html there.")
    ] = None,
    device: o.Device = "auto",
    fsdp: o.Fsdp = False,
    quiet: Annotated[bool, typer.Option("--quiet", metavar="", rich_help_panel=o.RUNNING, help="No progress.")] = False,
) -> None:
    if scale is not None and scale not in SCALES:
        raise ValueError(f"--scale must be one of {', '.join(SCALES)}, got {scale!r}")
    if name == REPORT:
        running: dict[str, Any] = {"--data": data, "--only": only, "--dry-run": dry_run, "--tokenizer": tokenizer}
        running |= {"--budgets": budgets}
        running |= {"--seeds": seeds != 1, "--work": work != WORK, "--device": device != "auto", "--quiet": quiet}
        running |= {"--fsdp": fsdp, "--data-folder": data_folder, "--time-limit": time_limit, "--revision": revision}
        o.refuse(running, "on a report, which reads rows")
        _report(results, scale, output)
        return
    o.refuse(
        {"--output": output}, "on an experiment, which adds rows; for a page of them: reproduce report --output DIR"
    )
    if name not in EXPERIMENTS:
        raise ValueError(f"{name!r} is no experiment: choose one of {', '.join(EXPERIMENTS)}, or {REPORT}")
    if wrong := [one for one in data or () if one not in SETS]:
        raise ValueError(f"--data must be one of {', '.join(SETS)}, got {wrong[0]!r}")
    if seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {seeds}")
    if time_limit is not None and not 0 < time_limit < math.inf:
        raise ValueError(f"--time-limit must be above 0 minutes, got {time_limit:g}")
    check_places(results, work, budgets)
    revisions = chosen_revisions(revision, data_folder)
    scale = scale or "cpu"
    if tokenizer is not None and scale in ("smoke", "cpu-small", "cpu"):
        raise ValueError(f"--tokenizer has no effect at scale {scale}, which trains a vocabulary; leave it out")
    from .libraries import quiet_libraries

    quiet_libraries()
    from budgetformer_paper.processes import Processes
    from budgetformer_paper.run import Running, plan, reproduce

    from ..training import Interrupted

    recipes = _recipes(name, scale=scale, data=data, only=only, tokenizer=tokenizer)
    read = list(dict.fromkeys(recipe.data.name for recipe in recipes))
    if unread := [one for one in revisions if one not in read]:
        raise ValueError(f"--revision of {unread[0]} has no effect on rows of {', '.join(read)}; leave it out")
    asked = Running(
        results=results,
        work=work,
        data_folder=data_folder,
        device=device,
        fsdp=fsdp,
        keep_budgets=budgets,
        quiet=quiet,
        time_limit=None if time_limit is None else 60 * time_limit,
        revisions=revisions,
        processes=Processes.of_environment(),
    )
    if not asked.processes.is_first:  # one of the processes says what all of them find
        _beside(recipes, seeds, asked, dry_run=dry_run)
        return
    if dry_run:
        _list(plan(recipes, seeds=seeds, running=asked), scale, asked)
        return
    try:
        outcome = reproduce(recipes, seeds=seeds, running=asked)
    except (Interrupted, KeyboardInterrupt) as stopped:
        raise Stopped(
            "stopped; finished rows are kept, and so is the newest checkpoint of a training: the same command goes on"
        ) from stopped
    if outcome.written or outcome.skipped:
        _show(results, scale, name)
    print(f"{outcome.written} rows added to {results}, {outcome.skipped} were there before")
    if outcome.no_budgets:
        print(f"no budgets of {outcome.no_budgets} rows that were there before: their models are not in {work}")
    if outcome.left:
        print(f"the time is over with {outcome.left} rows to do: the same command goes on")
    if outcome.budgets_left:
        print(f"the time is over with budgets of {outcome.budgets_left} rows to write: the same command goes on")
    for row, reason in outcome.failed:
        print(f"failed: {row}: {reason}")
    if outcome.failed:
        raise typer.Exit(_code(outcome))


def _beside(recipes: Sequence[Recipe], seeds: int, asked: Running, *, dry_run: bool) -> None:
    """Share the trainings of the first process and say nothing."""
    from budgetformer_paper.run import reproduce

    from ..training import Interrupted

    if dry_run:
        return
    try:
        outcome = reproduce(recipes, seeds=seeds, running=asked)
    except (Interrupted, KeyboardInterrupt):
        raise typer.Exit(STOPPED) from None
    except ValueError:
        raise typer.Exit(MISTAKE) from None
    if outcome.failed:
        raise typer.Exit(_code(outcome))


def _code(outcome: Outcome) -> int:
    """A mistake when nothing could be made for reasons that lie in the data, else a failure."""
    return MISTAKE if outcome.mistakes == len(outcome.failed) and not outcome.written else FAILED


def _recipes(
    name: str, *, scale: str, data: list[str] | None, only: list[str] | None, tokenizer: str | None
) -> list[Recipe]:
    from dataclasses import replace

    from budgetformer_paper.recipes import experiments
    from budgetformer_paper.scales import SCALES as CHANGES

    recipes = [CHANGES[scale](recipe) for recipe in experiments(data or SETS)[name]]
    if not recipes:
        raise ValueError(f"{name} is of other data sets than {', '.join(data or ())}; leave --data out")
    rows = list(dict.fromkeys(recipe.name.split("/")[1] for recipe in recipes))
    if wrong := [one for one in only or () if one not in rows]:
        raise ValueError(f"--only must be one of {', '.join(rows)}, got {wrong[0]!r}")
    if only:
        recipes = [recipe for recipe in recipes if recipe.name.split("/")[1] in only]
    if tokenizer is not None:
        recipes = [
            recipe
            if recipe.training is None
            else replace(recipe, training=replace(recipe.training, tokenizer=tokenizer))
            for recipe in recipes
        ]
    return recipes


def _list(planned: Sequence[Planned], scale: str, running: Running) -> None:
    from budgetformer_paper.run import in_words

    from .tables import show, table

    rows = []
    for row in planned:
        does = "done" if row.done else "trains and measures" if row.trains else "measures"
        does = "fits and measures" if row.recipe.training is None and not row.done else does
        rows.append((row.recipe.label, str(row.seed), does, "" if row.done else in_words(row.seconds)))
    show(table(f"Runs at scale {scale}, times guessed from multiply-adds", ("row", "seed", "", "about"), rows))
    left = sum(row.seconds for row in planned)
    print(f"{sum(not row.done for row in planned)} to do, about {in_words(left)}; rows go to {running.results}")


def _show(results: Path, scale: str, name: str) -> None:
    from budgetformer_paper.report import report_tables
    from budgetformer_paper.row_checks import read_checked

    rows = read_checked(results) if results.is_file() else []
    here = [row for row in rows if (row.get("scale"), row.get("experiment")) == (scale, name)]
    for made in report_tables(here):
        print(made.to_text() + "\n")


def _report(results: Path, scale: str | None, output: Path | None) -> None:
    from budgetformer_paper.report import report_tables, rows_to_report, write

    rows = rows_to_report(results, scale)
    made = report_tables(rows)
    if not made:
        raise ValueError(f"{results} has no rows of reproduced experiments" + (f" at scale {scale}" if scale else ""))
    if output is None:
        print("\n\n".join(table.to_markdown() for table in made))
        return
    if output.exists() and not output.is_dir():
        raise ValueError(f"--output {output} is a file; give a folder")
    written = write(rows, output)
    print(f"report: {written.markdown}\npage:   {written.html}")
