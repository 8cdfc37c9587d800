"""Table and pictures of ``benchmarks/pretrained.py``, from its rows alone.

    python benchmarks/pretrained_report.py results/pretrained.jsonl --images docs/img --page docs/results.md

prints a Markdown table and draws a picture for each data set, or writes both into a page between its two marks. Of
equal variants with the same seed the last row counts; several seeds are averaged. A table has
the settings of the last row.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from budgetformer.reporting.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    new_figure,
    set_title,
    styled,
)
from budgetformer.reporting.results import read_rows
from budgetformer.reporting.tables import NONE, Table
from pretrained_command import command, precision

NAMES = {
    "dense": "all heads, fine-tuned",
    "budgeted": "BudgetFormer, own budgets",
    "random": "the same, random heads",
    "fixed": "the same, {k} for every text",
    "static": "static pruning, trained on",
    "zero-shot": "importance, untrained, {k}",
    "tfidf": "TF-IDF, logistic regression",
}
COLUMNS = ("Variant", "Accuracy", "Points to dense", "Macro-F1", "Heads per layer", "Multiply-adds", "Training")

SETTINGS = (
    "train_rows",
    "epochs",
    "dense_epochs",
    "share_dense",
    "max_length",
    "attention_dropout",
    "warm_start_asked",
    "training_precision",
)
"""What the rows of one table have in common."""

BEGIN, END = "<!-- from rows: begin -->", "<!-- from rows: end -->"

Row = dict[str, Any]


def chosen(rows: Sequence[Row], data: str) -> list[Row]:
    """The rows of a data set in the order of ``NAMES``, one for each variant, number of heads and seed.

    Only rows with the settings of the last one: a comparison with more training rows or epochs is another one.
    """
    found = [row for row in rows if row.get("experiment") == "pretrained" and row["data"] == data]
    same = [row for row in found if _settings(row) == _settings(found[-1])]
    size = next((_batch_size(row) for row in reversed(same) if _batch_size(row)), None)
    alike = [row for row in same if _batch_size(row) in (size, None)]
    last = {(row["variant"], row["heads_asked"], row["seed"]): row for row in alike}
    return [last[key] for key in sorted(last, key=lambda key: (list(NAMES).index(key[0]), key[1] or 0, key[2]))]


def _batch_size(row: Row) -> int | None:
    """Of the trainings; None where nothing was trained by gradients."""
    size: int | None = row.get("training", {}).get("settings", {}).get("batch_size")
    return size


def _settings(row: Row) -> list[Any]:
    return [precision(row) if name == "training_precision" else row.get(name) for name in SETTINGS]


def merged(rows: Sequence[Row]) -> list[Row]:
    """Means over seeds; ``seeds`` says how many."""
    groups: dict[tuple[str, int | None], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["variant"], row["heads_asked"]), []).append(row)
    found = []
    for group in groups.values():
        means: Row = {"seeds": len(group)}
        for name in ("accuracy", "macro_f1", "mean_heads", "macs", "macs_dense", "training_seconds"):
            if name in group[0]:
                means[name] = float(np.mean([row[name] for row in group]))
        if "against_dense" in group[0]:
            paired = [row["against_dense"] for row in group]
            errors = [pair["standard_error"] for pair in paired]
            means["difference"] = float(np.mean([pair["difference"] for pair in paired]))
            # The seeds answer the same texts: their errors are not independent, and averaging does not shrink them.
            means["standard_error"] = float(np.mean(errors))
        found.append(group[0] | means)
    return found


def table(rows: Sequence[Row], data: str) -> Table:
    """All variants of one data set."""
    own = merged(chosen(rows, data))
    cells = []
    for row in own:
        difference = NONE
        if row["variant"] != "dense" and "difference" in row:
            difference = f"{100 * row['difference']:+.2f} ± {100 * row['standard_error']:.2f}".replace("-", "−")
        cells.append(
            [
                NAMES[row["variant"]].format(k=row["heads_asked"]),
                f"{row['accuracy']:.4f}",
                difference,
                f"{row['macro_f1']:.4f}",
                f"{row['mean_heads']:.2f} of {row['all_heads']}" if "mean_heads" in row else NONE,
                f"{row['macs'] / row['macs_dense']:.0%}" if "macs" in row else NONE,
                f"{row['training_seconds'] / 60:.0f} min" if row.get("training_seconds") else NONE,
            ]
        )
    return Table(caption=caption(own), columns=COLUMNS, rows=cells)


def caption(rows: Sequence[Row]) -> str:
    """What the rows have in common, in words."""
    one = rows[0]
    shared = "all three, from one beginning" if one["share_dense"] else "the latter two"
    seeds = max(row["seeds"] for row in rows)
    measured = sorted({row["test_rows"] for row in rows}, reverse=True)
    tests = f"{measured[0]:,} of {one['test_rows_there']:,} test rows"
    tests += "" if len(measured) == 1 else f" ({measured[-1]:,} of them where heads are random, fixed or untrained)"
    batches = ", ".join(sorted({f"{size}" for size in map(_batch_size, rows) if size}))
    return (
        f"{one['data']}: {one['encoder']['name']}, {one['train_rows']:,} of {one['train_rows_there']:,} training rows, "
        f"{tests}, texts of at most {one['max_length']} tokens. {one['epochs']:g} epochs in all for dense and "
        f"BudgetFormer{_static(rows)}; {one['dense_epochs']:.3g} of these with all heads for {shared}; "
        f"{_asked(one)}; trained in {precision(one)} and batches of {batches}; "
        f"{'one seed' if seeds == 1 else f'mean of {seeds} seeds'}. ± is one standard error of the paired difference."
    )


def _asked(row: Row) -> str:
    """The options of the warm start that were not left as they are."""
    asked = ", ".join(f"{name} {value}" for name, value in row["warm_start_asked"].items())
    return f"warm start with {asked}" if asked else "warm start as by default"


def _static(rows: Sequence[Row]) -> str:
    """The epochs of static in all, where it is there."""
    return "".join(
        f", {row['dense_epochs'] + row['training']['settings']['epochs']:.3g} for static"
        for row in rows
        if row["variant"] == "static"
    )


@styled
def picture(rows: Sequence[Row], data: str) -> Figure:
    """Accuracy against heads per layer: every variant of one data set."""
    own = merged(chosen(rows, data))
    by_name = {name: [row for row in own if row["variant"] == name] for name in NAMES}
    figure = new_figure(3.9)
    axes = figure.subplots()
    lines = (
        ("fixed", BLUE, "o", "-", "fixed number of heads"),
        ("zero-shot", GREEN, "^", "--", "importance, untrained"),
    )
    for name, color, marker, line, label in lines:
        heads = [row["mean_heads"] for row in by_name[name]]
        accuracy = [row["accuracy"] for row in by_name[name]]
        if heads:
            axes.plot(heads, accuracy, color=color, marker=marker, linestyle=line, label=label)
    points = (
        ("budgeted", PURPLE, "*", 14, "own budgets"),
        ("static", ORANGE, "D", 7, "static pruning, trained on"),
        ("random", VERMILLION, "s", 7, "random heads, as many"),
    )
    for name, color, marker, size, label in points:
        for row in by_name[name]:
            look = {"marker": marker, "markersize": size, "markeredgecolor": BLACK, "linestyle": "none", "zorder": 5}
            axes.plot([row["mean_heads"]], [row["accuracy"]], color=color, label=label, **look)
    levels = (("dense", BLACK, ":", "all heads, fine-tuned"), ("tfidf", GREY, "-.", "TF-IDF"))
    for name, color, line, label in levels:
        for row in by_name[name]:
            axes.axhline(row["accuracy"], color=color, linestyle=line, linewidth=1.4, label=label)
    all_heads = own[0]["all_heads"]
    axes.set_xlim(0, all_heads * 1.03)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=13, integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    axes.set_xlabel(f"heads per layer, of {all_heads} (mean over texts)")
    axes.set_ylabel("accuracy")
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    figure.legend(loc="outside right center")
    set_title(figure, _finding(data, by_name))
    return figure


def _finding(data: str, by_name: dict[str, list[Row]]) -> str:
    parts = [f"{data}:"]
    for row in by_name["budgeted"]:
        parts.append(f"{row['accuracy']:.1%} with {row['mean_heads']:.1f} of {row['all_heads']} heads;")
    for name, word in (("dense", "with all heads"), ("static", "by static pruning")):
        parts += [f"{row['accuracy']:.1%} {word};" for row in by_name[name]]
    return " ".join(parts).rstrip(";:")


def main() -> None:
    """Print the tables and draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="JSON lines that pretrained.py wrote")
    parser.add_argument("--images", type=Path, help="folder for the pictures, as pretrained-<data>.png")
    parser.add_argument("--page", type=Path, help="a Markdown page to write into")
    parser.add_argument("--data", action="append", help="default: all in the rows")
    given = parser.parse_args()
    try:
        rows = read_rows(given.rows)
    except ValueError as problem:
        parser.error(str(problem))
    there = list(dict.fromkeys(row["data"] for row in rows if row.get("experiment") == "pretrained"))
    if not there:
        parser.error(f"{given.rows} has no rows of pretrained.py")
    parts = []
    for data in given.data or there:
        if data not in there:
            parser.error(f"{given.rows} has no rows of {data}; it has {', '.join(there)}")
        parts.append(f"## {data}\n\n{table(rows, data).to_markdown()}\n")
        parts.append(f"Made by\n\n```\n{command(chosen(rows, data))}\n```\n")
        if given.images is not None:
            given.images.mkdir(parents=True, exist_ok=True)
            file = given.images / f"pretrained-{data}.png"
            picture(rows, data).savefig(file, dpi=150)
            if given.page is not None:
                link = Path(os.path.relpath(file, given.page.parent)).as_posix()
                parts.append(f"![Accuracy on {data} against heads per layer]({link})\n")
    if given.page is None:
        print("\n".join(parts))
        return
    before, _, rest = given.page.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        parser.error(f"{given.page} has no lines {BEGIN} and {END} to write between")
    given.page.write_text(f"{before}{BEGIN}\n\n{chr(10).join(parts)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
