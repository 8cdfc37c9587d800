"""What do heads that are not computed save on a GPU? The encoder in bf16 against full attention, padded and not.

    python benchmarks/inference_cuda.py --output results/inference_cuda.jsonl                   N = 64, 128, …, 4096
    python benchmarks/inference_cuda.py --output results/inference_cuda.jsonl --length 512 --shortest 1.0

For every N the same batch of texts, in random order, between a quarter of N and N tokens long (``--shortest``), is
encoded by

- ``sdpa_padded``: the full-attention twin, padded to the longest text, scaled_dot_product_attention with a mask;
- ``varlen_dense``: the same twin on packed tokens, ``varlen_attn`` with all heads, no padding anywhere;
- ``budgetformer``: the budgeted model with the same weights at 1, 2, …, H heads per input and layer, chosen at random
  per input, gates 0 or 1, execution ``cuda``.

One row each. All of them take turns in every round, after rounds that do not count, and the device is waited for
before and after each. Seconds are the median and the quartiles of the rounds. Needs a GPU from Ampere on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from budgetformer import BudgetFormerConfig, BudgetFormerModel
from budgetformer.baselines import random_policy
from budgetformer.execution import cuda
from budgetformer.metering.latency import interleaved, wait_for
from budgetformer.metering.macs import executed_macs, padded_macs
from budgetformer.reporting.results import append_row, environment

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way to encode the batch; ``heads`` per input and layer, ``macs`` multiply-adds of the whole batch."""

    name: str
    heads: int
    macs: int
    run: Callable[[], Tensor]


def contenders(
    config: BudgetFormerConfig, lengths: list[int], *, device: torch.device, fast: str = "cuda"
) -> Iterator[Contender]:
    """Every way to encode one batch of texts of random words; ``fast`` is the execution that skips."""
    torch.manual_seed(0)
    ours = BudgetFormerModel(config).to(device, torch.bfloat16).eval()
    twin = BudgetFormerModel(config.dense_twin()).to(device, torch.bfloat16).eval()
    twin.load_state_dict(ours.state_dict(), strict=False)
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    words = torch.randint(1, config.vocab_size, mask.shape)
    batch = {"input_ids": words.to(device), "attention_mask": mask.to(device)}

    @torch.inference_mode()
    def encode(model: BudgetFormerModel, execution: str, **request: Any) -> Tensor:
        model.set_execution(execution)
        return model(**batch, **request).last_hidden_state

    heads = config.num_attention_heads
    macs = executed_macs(twin.config, lengths, heads).sum()
    padded = padded_macs(twin.config, lengths, max(lengths)).sum()
    yield Contender(name="sdpa_padded", heads=heads, macs=int(padded), run=partial(encode, twin, "reference"))
    yield Contender(name="varlen_dense", heads=heads, macs=int(macs), run=partial(encode, twin, fast))
    for kept in range(1, heads + 1):
        run = partial(encode, ours, fast, budget=kept / heads, policy=random_policy(0))
        macs = executed_macs(config, lengths, kept).sum()
        yield Contender(name="budgetformer", heads=kept, macs=int(macs), run=run)


def peak_bytes(run: Callable[[], Tensor], device: torch.device) -> int | None:
    """Memory that ``run`` needs above what is there before; None on a CPU."""
    if device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    wait_for(device)
    return torch.cuda.max_memory_allocated(device) - before


def measure(
    config: BudgetFormerConfig,
    lengths: list[int],
    *,
    device: torch.device,
    rounds: int,
    warm_up: int,
    fast: str = "cuda",
) -> list[dict[str, Any]]:
    """A row for each contender. ``difference``: the largest from ``sdpa_padded``, over its largest value."""
    ways = list(contenders(config, lengths, device=device, fast=fast))
    truth = ways[0].run().float()
    rows = []
    for way in ways:
        dense = way.heads == config.num_attention_heads
        difference = float((way.run().float() - truth).abs().max() / truth.abs().max()) if dense else None
        rows.append(
            {
                "contender": way.name,
                "heads": way.heads,
                "macs": way.macs,
                "difference": difference,
                "peak_bytes": peak_bytes(way.run, device),
            }
        )
    runs = {f"{way.name}, {way.heads} heads": way.run for way in ways}
    taken = interleaved(runs, rounds=rounds, warmup=warm_up, synchronize=device)
    for row, timing in zip(rows, taken.values(), strict=True):
        (low, high), median = timing.quartiles, timing.median
        row["seconds"] = {"median": median, "lower_quartile": low, "upper_quartile": high, "rounds": rounds}
        row["tokens_per_second"] = sum(lengths) / median
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Measure every length that was asked for and append the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="JSON lines; rows are appended")
    parser.add_argument("--length", type=int, action="append", help=f"N; default {LENGTHS}")
    parser.add_argument("--shortest", type=float, default=0.25, help="length of the shortest texts over N (0.25)")
    parser.add_argument("--tokens", type=int, default=65_536, help="padded tokens of a batch (65536)")
    parser.add_argument("--preset", default="paper", help="shape of the model (paper)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=5)
    given = parser.parse_args(arguments)
    device = torch.device("cuda")
    shape = partial(BudgetFormerConfig.preset, given.preset, selection="straight_through")
    if not torch.cuda.is_available():
        raise SystemExit(f"this benchmark needs a CUDA device, and torch {torch.__version__} sees none")
    if reason := cuda.refusal(device=device, dtype=torch.bfloat16, head_size=shape().head_size):
        raise SystemExit(f"this benchmark needs the execution cuda, which {reason}")
    for longest in given.length or LENGTHS:
        config = shape(max_position_embeddings=longest)
        count = max(1, given.tokens // longest)
        shortest = max(1, round(given.shortest * longest))
        lengths = np.random.default_rng(0).integers(shortest, longest + 1, count).tolist()
        lengths[0] = longest
        setting = {"benchmark": "inference_cuda", "preset": given.preset, "dtype": "bfloat16", "length": longest}
        setting |= {"texts": count, "shortest": shortest, "tokens": sum(lengths), "seed": 0}
        for row in measure(config, lengths, device=device, rounds=given.rounds, warm_up=given.warm_up):
            append_row(given.output, setting | row | environment())
            print(longest, row["contender"], row["heads"], f"{row['seconds']['median']:.5f} s")


if __name__ == "__main__":
    main()
