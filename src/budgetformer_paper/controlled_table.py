"""The controlled task as a table: rows of ``benchmarks/controlled.py``, which know what heads an input needs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from budgetformer.reporting.tables import NONE, Table

BENCHMARK = "controlled"
COLUMNS = (
    "variant",
    "accuracy",
    "random heads at evaluation",
    "heads per layer",
    "heads by difficulty, least to most",
    "mean budget",
    "rank correlation of budget and difficulty",
)


def controlled_tables(rows: Iterable[dict[str, Any]]) -> list[Table]:
    """One table when there are rows of the controlled task, a line for each variant; of a row that was measured twice
    the newer counts."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for row in rows:
        if is_controlled(row):
            found.setdefault(row["variant"], {})[row["seed"]] = row
    if not found:
        return []
    caption = (
        "The controlled task (ours): generated inputs whose need of heads, the difficulty, is known; models of 2 "
        "layers and 8 heads of its own size, the same at every scale (docs/controlled.md). Several seeds are mean ± "
        "standard deviation."
    )
    return [Table(caption=caption, columns=COLUMNS, rows=[_cells(name, list(s.values())) for name, s in found.items()])]


def is_controlled(row: dict[str, Any]) -> bool:
    """Whether a row is one of the controlled task."""
    return row.get("benchmark") == BENCHMARK and {"variant", "seed", "accuracy", "mean_heads"} <= set(row)


def _cells(variant: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    by_difficulty = [row["heads_by_difficulty"] for row in rows if row.get("heads_by_difficulty")]
    means = [statistics.fmean(values) for values in zip(*by_difficulty, strict=True)]
    return [
        variant,
        _over_seeds(rows, "accuracy", ".3f"),
        _over_seeds(rows, "accuracy_random_heads", ".3f"),
        _over_seeds(rows, "mean_heads", ".2f"),
        ", ".join(f"{mean:.2f}" for mean in means) or NONE,
        _over_seeds(rows, "mean_budget", ".3f"),
        _over_seeds(rows, "rank_correlation_budget", ".2f"),
    ]


def _over_seeds(rows: Sequence[dict[str, Any]], name: str, form: str) -> str:
    known = [row[name] for row in rows if row.get(name) is not None]
    if not known:
        return NONE
    mean = format(statistics.fmean(known), form)
    return mean if len(known) == 1 else f"{mean} ± {statistics.stdev(known):{form}} ({len(known)} seeds)"
