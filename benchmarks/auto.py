"""Is the execution that ``auto`` takes ever slower than the reference? All combinations of shape, batch, length, heads.

    python benchmarks/auto.py --output results/auto.jsonl                    about ten minutes on two cores
    python benchmarks/auto.py --output results/auto.jsonl --shape tiny --batch 1

The encoder runs in float32 on batches of random words, all as long as N (``equal``) or between N/4 and N tokens long
(``mixed``), with k heads for every input, drawn at random per input and layer. ``auto`` and ``reference`` take turns.
One row each, with the ratio of paired rounds: above 1, ``auto`` is faster. Those whose upper quartile is below 1 are
named at the end.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from budgetformer import BudgetFormerConfig, BudgetFormerModel
from budgetformer.baselines import random_policy
from budgetformer.metering.latency import interleaved
from budgetformer.reporting.results import append_row, environment
from inference import SHAPES

BATCHES, LENGTHS, WORDS = (1, 8, 64), (8, 64, 256), 30_522
MOST_TOKENS = 4096


def ways(model: BudgetFormerModel, lengths: list[int], heads: int) -> dict[str, Callable[[], object]]:
    """The same batch by both executions."""
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    batch = {"input_ids": torch.randint(1, WORDS, mask.shape), "attention_mask": mask}
    budget = heads / model.config.num_attention_heads

    def run(execution: str) -> object:
        model.set_execution(execution)
        with torch.inference_mode():
            return model(**batch, budget=budget, policy=random_policy(0))

    return {name: lambda name=name: run(name) for name in ("auto", "reference")}  # type: ignore[misc]


def measure(shape: str, batch: int, length: int, spread: str, heads: int, *, rounds: int) -> dict[str, Any]:
    """One row."""
    torch.manual_seed(0)
    model = BudgetFormerModel(BudgetFormerConfig(vocab_size=WORDS, **SHAPES[shape])).eval()
    drawn = np.random.default_rng(0).integers(max(1, length // 4), length + 1, batch).tolist()
    lengths = [length] * batch if spread == "equal" else [length, *drawn[1:]]
    times = interleaved(ways(model, lengths, heads), rounds=rounds, warmup=2)
    ratio = times["reference"].ratio(times["auto"])
    return {
        "shape": shape,
        "batch": batch,
        "length": length,
        "spread": spread,
        "heads": heads,
        "ratio": ratio.median,
        "quartiles": (ratio.lower, ratio.upper),
        "seconds": {name: timing.median for name, timing in times.items()},
        "rounds": rounds,
    }


def main() -> None:
    """Measure what was asked for, append rows, name what lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="JSON lines; rows are appended")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="default: all")
    parser.add_argument("--batch", type=int, action="append", help=f"default {BATCHES}")
    parser.add_argument("--length", type=int, action="append", help=f"default {LENGTHS}")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    asked = itertools.product(given.shape or SHAPES, given.batch or BATCHES, given.length or LENGTHS)
    plan = [
        (shape, batch, length, spread, heads)
        for shape, batch, length in asked
        if batch * length <= MOST_TOKENS
        for spread in (("equal",) if batch == 1 else ("equal", "mixed"))
        for heads in (1, SHAPES[shape]["num_attention_heads"] // 2, SHAPES[shape]["num_attention_heads"])
    ]
    lost = []
    for one in tqdm(plan, desc="auto against reference"):
        row = measure(*one, rounds=given.rounds)
        append_row(given.output, {"experiment": "auto"} | row | environment())
        if row["quartiles"][1] < 1:
            lost.append(row)
    print(f"{len(plan)} combinations; auto clearly slower in {len(lost)}")
    for row in lost:
        names = ("shape", "batch", "length", "spread", "heads")
        print(", ".join(f"{name} {row[name]}" for name in names), f"ratio {row['ratio']:.2f}")


if __name__ == "__main__":
    main()
