"""Is the execution that ``auto`` takes ever slower than the reference? All combinations of shape, batch, length, heads.

    python benchmarks/auto.py --output results/auto.jsonl                    about ten minutes on two cores
    python benchmarks/auto.py --output results/auto.jsonl --shape tiny --batch 1

The encoder runs in float32 on batches of random words, all as long as N (``equal``) or between N/4 and N tokens long
(``mixed``), with k heads for every input, or 1 to H of them (``any``), drawn at random per input and layer. ``auto``
and ``reference`` take turns for some seconds. One row each, with the median ratio of paired rounds (above 1, ``auto``
is faster) and its 95 % interval. Combinations whose interval ends below 1 are slower beyond noise; they are named at
the end. A row replaces that of the same combination in the file.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from budgetformer import BudgetFormerConfig, BudgetFormerModel
from budgetformer.baselines import random_policy
from budgetformer.metering.latency import interleaved
from budgetformer.reporting.results import append_row, environment, read_rows
from inference import SHAPES

BATCHES, LENGTHS, WORDS = (1, 8, 32), (8, 32, 128, 512), 30_522
MOST_TOKENS = 4096
ROUNDS = (15, 101)
"""Counted rounds at least and at most."""
COMBINATION = ("shape", "batch", "length", "spread", "heads")


def ways(model: BudgetFormerModel, lengths: list[int], heads: int | None) -> dict[str, Callable[[], object]]:
    """The same batch by both executions; ``heads`` None: another number for each input."""
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    batch = {"input_ids": torch.randint(1, WORDS, mask.shape), "attention_mask": mask}
    all_heads = model.config.num_attention_heads
    heads_B = torch.randint(1, all_heads + 1, (len(lengths),)) if heads is None else torch.full((len(lengths),), heads)

    def run(execution: str) -> object:
        model.set_execution(execution)
        with torch.inference_mode():
            return model(**batch, budget=heads_B / all_heads, policy=random_policy(0))

    return {name: lambda name=name: run(name) for name in ("auto", "reference")}  # type: ignore[misc]


def measure(combination: dict[str, Any], *, seconds: float) -> dict[str, Any]:
    """One row; about ``seconds`` of rounds, within ``ROUNDS``."""
    shape, batch, length, heads = (combination[name] for name in ("shape", "batch", "length", "heads"))
    torch.manual_seed(0)
    model = BudgetFormerModel(BudgetFormerConfig(vocab_size=WORDS, **SHAPES[shape])).eval()
    drawn = np.random.default_rng(0).integers(max(1, length // 4), length + 1, batch).tolist()
    lengths = [length] * batch if combination["spread"] == "equal" else [length, *drawn[1:]]
    candidates = ways(model, lengths, None if heads == "any" else heads)
    first = interleaved(candidates, rounds=1, warmup=2)
    rounds = int(np.clip(seconds / sum(timing.median for timing in first.values()), *ROUNDS))
    times = interleaved(candidates, rounds=rounds, warmup=1)
    ratio = times["reference"].ratio(times["auto"])
    return combination | {
        "ratio": ratio.median,
        "interval": ratio.interval,
        "seconds": {name: timing.median for name, timing in times.items()},
        "rounds": rounds,
    }


def plan(shapes: Iterable[str], batches: Iterable[int], lengths: Iterable[int]) -> Iterator[dict[str, Any]]:
    """The combinations to measure."""
    for shape, batch, length in itertools.product(shapes, batches, lengths):
        all_heads = SHAPES[shape]["num_attention_heads"]
        numbers = (1, all_heads // 2, all_heads, "any")
        for spread, heads in itertools.product(("equal",) if batch == 1 else ("equal", "mixed"), numbers):
            if batch * length <= MOST_TOKENS:
                yield {"shape": shape, "batch": batch, "length": length, "spread": spread, "heads": heads}


def replace_row(file: Path, row: dict[str, Any]) -> None:
    """Append ``row``; one of the same combination goes."""
    old = read_rows(file) if file.is_file() else []
    kept = [one for one in old if any(one[name] != row[name] for name in COMBINATION)]
    file.write_text("".join(json.dumps(one) + "\n" for one in kept), encoding="utf-8")
    append_row(file, row)


def main() -> None:
    """Measure what was asked for, keep rows, name what lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="JSON lines; rows are added or replaced")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="default: all")
    parser.add_argument("--batch", type=int, action="append", help=f"default {BATCHES}")
    parser.add_argument("--length", type=int, action="append", help=f"default {LENGTHS}")
    parser.add_argument("--seconds", type=float, default=1.0, help="of rounds for each combination")
    given = parser.parse_args()
    combinations = list(plan(given.shape or SHAPES, given.batch or BATCHES, given.length or LENGTHS))
    lost = []
    for combination in tqdm(combinations, desc="auto against reference"):
        row = measure(combination, seconds=given.seconds)
        replace_row(given.output, {"experiment": "auto"} | row | environment())
        if row["interval"][1] < 1:
            lost.append(row)
    print(f"{len(combinations)} combinations; auto slower beyond noise in {len(lost)}")
    for row in lost:
        print(", ".join(f"{name} {row[name]}" for name in COMBINATION), f"ratio {row['ratio']:.2f}")


if __name__ == "__main__":
    main()
