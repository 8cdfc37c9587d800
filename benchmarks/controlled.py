"""Do budgets follow what an input needs? Trains small models on the generated task of ``budgetformer.data.controlled``.

    python benchmarks/controlled.py --output results/controlled.jsonl                   every variant, one row each
    python benchmarks/controlled.py --output results/controlled.jsonl --only price --seed 1
    python benchmarks/controlled.py --output results/controlled.jsonl --figure docs/img/controlled.png   from the rows

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
from transformers import Trainer, TrainingArguments, set_seed

from budgetformer.configuration import BudgetFormerConfig
from budgetformer.data.controlled import RELATIONS, ControlledTask
from budgetformer.modeling import BudgetFormerForSequenceClassification
from budgetformer.training import BudgetSchedule
from budgetformer.version import __version__
from controlled_measures import correlation, effect_of_naming, measure


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
        fixed: dict[str, Any] = {
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
    "price_low": Run(model={"budget_price": PRICE * 0.4}),
    "price_high": Run(model={"budget_price": PRICE * 4}),
    "price_min_heads_1": Run(model={"budget_price": PRICE, "min_heads": 1}),
    "price_from_the_start": Run(model={"budget_price": PRICE}, price_ramp=(0.0, 0.0)),
    "price_post_norm": Run(model={"budget_price": PRICE, "norm_position": "post"}),
    "narrow_interval": Run(model={"s_min": 0.1, "s_max": 0.3, "min_heads": 1}),
    "soft": Run(model={"selection": "soft"}),
    "soft_price": Run(model={"selection": "soft", "budget_price": PRICE}),
}


class Schedule(BudgetSchedule):
    """Sets t/T and the price of the moment before every step."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self.price = run.config().budget_price

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        super().on_step_begin(args, state, control, **kwargs)
        progress = state.global_step / state.max_steps
        start, end = self.run.price_ramp
        share = float(progress >= start) if end <= start else min(1.0, max(0.0, (progress - start) / (end - start)))
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


TABLES: dict[str, dict[str, str]] = {
    "Accuracy and heads": {
        "accuracy": "accuracy",
        "at difficulty 0 … 4": "accuracy_by_difficulty",
        "random heads": "accuracy_random_heads",
        "heads per layer": "mean_heads",
        "at difficulty 0 … 4 ": "heads_by_difficulty",
    },
    "What the heads follow": {
        "ρ(budget, difficulty)": "rank_correlation_budget",
        "per layer": "rank_correlation_budget_per_layer",
        "ρ(heads, difficulty)": "rank_correlation_heads",
        "naming opens what helps": "naming_opens_what_helps",
        "named from heads": "named_from_heads",
        "shuffled within a difficulty": "named_from_heads_shuffled_within_difficulty",
        "named from p": "named_from_relevance",
        "shuffled within a difficulty ": "named_from_relevance_shuffled_within_difficulty",
        "shuffled": "named_from_relevance_shuffled",
    },
}


def table(rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> str:
    """The rows as a Markdown table in the order of the variants; rows without any of the columns are left out."""
    lines = ["| variant | seed | " + " | ".join(columns) + " |", "| --- | ---: |" + " ---: |" * len(columns)]
    for row in sorted(rows, key=lambda row: (list(VARIANTS).index(row["variant"]), row["seed"])):
        if "harm_without_head" in row:
            effect = effect_of_naming(np.array(row["use_named_minus_unnamed"]))
            row = row | {"naming_opens_what_helps": correlation(effect, np.array(row["harm_without_head"]))}
        if any(name in row for name in columns.values()):
            cells = [_cell(row.get(name)) for name in columns.values()]
            lines.append(f"| `{row['variant']}` | {row['seed']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: float | list[float | None] | None) -> str:
    if isinstance(value, list):
        return " ".join("–" if v is None else f"{v:.2f}" for v in value)
    return "–" if value is None else f"{value:.3f}"


def figure(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Accuracy and heads by difficulty, and what the heads of one priced model are for; from the rows alone."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(9, 6.4), layout="constrained")
    panels = picture.subplots(2, 2, height_ratios=(3, 2))
    names = ["attention_free", "full", "no_price", "price", "price_from_the_start"]
    difficulty = np.arange(len(RELATIONS) + 1)
    for name, marker, style in zip(names, "sv^oD", (":", "--", "-.", "-", "--"), strict=True):
        own = [row for row in rows if row["variant"] == name]
        if own:
            look: dict[str, Any] = {"marker": marker, "linestyle": style, "label": name.replace("_", " ")}
            panels[0, 0].plot(difficulty, np.mean([row["accuracy_by_difficulty"] for row in own], axis=0), **look)
            heads = [row.get("heads_by_difficulty", [row["mean_heads"]] * len(difficulty)) for row in own]
            panels[0, 1].plot(difficulty, np.mean(heads, axis=0), **look)
    panels[0, 0].plot(difficulty, 0.5**difficulty, color="grey", linewidth=1, label="chance")
    panels[0, 0].set(ylabel="accuracy", ylim=(0, 1.05))
    panels[0, 1].set(ylabel="heads per layer, of 8", ylim=(-0.2, 8.4))
    for panel in panels[0]:
        panel.set(xlabel="difficulty (relations named)", xticks=difficulty)
    panels[0, 0].legend(frameon=False, fontsize=8)
    priced = [row for row in rows if row["variant"] == "price"]
    if priced:
        row = max(priced, key=lambda row: row["seed"])
        effect = effect_of_naming(np.array(row["use_named_minus_unnamed"]))
        harm = np.array(row["harm_without_head"])
        titles = (f"naming opens the head (seed {row['seed']})", "closing the head costs accuracy")
        for panel, values, title in zip(panels[1], (effect, harm), titles, strict=True):
            flat = values.reshape(len(RELATIONS), -1)
            image = panel.imshow(flat, cmap="PuOr_r", vmin=-1, vmax=1, aspect="auto")
            panel.axvline(values.shape[2] - 0.5, color="black", linewidth=1)
            panel.set(
                title=title, xlabel="head: layer 0 | layer 1", yticks=range(len(RELATIONS)), yticklabels=RELATIONS
            )
            panel.set_xticks(range(flat.shape[1]), [h % values.shape[2] for h in range(flat.shape[1])], fontsize=8)
        picture.colorbar(image, ax=panels[1].tolist())
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="JSON lines file; rows are added at its end")
    parser.add_argument("--only", choices=VARIANTS, action="append", help="variants to run, all by default; repeatable")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="optimiser steps in place of the variant's own")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--figure", type=Path, help="draw the rows of --output into this file, print them as a table, train nothing"
    )
    options = parser.parse_args()
    if options.figure:
        rows = [json.loads(line) for line in options.output.read_text().splitlines()]
        figure(rows, options.figure)
        for title, columns in TABLES.items():
            print(f"\n{title}\n\n{table(rows, columns)}")
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
