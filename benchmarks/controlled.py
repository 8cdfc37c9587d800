"""Do budgets follow what an input needs? Trains small models on the generated task of ``budgetformer.data.controlled``.

    python benchmarks/controlled.py --output results/controlled.jsonl                   every variant, one row each
    python benchmarks/controlled.py --output results/controlled.jsonl --only price --seed 1
    python benchmarks/controlled.py --output results/controlled.jsonl --figure docs/img/controlled.png   figure only

One variant takes about two minutes on one core. docs/controlled.md explains the rows.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from budgetformer.configuration import BudgetFormerConfig
from budgetformer.data.controlled import RELATIONS, ControlledTask
from budgetformer.modeling import BudgetFormerForSequenceClassification
from budgetformer.version import __version__
from controlled_measures import measure


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training: the task, the fields of the model, the length, and where in training the price sets in.

    The price is 0 before ``price_ramp[0]``, full from ``price_ramp[1]`` on (as t/T), linear between.
    """

    task: ControlledTask = field(default_factory=ControlledTask)
    model: dict[str, Any] = field(default_factory=dict)
    price_ramp: tuple[float, float] = (0.3, 0.6)
    steps: int = 3000
    batch: int = 64
    learning_rate: float = 2e-3
    training_rows: int = 64_000
    test_rows: int = 4_000

    def config(self) -> BudgetFormerConfig:
        """Two pre-norm layers of eight heads with 8 dimensions; no dropout: the data never run out."""
        fixed = {
            "vocab_size": self.task.vocab_size,
            "num_labels": self.task.num_labels,
            "max_position_embeddings": self.task.length,
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 8,
            "intermediate_size": 128,
            "initializer_range": 0.1,
            "norm_position": "pre",
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "classifier_dropout": 0.0,
            "min_heads": 0,
            "s_min": 0.05,
            "s_max": 0.9,
        }
        return BudgetFormerConfig(**(fixed | self.model))


PRICE = 0.05
VARIANTS: dict[str, Run] = {
    "attention_free": Run(model={"fixed_budget": 0.0}, steps=1000),
    "full": Run(model={"budgeted": False}, steps=1500),
    "untrained": Run(steps=0),
    "no_price": Run(),
    "price": Run(model={"budget_price": PRICE}),
    "price_min_heads_1": Run(model={"budget_price": PRICE, "min_heads": 1}),
    "price_from_the_start": Run(model={"budget_price": PRICE}, price_ramp=(0.0, 0.0)),
    "price_post_norm": Run(model={"budget_price": PRICE, "norm_position": "post"}),
    "narrow_interval": Run(model={"s_min": 0.1, "s_max": 0.3, "min_heads": 1}),
    "soft": Run(model={"selection": "soft"}),
    "soft_price": Run(model={"selection": "soft", "budget_price": PRICE}),
}


class Schedule(TrainerCallback):
    """Sets t/T and the price of the moment before every step."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.price = run.config().budget_price

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        progress = state.global_step / state.max_steps
        start, end = self.run.price_ramp
        share = float(progress >= start) if end <= start else min(1.0, max(0.0, (progress - start) / (end - start)))
        kwargs["model"].set_progress(progress)
        kwargs["model"].config.budget_price = self.price * share


def train(run: Run, seed: int) -> BudgetFormerForSequenceClassification:
    """Train one model with ``transformers.Trainer`` on CPU; with 0 steps it stays as it was initialised."""
    set_seed(seed)
    model = BudgetFormerForSequenceClassification(run.config())
    if run.steps == 0:
        return model.eval()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=run.steps,
            per_device_train_batch_size=run.batch,
            learning_rate=run.learning_rate,
            lr_scheduler_type="polynomial",
            lr_scheduler_kwargs={"power": 0.5},
            warmup_steps=min(200, run.steps // 10),
            logging_steps=max(1, run.steps // 10),
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            seed=seed,
        )
        rows = run.task.generate(run.training_rows, seed=seed).dataset()
        Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[Schedule(run)]).train()
    return model.eval()


def machine() -> dict[str, Any]:
    """What the figures depend on besides the config: commit, versions, processor."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--abbrev=40", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    info = Path("/proc/cpuinfo")
    names = (
        [line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        if info.exists()
        else []
    )
    return {
        "commit": commit.stdout.strip() or None,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "budgetformer": __version__,
        },
        "cpu": names[0] if names else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
    }


def figure(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Accuracy and heads by difficulty, one line per variant, the mean of its seeds; from the rows alone."""
    from matplotlib.figure import Figure

    names = ["attention_free", "full", "no_price", "price", "price_from_the_start"]
    shown = [name for name in names if any(row["variant"] == name for row in rows)]
    picture = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = picture.subplots(1, 2)
    difficulty = np.arange(len(RELATIONS) + 1)
    for name, marker, style in zip(shown, "sv^oD", (":", "--", "-.", "-", "--"), strict=False):
        own = [row for row in rows if row["variant"] == name]
        look = {"marker": marker, "linestyle": style, "label": name.replace("_", " ")}
        left.plot(difficulty, np.mean([row["accuracy_by_difficulty"] for row in own], axis=0), **look)
        heads = [row.get("heads_by_difficulty", [row["mean_heads"]] * len(difficulty)) for row in own]
        right.plot(difficulty, np.mean(heads, axis=0), **look)
    left.plot(difficulty, 0.5**difficulty, color="grey", linewidth=1, label="chance, 2^-difficulty")
    left.set(xlabel="difficulty (relations named)", ylabel="accuracy", ylim=(0, 1.05), xticks=difficulty)
    right.set(
        xlabel="difficulty (relations named)", ylabel="heads per layer, of 8", ylim=(-0.2, 8.4), xticks=difficulty
    )
    left.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="JSON lines file; rows are added at its end")
    parser.add_argument("--only", choices=VARIANTS, action="append", help="variants to run, all by default; repeatable")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="optimiser steps in place of the variant's own")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--figure", type=Path, help="draw the rows of --output into this file and train nothing")
    options = parser.parse_args()
    if options.figure:
        figure([json.loads(line) for line in options.output.read_text().splitlines()], options.figure)
        return
    torch.set_num_threads(options.threads)
    for name in options.only or VARIANTS:
        run = VARIANTS[name] if options.steps is None else dataclasses.replace(VARIANTS[name], steps=options.steps)
        started = time.perf_counter()
        model = train(run, options.seed)
        seconds = time.perf_counter() - started
        metrics = measure(model, run.task.generate(run.test_rows, seed=1_000_000 + options.seed))
        config = dataclasses.asdict(run) | {"model": run.config().to_diff_dict()}
        row = {"benchmark": "controlled", "variant": name, "seed": options.seed, "config": config}
        row |= machine() | {"training_seconds": round(seconds, 1)} | metrics
        options.output.parent.mkdir(parents=True, exist_ok=True)
        with options.output.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{name}, seed {options.seed}: {json.dumps(metrics)}", flush=True)


if __name__ == "__main__":
    main()
