"""What the budgets cost: a step of training beside one of the Transformer, and the memory of attention by heads.

Nothing is learned here and no data set is read: texts are random tokens of the full length.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

from budgetformer.attention import BudgetedSelfAttention
from budgetformer.configuration import BudgetFormerConfig
from budgetformer.inference import pick_device
from budgetformer.metering.attention_memory import AllocationMeter, attention_bytes
from budgetformer.modeling import BudgetFormerForSequenceClassification
from budgetformer.training.schedule import training_statistics

from .recipe import Recipe

STEPS, WARM_UP = 30, 3
"""Steps of each model that count, and steps before them that do not."""
BATCH = 8
"""Texts of the attention layer whose memory is measured."""


def measure_cost(recipe: Recipe, *, seed: int, device: str, steps: int = STEPS) -> dict[str, Any]:
    """Steps of the recipe's training and of its full-attention twin, in turns, so that other work of the machine falls
    on both: seconds of each step, and the memory of one. And the memory of one attention layer at 1 to H heads.

    Memory is what torch allocates beyond the weights: exact on the CPU, the highest of the device on a GPU.
    """
    assert recipe.training is not None
    settings, config = recipe.training.resolved(), recipe.model_config()
    where = torch.device(pick_device(device))
    torch.manual_seed(seed)
    shape = (settings.batch_size or 1, settings.max_length)
    batch = {
        "input_ids": torch.randint(5, config.vocab_size, shape, device=where),
        "attention_mask": torch.ones(shape, dtype=torch.long, device=where),
        "labels": torch.randint(config.num_labels, shape[:1], device=where),
    }
    both = {
        name: _Trained(made, batch, settings.learning_rate or 1e-4)
        for name, made in (("budgetformer", config), ("transformer", config.dense_twin()))
    }
    seconds: dict[str, list[float]] = {name: [] for name in both}
    for number in range(WARM_UP + steps):
        order = list(both) if number % 2 else list(both)[::-1]
        for name in order:
            taken = both[name].step()
            if number >= WARM_UP:
                seconds[name].append(taken)
    ratios = [a / b for a, b in zip(seconds["budgetformer"], seconds["transformer"], strict=True)]
    return {
        "step_seconds": {name: statistics.median(values) for name, values in seconds.items()},
        "step_ratio": {"median": statistics.median(ratios), "interval": _interval_of_median(ratios)},
        "step_memory": {name: one.memory() for name, one in both.items()},
        "steps": steps,
        "batch": list(shape),
        "attention_memory": _attention_memory(config, settings.max_length),
    }


class _Trained:
    """A model and its optimiser, one step at a time, without data loading and logging."""

    def __init__(self, config: BudgetFormerConfig, batch: dict[str, torch.Tensor], rate: float) -> None:
        self.batch = batch
        self.where = batch["input_ids"].device
        self.model = BudgetFormerForSequenceClassification(config).to(self.where).train()
        self.model.set_progress(0.5)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate)

    def step(self) -> float:
        """Seconds of forward pass, backward pass and update."""
        self._wait()
        started = time.perf_counter()
        self.model(**self.batch).loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self._wait()
        return time.perf_counter() - started

    def memory(self) -> int | None:
        """Bytes of one step beyond weights and moments; None where it cannot be measured."""
        if self.where.type == "cuda":
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            self.step()
            return torch.cuda.max_memory_allocated() - before
        training_statistics(self.model)  # its sums are freed in the block otherwise, which the profiler complains of
        with AllocationMeter() as meter:
            self.model(**self.batch).loss.backward()
        self.optimizer.zero_grad()
        return meter.peak.increase

    def _wait(self) -> None:
        if self.where.type == "cuda":
            torch.cuda.synchronize()


def _attention_memory(config: BudgetFormerConfig, length: int) -> list[dict[str, Any]]:
    """Bytes that one layer allocates at each number of heads, on the CPU with packed execution, and the closed form."""
    heads = config.num_attention_heads
    layer = BudgetedSelfAttention(hidden_size=config.hidden_size, num_heads=heads, execution="packed").eval()
    x_BND = torch.randn(BATCH, length, config.hidden_size)
    rows = []
    for kept in range(1, heads + 1):
        with torch.inference_mode():
            layer(x_BND, budget=kept / heads)
            with AllocationMeter() as meter:
                layer(x_BND, budget=kept / heads)
        closed = attention_bytes(config, [length] * BATCH, kept)
        rows.append({"heads": kept, "allocated": meter.peak.increase, "closed_form": closed})
    return rows


def _interval_of_median(values: list[float]) -> list[float]:
    """About 95 %, from the order of the values (no assumption on how they spread)."""
    ordered, count = sorted(values), len(values)
    reach = 0.98 * count**0.5
    low, high = max(0, int(count / 2 - reach)), min(count - 1, int(count / 2 + reach))
    return [ordered[low], ordered[high]]
