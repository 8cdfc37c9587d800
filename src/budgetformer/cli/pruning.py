"""`convert --prune-unused` for a folder that is a BudgetFormer already, and what it says on screen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..calling import program

if TYPE_CHECKING:
    from ..conversion import RowSource


def prune_folder(
    folder: str, *, output: Path, source: RowSource, held_out: Path | None, device: str, quiet: bool
) -> None:
    """Drop the heads that no row chooses, and say what is left and what it changed."""
    from tqdm.auto import tqdm

    from ..conversion import prune_unused

    with tqdm(desc="Counting heads", unit="row", leave=False, disable=quiet or None) as bar:
        done = prune_unused(folder, data=source, output=output, held_out=held_out, device=device, progress=bar.update)
    if quiet:
        return
    print_pruning(done.pruning.describe())
    before, after = done.bytes
    print(f"weights: {before:,} bytes before, {after:,} after ({1 - after / before:.1%} less)")
    print(f"\nModel folder: {done.output}")
    print(f"Next: {program()} evaluate {done.output} --data FILE")


def print_pruning(pruning: Mapping[str, Any]) -> None:
    """What was dropped, from ``training.json``."""
    before, after = pruning["heads"]
    rows = pruning["rows"]
    if before == after:
        print(f"heads: each of the {before} was chosen by some of the {rows:,} rows, so none was dropped")
        return
    budget = pruning["budget"]
    asked = "" if budget is None else f" at the default budget {budget:.7g}"
    left = ", ".join(map(str, pruning["heads_by_layer"]))
    print(
        f"heads: {before - after} of {before} were chosen by none of the {rows:,} rows{asked} and are dropped; "
        f"left by layer: {left}"
    )
    print(
        f"check: {pruning['checked_same']:.2%} of the first {pruning['checked']:,} of these rows choose the same heads "
        "as before"
    )
    other = pruning.get("held_out")
    if other is None:
        print("note: rows that were not counted may have wanted a head that is gone; --validation FILE says how often")
        return
    print(
        f"on {other['rows']:,} other rows: same heads {other['same_heads']:.2%}, same label "
        f"{other['same_labels']:.2%}, accuracy {other['accuracy_before']:.4f} before and "
        f"{other['accuracy_after']:.4f} after"
    )
