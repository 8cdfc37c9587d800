"""The tables: the paper's figures beside the measured ones, one table for each experiment and scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from budgetformer.metering.carbon import paper_grams
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
    "95 %",
    "difference",
    "s, paper",
    "s, here",
    "heads per layer",
    "multiply-adds per text, executed",
    "of all heads",
)
COST_COLUMNS = (
    "data",
    "model",
    "multiply-adds in the paper's accounting: paper",
    "multiply-adds in the paper's accounting: here",
    "g CO2 in the paper's accounting: paper",
    "g CO2 in the paper's accounting: here",
    "multiply-adds executed",
    "g CO2 of the multiply-adds executed",
    "energy of the evaluation, per 1,000 texts",
    "g CO2 of the energy, per 1,000 texts",
)
SHARED = ("table3", "table4", "table5", "table6", "ablations")
"""Experiments with rows of a model that the paper's Table II has."""


def tables(found: Sequence[Summary]) -> list[Table]:
    """For every experiment with rows, by scale: accuracy and budget, then cost. No table has rows of two scales.

    Rows of figures are left out: ``figures`` draws them.
    """
    order = {name: place for place, name in enumerate(TITLES)}
    kinds = {(s.experiment, s.scale) for s in found if s.experiment in TITLES}
    kinds_in_order = sorted(kinds, key=lambda kind: (order[kind[0]], kind[1]))
    groups = [[s for s in found if (s.experiment, s.scale) == kind] for kind in kinds_in_order]
    return [made for group in groups for made in (accuracy_table(group), cost_table(group))]


def accuracy_table(found: Sequence[Summary]) -> Table:
    """Accuracy and budget of one experiment at one scale. Raises ValueError when these are not of one of both."""
    return _table(found, COLUMNS, _accuracy_cells, "")


def cost_table(found: Sequence[Summary]) -> Table:
    """What the whole test costs in one experiment at one scale. Raises ValueError as ``accuracy_table``."""
    caption = " Cost, of the whole test where nothing else is said."
    kinds = {(row.get("energy") or {}).get("kind") for summary in found for row in summary.rows}
    if "estimated" in kinds:
        caption += (
            " Estimated energy is a stated power times seconds, and these grow with whatever else the machine does: "
            "it says less of two models than their multiply-adds."
        )
    return _table(found, COST_COLUMNS, _cost_cells, caption)


def _table(found: Sequence[Summary], columns: Sequence[str], cells: Callable[[Summary], list[str]], more: str) -> Table:
    kinds = {(s.experiment, s.scale) for s in found}
    if len(kinds) != 1:
        raise ValueError(f"a table is of one experiment and one scale, got {sorted(kinds)}")
    ((experiment, scale),) = kinds
    title = TITLES[experiment]
    caption = f"{title}. Scale of the measured columns: {scale}. "
    several = max(len(s.rows) for s in found) > 1
    caption += "Measured figures of several seeds are mean ± standard deviation. " if several else "One seed each. "
    caption += "The paper's columns are at its own scale" + ("." if scale == "paper" else ", so no difference is fair.")
    if experiment in SHARED and not more:
        caption += " Of a model that Table II has, the paper's figures are those of its Table II."
    if scale == "smoke":
        caption += " Figures of the smoke scale mean nothing; they show that everything runs."
    caption += more
    sets = list(DATA)
    ordered = sorted(found, key=lambda s: sets.index(s.data) if s.data in sets else len(sets))
    return Table(caption=caption, columns=columns, rows=[cells(s) for s in ordered])


def _accuracy_cells(summary: Summary) -> list[str]:
    printed = summary.printed
    macs, dense = summary.mean("macs"), summary.mean("macs_dense")
    difference = None if printed["accuracy"] is None else summary.accuracy - printed["accuracy"]
    return [
        summary.data,
        summary.what,
        _number(printed["accuracy"], ".4f"),
        _measured(summary, "accuracy", ".4f"),
        f"± {summary.accuracy_reach:.4f}",
        _number(difference, "+.4f"),
        _number(printed["mean_budget"], ".3f"),
        _measured(summary, "mean_budget", ".3f"),
        _measured(summary, "mean_heads", ".2f"),
        NONE if macs is None else f"{macs / 1e6:,.1f} million",
        NONE if macs is None or not dense else f"{macs / dense:.0%}",
    ]


def _cost_cells(summary: Summary) -> list[str]:
    printed, macs = summary.printed, summary.mean("macs")
    executed = None if macs is None else macs * summary.rows[0]["test_rows"]
    return [
        summary.data,
        summary.what,
        _number(printed["macs"], ".3g"),
        _number(summary.mean("paper_macs"), ".3g"),
        _number(printed["grams"], ".4f"),
        _number(summary.mean("paper_grams"), ".3g"),
        _number(executed, ".3g"),
        _number(None if executed is None else paper_grams(executed), ".3g"),
        _energy(summary, "joules_per_1000_texts", "J"),
        _energy(summary, "grams_per_1000_texts", "g"),
    ]


def _measured(summary: Summary, name: str, form: str) -> str:
    """A mean over seeds, with standard deviation and number of seeds where there are several."""
    spread = summary.deviation(name)
    said = _number(summary.mean(name), form)
    return said if spread is None else f"{said} ± {spread:{form}} ({len(summary.rows)} seeds)"


def _energy(summary: Summary, name: str, unit: str) -> str:
    """A mean over seeds, and whether it was measured or estimated."""
    energies = [row.get("energy") or {} for row in summary.rows]
    known = [float(energy[name]) for energy in energies if energy.get(name) is not None]
    if len(known) < len(energies):
        return NONE
    kinds = " and ".join(dict.fromkeys(str(energy["kind"]) for energy in energies))
    return f"{sum(known) / len(known):.3g} {unit}, {kinds}"


def _number(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)


def of_scale(found: Iterable[Summary], scale: str) -> list[Summary]:
    """Those of one scale."""
    return [s for s in found if s.scale == scale]
