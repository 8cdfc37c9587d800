"""The figures, drawn from rows, and the same in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from budgetformer.reporting.figures.style import look, new_figure, plot_series, set_title, styled
from budgetformer.reporting.picture import Picture
from budgetformer.reporting.tables import NONE, Table

from .groups import QUANTILES
from .map_figures import TITLE as MAPS
from .map_figures import map_pictures, map_tables
from .measure import SAMPLE
from .summary import Summary

FIGURES = {
    "figure1": "Figure 1: budget and accuracy over training",
    "figure2": "Figure 2: budgets by difficulty",
    "figure3": "Figure 3: budgets and entropy by layer and class",
    "figure4": MAPS,
}


def pictures(found: Sequence[Summary]) -> list[Picture]:
    """One picture for each row of the experiments figure1 to figure3, one a layer for figure4; of the first seed."""
    made = []
    for summary in found:
        if summary.experiment in _DRAWN:
            made.append(_DRAWN[summary.experiment](summary, summary.rows[0]))
        if summary.experiment == "figure4":
            made += map_pictures(summary)
    return made


def figure_tables(found: Sequence[Summary]) -> list[Table]:
    """What the figures show, in numbers; of the first seed."""
    made = []
    for summary in found:
        if summary.experiment == "figure1":
            made.append(_curve_table(summary, summary.rows[0]))
        if summary.experiment == "figure2":
            made.append(_difficulty_table(summary, summary.rows[0]))
        if summary.experiment == "figure3":
            made.append(_class_table(summary, summary.rows[0]))
        if summary.experiment == "figure4":
            made += map_tables(summary)
    return made


def _over_training(summary: Summary, row: dict[str, Any]) -> Picture:
    fields = row["config"]["training"]["config"]
    figure = draw_curves(row["curves"], s_min=fields.get("s_min", 0.1), s_max=fields.get("s_max", 0.9))
    caption = (
        f"{FIGURES['figure1']}, {summary.place}: mean over layers and rows; validation is on "
        f"{row['rows']['validated_on']}. "
    )
    logged = any("accuracy" in entry for entry in row["curves"]["training"])
    caption += (
        "Accuracy in training is of the rows since the last point, with dropout and noise."
        if logged
        else "Accuracy in training was not logged when this row was measured."
    )
    return Picture(figure=figure, caption=caption, alt=f"Lines. {' '.join(figure.get_suptitle().split())}")


def _by_difficulty(summary: Summary, row: dict[str, Any]) -> Picture:
    figure = draw_difficulty(row["budget_by_difficulty"])
    caption = (
        f"{FIGURES['figure2']}, {summary.place}: the budget of a test row, mean over layers. Box: "
        "the middle half; whiskers: 5 to 95 %."
    )
    return Picture(figure=figure, caption=caption, alt=f"Box plots. {' '.join(figure.get_suptitle().split())}")


def _by_class(summary: Summary, row: dict[str, Any]) -> Picture:
    figure = draw_classes(row["budget_by_class"], row["entropy_by_class"])
    caption = (
        f"{FIGURES['figure3']}, {summary.place}, test rows; the entropy is in nats, over at most {SAMPLE:,} of them."
    )
    return Picture(figure=figure, caption=caption, alt=f"Lines. {' '.join(figure.get_suptitle().split())}")


_DRAWN = {"figure1": _over_training, "figure2": _by_difficulty, "figure3": _by_class}


@styled
def draw_curves(curves: dict[str, Any], *, s_min: float, s_max: float) -> Figure:
    """Mean budget over the epochs in training and validation, [s_min, s_max] shaded, and the accuracy, in training
    where it was logged."""
    training, validation = (
        {field: np.array([[e["epoch"], e[field]] for e in curves[part] if field in e]) for field in fields}
        for part, fields in (
            ("training", ("mean_budget", "accuracy")),
            ("validation", ("eval_mean_budget", "eval_accuracy")),
        )
    )
    figure = new_figure(3.0)
    left, right = figure.subplots(1, 2)
    left.axhspan(s_min, s_max, color="#e8e8e8", zorder=0)
    lines = {"training": training["mean_budget"], "validation": validation["eval_mean_budget"]}
    for place, (name, points) in enumerate(lines.items()):
        plot_series(left, points[:, 0], points[:, 1], look(place, 2), name)
    accuracy = validation["eval_accuracy"]
    for place, points in enumerate((training["accuracy"], accuracy)):
        if len(points):
            plot_series(right, points[:, 0], points[:, 1], look(place, 2))
    left.set_ylim(0, 1)
    left.set_title(f"mean budget (grey: [{s_min:g}, {s_max:g}])")
    right.set_title("accuracy" if len(training["accuracy"]) else "validation accuracy")
    for axes in (left, right):
        axes.set_xlabel("epoch")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    ends = ", ".join(f"{name} {points[0, 1]:.3f} to {points[-1, 1]:.3f}" for name, points in lines.items())
    set_title(figure, f"Budget: {ends}; accuracy ends at {accuracy[-1, 1]:.3f}")
    return figure


@styled
def draw_difficulty(criteria: dict[str, dict[str, Any]]) -> Figure:
    """Box plots of the groups of each criterion, on one axis of budgets; groups without rows are left out."""
    figure = new_figure(3.4)
    panels = figure.subplots(1, len(criteria), sharey=True, squeeze=False)[0]
    for axes, (criterion, groups) in zip(panels, criteria.items(), strict=True):
        known = {name: group for name, group in groups.items() if group["rows"]}
        boxes = [
            dict(zip(("whislo", "q1", "med", "q3", "whishi"), group["quantiles"], strict=True))
            | {"label": name, "fliers": []}
            for name, group in known.items()
        ]
        axes.bxp(boxes, showfliers=False)
        axes.set_title(criterion)
    figure.axes[0].set_ylabel("budget s, mean over layers")
    by_loss = next(iter(criteria.values()))
    set_title(figure, "Mean budget " + ", ".join(f"{name} {_number(g['mean'])}" for name, g in by_loss.items()))
    return figure


@styled
def draw_classes(budgets: dict[str, Any], entropies: dict[str, Any]) -> Figure:
    """Mean and standard deviation of the budget, and mean entropy of the relevance, by layer, a line for each class."""
    figure = new_figure(3.3)
    panels = (("mean of s", budgets, "mean"), ("standard deviation of s", budgets, "std"))
    for axes, (title, groups, field) in zip(
        figure.subplots(1, 3), (*panels, ("entropy of p", entropies, "mean")), strict=True
    ):
        _lines(axes, groups, field)
        axes.set_title(title)
        axes.set_xlabel("layer")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(budgets))
    means = {name: sum(group["mean"]) / len(group["mean"]) for name, group in budgets.items()}
    set_title(figure, "Mean budget " + ", ".join(f"{name} {mean:.3f}" for name, mean in means.items()))
    return figure


def _lines(axes: Axes, groups: dict[str, Any], field: str) -> None:
    for place, (name, group) in enumerate(groups.items()):
        values_L = np.array(group[field])
        plot_series(axes, np.arange(len(values_L)), values_L, look(place, len(groups)), name)
        axes.set_xticks(range(len(values_L)))


def _curve_table(summary: Summary, row: dict[str, Any]) -> Table:
    """A line for each validation, and the last point of training before it."""
    rows = []
    for entry in row["curves"]["validation"]:
        before = [point for point in row["curves"]["training"] if point["epoch"] <= entry["epoch"]]
        point = before[-1] if before else {}
        cells = (point.get("mean_budget"), entry.get("eval_mean_budget"), point.get("accuracy"))
        rows.append([f"{entry['epoch']:g}", *map(_number, cells), _number(entry.get("eval_accuracy"))])
    columns = ("epoch", "s in training", "s in validation", "accuracy in training", "validation accuracy")
    return Table(caption=_caption(summary), columns=columns, rows=rows)


def _difficulty_table(summary: Summary, row: dict[str, Any]) -> Table:
    columns = ("criterion", "group", "rows", "mean s", "standard deviation", *(f"{q:.0%}" for q in QUANTILES))
    rows = [
        [
            criterion,
            name,
            f"{group['rows']:,}",
            _number(group["mean"]),
            _number(group["std"]),
            *(_number(q) for q in group["quantiles"] or [None] * len(QUANTILES)),
        ]
        for criterion, groups in row["budget_by_difficulty"].items()
        for name, group in groups.items()
    ]
    return Table(caption=_caption(summary), columns=columns, rows=rows)


def _class_table(summary: Summary, row: dict[str, Any]) -> Table:
    rows = []
    for name, group in row["budget_by_class"].items():
        entropy = row["entropy_by_class"].get(name, {"mean": [None] * len(group["mean"])})
        for layer, cells in enumerate(zip(group["mean"], group["std"], entropy["mean"], strict=True)):
            rows.append([name, str(layer), *map(_number, cells)])
    columns = ("class", "layer", "mean s", "standard deviation of s", "entropy of p")
    return Table(caption=_caption(summary), columns=columns, rows=rows)


def _caption(summary: Summary) -> str:
    return f"{FIGURES[summary.experiment]}, {summary.place}."


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"
