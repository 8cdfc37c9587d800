"""Show which heads a text used, how relevant each one was, and where the heads look, as a page or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options as o

if TYPE_CHECKING:
    from ..explanation import Explanation

NAME = "explain"
KINDS = (".html", ".png")
EXAMPLES = (
    "Examples:",
    "budgetformer explain runs/news 'Shares rose after the report.' --output heads.html",
    "budgetformer explain runs/nli 'A man sleeps.' --pair 'Someone is awake.' --output heads.png --json heads.json",
    "budgetformer explain runs/news 'The striker scored.' --output heads.html --heads 8 --budget 0.25",
    "Heads that were not kept are skipped in the answer. Where their maps are shown, they are computed for the picture "
    "alone and marked. A text that begins with a dash comes after --.",
)


def run(
    folder: o.Folder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to look at.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help=".html (one page, loads nothing) or .png (pictures only). Default: the table on screen alone.",
        ),
    ] = None,
    pair: Annotated[
        str | None, typer.Option("--pair", metavar="TEXT", help="The second text, for a model of pairs.")
    ] = None,
    heads: Annotated[
        int | None,
        typer.Option("--heads", metavar="N", help="Maps per layer, of the N most relevant heads. Default: 4."),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            "--tokens",
            metavar="N",
            help="Most tokens in the pictures: of a longer text, those that receive the most attention. Default: 24.",
        ),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all numbers, with the maps of all tokens.")
    ] = None,
    budget: o.Budget = None,
    max_budget: o.MaxBudget = None,
    execution: o.Execution = "auto",
    precision: o.Precision = "float32",
    device: o.Device = "auto",
) -> None:
    o.require_share(budget, max_budget)
    if output is None:
        o.refuse({"--tokens": tokens}, "without --output FILE: there are no pictures")
    elif output.suffix.lower() not in KINDS:
        raise ValueError(f"--output {output}: an explanation is written as {' or '.join(KINDS)}; choose one of these")
    if heads is not None and heads < 1:
        raise ValueError(f"--heads must be at least 1, got {heads}")
    from ..model_folder import check_folder
    from .early import model_files
    from .writing import check_target, write_bytes, written_aside

    inputs = model_files(check_folder(folder))
    if output is not None:
        check_target(output, inputs=inputs)
    if json_file is not None:
        check_target(json_file, inputs=[*inputs, *([] if output is None else [output])])
    from ..reporting.figures.attention import MOST_TOKENS

    if tokens is not None and not 1 <= tokens <= MOST_TOKENS:
        raise ValueError(f"--tokens must lie between 1 and {MOST_TOKENS}, what a picture can label, got {tokens}")
    import json

    from ..data.unicode import typed
    from ..explaining import explain
    from ..inference import Pair
    from ..reporting.explained import TOKENS_SHOWN, page, png, tokens_shown
    from .models import effective_budgets, load_classifier

    classifier = load_classifier(folder, device=device, precision=precision, execution=execution)
    config = classifier.config
    if heads is not None and heads > config.num_attention_heads:
        raise ValueError(f"--heads must be at most {config.num_attention_heads}, the heads of this model, got {heads}")
    if config.pair_column and pair is None:
        raise ValueError("this model classifies pairs of texts: give the second text with --pair")
    if pair is not None and config.text_columns and not config.pair_column:
        raise ValueError("this model classifies single texts: leave --pair out")
    request = effective_budgets(classifier, budget=budget, max_budget=max_budget)
    item = typed(text) if pair is None else Pair(typed(text), typed(pair))
    explained = explain(classifier, item, heads=heads, **request)
    shown = tokens_shown(explained, tokens or TOKENS_SHOWN)
    if output is not None and output.suffix.lower() == ".png":
        write_bytes(output, png(explained, shown))
    elif output is not None:
        with written_aside(output) as file:
            file.write(page(explained, shown, model=folder.resolve().name))
    if json_file is not None:
        with written_aside(json_file) as file:
            file.write(json.dumps(explained.to_dict(), ensure_ascii=False, allow_nan=False) + "\n")
    _report(explained)
    if output is not None:
        print(f"in the pictures: {shown.words}")
    for what, target in (("explanation", output), ("numbers", json_file)):
        if target is not None:
            print(f"{what}: {target}")


def _report(explained: Explanation) -> None:
    from ..reporting.explained import layers_table
    from .tables import show

    answer = explained.prediction
    notes = [f"cut to {answer.tokens:,} tokens"] if answer.truncated else []
    notes += [answer.reason] if answer.reason else []
    print("  ".join([" ".join(answer.label.split()), f"{answer.score:.3f}", *(f"({note})" for note in notes)]))
    show(layers_table(explained).to_rich())
