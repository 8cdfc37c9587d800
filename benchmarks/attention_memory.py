"""Does the memory of attention fall with the heads? One layer of the paper's shape at 1, 2, …, H heads.

    python benchmarks/attention_memory.py --output results/attention_memory.jsonl

A batch of texts of N tokens goes through one ``BudgetedSelfAttention``; measured is the highest sum of what torch had
allocated at once, and beside it the closed form of the heads' working set (``metering/attention_memory.py``). One row
for each number of heads, and one for the reference, which computes all of them. Seconds on any machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from budgetformer import BudgetedSelfAttention, BudgetFormerConfig
from budgetformer.metering.attention_memory import AllocationMeter, attention_bytes
from budgetformer.reporting.results import append_row, environment


def measure(config: BudgetFormerConfig, *, batch: int, length: int) -> list[dict[str, Any]]:
    """A row for each number of heads, then the reference."""
    torch.manual_seed(0)
    heads = config.num_attention_heads
    layer = BudgetedSelfAttention(hidden_size=config.hidden_size, num_heads=heads).eval()
    x = torch.randn(batch, length, config.hidden_size)
    rows = []
    for execution, kept in [*(("packed", k) for k in range(1, heads + 1)), ("reference", heads)]:
        layer.execution = execution
        with torch.inference_mode():
            layer(x, budget=kept / heads)
            with AllocationMeter() as meter:
                layer(x, budget=kept / heads)
        closed = attention_bytes(config, [length] * batch, kept)
        rows.append({"execution": execution, "heads": kept, "allocated": meter.peak.increase, "closed_form": closed})
    return rows


def main() -> None:
    """Measure and append the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="JSON lines; rows are appended")
    parser.add_argument("--preset", default="paper", help="shape of the layer (paper)")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    given = parser.parse_args()
    config = BudgetFormerConfig.preset(given.preset, max_position_embeddings=max(given.length, 512))
    setting = {"experiment": "attention_memory", "preset": given.preset, "batch": given.batch, "length": given.length}
    for row in measure(config, batch=given.batch, length=given.length):
        append_row(given.output, setting | row | environment())
        print(f"{row['execution']:>9} {row['heads']:>2} heads: {row['allocated'] / 2**20:7.1f} MiB", end="")
        print(f", closed form {row['closed_form'] / 2**20:7.1f} MiB")


if __name__ == "__main__":
    main()
