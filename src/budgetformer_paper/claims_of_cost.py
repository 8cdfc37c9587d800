"""What the paper claims of cost: training costs no more, memory falls with the heads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from .summary import Summary
from .verdict import FAILED, HELD, MEMORY, OPEN, TRAINING, Verdict

NO_MORE = 1.10
"""Of the Transformer's time and memory for a step; the paper says "no significant training cost" and gives no limit."""


def training_costs(summary: Summary, ours: Summary | None = None, dense: Summary | None = None) -> Iterator[Verdict]:
    """A step takes at most ``NO_MORE`` of the Transformer's time and memory; the interval of the time must say so.

    The energy of whole trainings, of ``ours`` and ``dense`` of Table II, is shown and decides nothing: a machine that
    also does other work, and power that is assumed, do not bear it.
    """
    row = summary.rows[0]
    low, high = row["step_ratio"]["interval"]
    memory = row["step_memory"]
    more = None if None in memory.values() else memory["budgetformer"] / memory["transformer"]
    if low > NO_MORE or (more is not None and more > NO_MORE):
        answer = FAILED
    else:
        answer = HELD if high <= NO_MORE and more is not None else OPEN
    why = f"a step takes {row['step_ratio']['median']:.2f} of the time (95 %: {low:.2f} to {high:.2f})"
    why += "" if more is None else f" and {more:.2f} of the memory"
    why += f"; held up to {NO_MORE:.2f} ({summary.first_seed}){_whole_trainings(ours, dense)}"
    yield Verdict(claim=TRAINING, data=summary.data, answer=answer, why=why)


def _whole_trainings(ours: Summary | None, dense: Summary | None) -> str:
    said = []
    for one in (ours, dense):
        energy = one.rows[0].get("training_energy") if one else None
        if energy is None or energy["joules"] is None:
            return ""
        said.append(f"{energy['joules'] / 1000:,.1f} kJ ({energy['kind']})")
    return f"; the training of Table II took {said[0]}, that of the Transformer {said[1]}"


def memory_falls(summary: Summary) -> Iterator[Verdict]:
    """What a layer allocates at 1 to H heads never rises when heads are taken away, and at 1 it is less than at H."""
    measured = [row["allocated"] for row in summary.rows[0]["attention_memory"]]
    if not measured or None in measured:
        return
    held = all(b >= a for a, b in pairwise(measured)) and measured[0] < measured[-1]
    listed = ", ".join(f"{value / 2**20:.1f}" for value in measured)
    why = f"MiB at 1 to {len(measured)} heads: {listed} ({summary.first_seed})"
    yield Verdict(claim=MEMORY, data=summary.data, answer=HELD if held else FAILED, why=why)
