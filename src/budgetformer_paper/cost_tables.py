"""The rows of the experiment cost as tables."""

from __future__ import annotations

from collections.abc import Sequence

from budgetformer.reporting.tables import NONE, Table

from .summary import Summary

COST = {"cost": "Cost of training, and memory of attention"}
MEBIBYTE = 2**20


def cost_tables(found: Sequence[Summary]) -> list[Table]:
    """For each scale the steps of training, then the memory of attention (first seed)."""
    rows = [summary for summary in found if summary.experiment == "cost"]
    made = []
    for scale in dict.fromkeys(summary.scale for summary in rows):
        here = [summary for summary in rows if summary.scale == scale]
        made += [_steps(here, scale), _memory(here, scale)]
    return made


def _steps(found: Sequence[Summary], scale: str) -> Table:
    cells = []
    for summary in found:
        row = summary.rows[0]
        seconds, memory, ratio = row["step_seconds"], row["step_memory"], row["step_ratio"]
        cells.append(
            [
                summary.data,
                summary.first_seed,
                " × ".join(map(str, row["batch"])),
                *(f"{1000 * seconds[name]:.0f} ms" for name in ("transformer", "budgetformer")),
                f"{ratio['median']:.2f} ({ratio['interval'][0]:.2f} to {ratio['interval'][1]:.2f})",
                *(_mebibytes(memory[name]) for name in ("transformer", "budgetformer")),
                str(row.get("gpu") or row.get("cpu") or NONE),
            ]
        )
    steps = ("step, Transformer", "step, BudgetFormer", "ratio (95 %)")
    memories = ("memory, Transformer", "memory, BudgetFormer")
    caption = f"Cost of training, scale {scale}: median of steps taken in turns, and of the ratios of neighbouring "
    caption += "steps, which a machine that is busy for a while changes less; memory beyond weights and moments."
    return Table(
        caption=caption,
        columns=("shape of", "measured with", "texts × tokens", *steps, *memories, "machine"),
        rows=cells,
    )


def _memory(found: Sequence[Summary], scale: str) -> Table:
    cells = [
        [
            summary.data,
            summary.first_seed,
            str(row["heads"]),
            _mebibytes(row["allocated"]),
            _mebibytes(row["closed_form"]),
        ]
        for summary in found
        for row in summary.rows[0]["attention_memory"]
    ]
    caption = (
        f"Memory of one attention layer by heads, scale {scale}: what torch allocates for 8 texts on the CPU, and the "
        "closed form of what the kept heads hold."
    )
    return Table(
        caption=caption, columns=("shape of", "measured with", "heads", "allocated", "closed form"), rows=cells
    )


def _mebibytes(number: int | None) -> str:
    return NONE if number is None else f"{number / MEBIBYTE:.2f} MiB"
