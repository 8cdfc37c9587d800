"""The tables: the paper's figures beside the measured ones, one table for each experiment and scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from budgetformer.reporting.tables import NONE, Table

from .printed import DATA
from .summary import Summary

TITLES = {
    "table2": "Table II: accuracy, budget and cost",
    "table3": "Table III: fixed budgets",
    "table4": "Table IV: random heads",
    "table5": "Table V: larger models",
    "table6": "Table VI: less training data",
    "minilm": "MiniLM converted (ours): Tables II to IV on a pretrained encoder",
    "ablations": "Ablations: one part left out, or read otherwise",
}
COLUMNS = (
    "data",
    "model",
    "accuracy, paper",
    "accuracy, here",
    "difference",
    "seeds",
    "s, paper",
    "s, here",
    "heads per layer",
    "multiply-adds per text, executed",
    "of all heads",
    "whole test, paper's accounting: paper",
    "here",
    "g CO2, paper",
    "g CO2, here",
)


def tables(found: Sequence[Summary]) -> list[Table]:
    """All tables for which there are rows, by experiment and then by scale; no table has rows of two scales.

    Rows of figures are left out: ``figures`` draws them.
    """
    order = {name: place for place, name in enumerate(TITLES)}
    kinds = {(s.experiment, s.scale) for s in found if s.experiment in TITLES}
    kinds_in_order = sorted(kinds, key=lambda kind: (order[kind[0]], kind[1]))
    return [table([s for s in found if (s.experiment, s.scale) == kind]) for kind in kinds_in_order]


def table(found: Sequence[Summary]) -> Table:
    """The table of one experiment at one scale. Raises ValueError when these are not of one experiment and scale."""
    kinds = {(s.experiment, s.scale) for s in found}
    if len(kinds) != 1:
        raise ValueError(f"a table is of one experiment and one scale, got {sorted(kinds)}")
    ((experiment, scale),) = kinds
    title = TITLES[experiment]
    caption = f"{title}. Scale of the measured columns: {scale}. ± is half of the 95 % interval. "
    caption += "The paper's columns are at its own scale" + ("." if scale == "paper" else ", so no difference is fair.")
    if scale == "smoke":
        caption += " Figures of the smoke scale mean nothing; they show that everything runs."
    sets = list(DATA)
    ordered = sorted(found, key=lambda s: sets.index(s.data) if s.data in sets else len(sets))
    return Table(caption=caption, columns=COLUMNS, rows=[_cells(s) for s in ordered])


def _cells(summary: Summary) -> list[str]:
    printed = summary.printed
    macs, dense = summary.mean("macs"), summary.mean("macs_dense")
    difference = None if printed["accuracy"] is None else summary.accuracy - printed["accuracy"]
    heads = summary.mean("mean_heads")
    return [
        summary.data,
        summary.what,
        _number(printed["accuracy"], ".4f"),
        f"{summary.accuracy:.4f} ± {summary.accuracy_reach:.4f}",
        _number(difference, "+.4f"),
        str(len(summary.rows)),
        _number(printed["mean_budget"], ".3f"),
        _number(summary.mean("mean_budget"), ".3f"),
        _number(heads, ".2f"),
        NONE if macs is None else f"{macs / 1e6:,.1f} million",
        NONE if macs is None or not dense else f"{macs / dense:.0%}",
        _number(printed["macs"], ".3g"),
        _number(summary.mean("paper_macs"), ".3g"),
        _number(printed["grams"], ".4f"),
        _number(summary.mean("paper_grams"), ".3g"),
    ]


def _number(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)


def of_scale(found: Iterable[Summary], scale: str) -> list[Summary]:
    """Those of one scale."""
    return [s for s in found if s.scale == scale]
