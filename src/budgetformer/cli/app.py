"""The ``budgetformer`` command and the list of its commands."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ..version import __version__
from . import bench, convert, cost, demo, doctor, evaluate, explain, export, predict, reproduce, serve, train
from .outcome import DEBUG_VARIABLE

app = typer.Typer(
    help="Text classification that spends attention heads per input.",
    epilog="Start with: budgetformer demo",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"budgetformer {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _global_options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help=f"Show where an error happened; so does {DEBUG_VARIABLE}=1.")
    ] = False,
) -> None:
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"
    if context.invoked_subcommand is None:
        print(context.get_help())


for command in (train, convert, evaluate, predict, explain, serve, bench, export, cost, demo, reproduce, doctor):
    app.command(name=command.NAME, help=command.__doc__, epilog="\n\n".join(command.EXAMPLES))(command.run)
