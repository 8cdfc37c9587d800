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
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from budgetformer import method
from budgetformer.configuration import BudgetFormerConfig
from budgetformer.data.controlled import RELATIONS, ControlledData, ControlledTask
from budgetformer.modeling import BudgetFormerForSequenceClassification
from budgetformer.version import __version__


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
    "attention_free": Run(model={"fixed_budget": 0.0}),
    "full": Run(model={"budgeted": False}),
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


@torch.no_grad()
def answer(
    model: BudgetFormerForSequenceClassification, data: ControlledData, policy: method.Policy | None = None
) -> dict[str, np.ndarray]:
    """Predictions and, for a budgeted model, what it decided for every input."""
    parts: dict[str, list[torch.Tensor]] = {}
    for ids in torch.from_numpy(data.input_ids).split(500):
        output = model(ids, policy=policy, output_budgets=True)
        fields = {"predicted": output.logits.argmax(dim=-1)}
        fields |= {name: output[name] for name in ("budgets", "heads", "relevance", "kept") if name in output}
        for name, value in fields.items():
            parts.setdefault(name, []).append(value)
    return {name: torch.cat(values).numpy() for name, values in parts.items()}


def by_difficulty(values: np.ndarray, data: ControlledData) -> list[float]:
    """Mean for every difficulty 0..R."""
    return [round(float(values[data.difficulty == d].mean()), 4) for d in range(len(RELATIONS) + 1)]


def rank_correlation(values: np.ndarray, data: ControlledData) -> float | None:
    """Spearman's rank correlation with the difficulty; None when all values are the same."""
    return None if np.ptp(values) < 1e-9 else round(float(spearmanr(values, data.difficulty).statistic), 4)


def correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    """Pearson's correlation of all entries; None when one side is constant."""
    return None if min(np.ptp(a), np.ptp(b)) < 1e-9 else round(float(np.corrcoef(a.ravel(), b.ravel())[0, 1]), 4)


def readable(features: np.ndarray, data: ControlledData) -> float:
    """How well a logistic regression reads the named relations from ``features`` (rows, F): mean accuracy of R bits.

    Fitted on the first half of the rows, measured on the second.
    """
    half = len(features) // 2
    scores = []
    for r in range(len(RELATIONS)):
        fitted = LogisticRegression(C=100.0, max_iter=2000).fit(features[:half], data.named[:half, r])
        scores.append(fitted.score(features[half:], data.named[half:, r]))
    return round(float(np.mean(scores)), 4)


def right_by_relation(predicted: np.ndarray, data: ControlledData) -> list[float]:
    """For every relation: how often its bit of the label is right among the inputs that name it."""
    return [
        round(float(((predicted >> r & 1) == data.answers[:, r])[data.named[:, r]].mean()), 4)
        for r in range(len(RELATIONS))
    ]


@torch.no_grad()
def harm_without_head(model: BudgetFormerForSequenceClassification, data: ControlledData) -> np.ndarray:
    """(R, L, H): what every relation loses in ``right_by_relation`` when one head gives nothing, for all inputs."""
    config = model.config
    base = np.array(right_by_relation(answer(model, data)["predicted"], data))
    harm = np.zeros((len(RELATIONS), config.num_hidden_layers, config.num_attention_heads))
    for layer, block in enumerate(model.budgetformer.layers):
        weight = block.attention.output.weight
        for head in range(config.num_attention_heads):
            columns = slice(head * config.head_size, (head + 1) * config.head_size)
            saved = weight[:, columns].clone()
            weight[:, columns] = 0.0
            harm[:, layer, head] = base - right_by_relation(answer(model, data)["predicted"], data)
            weight[:, columns] = saved
    return harm


def measure(model: BudgetFormerForSequenceClassification, data: ControlledData) -> dict[str, Any]:
    """All figures of one trained model; see docs/controlled.md."""
    learned = answer(model, data)
    right = learned["predicted"] == data.labels
    metrics: dict[str, Any] = {
        "accuracy": round(float(right.mean()), 4),
        "accuracy_by_difficulty": by_difficulty(right, data),
    }
    metrics["accuracy_by_relation"] = right_by_relation(learned["predicted"], data)
    if "heads" not in learned:
        layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
        return metrics | {"mean_heads": float(heads), "heads_per_layer": [float(heads)] * layers}
    heads, kept = learned["heads"].astype(float), learned["kept"].astype(float)
    metrics["mean_heads"] = round(float(heads.mean()), 4)
    metrics["heads_per_layer"] = heads.mean(axis=0).round(4).tolist()
    metrics["heads_by_difficulty"] = by_difficulty(heads.mean(axis=1), data)
    if model.config.fixed_budget is not None:
        return metrics
    rng = np.random.default_rng(0)
    within = np.arange(len(heads))
    for d in range(len(RELATIONS) + 1):
        within[data.difficulty == d] = rng.permutation(within[data.difficulty == d])
    random = answer(model, data, method.random_policy(seed=0))["predicted"] == data.labels
    relevance, use = learned["relevance"].reshape(len(heads), -1), kept.reshape(len(heads), -1)
    follows = np.stack(
        [kept[data.named[:, r]].mean(axis=0) - kept[~data.named[:, r]].mean(axis=0) for r in range(len(RELATIONS))]
    )
    harm = harm_without_head(model, data.first(1000))
    return metrics | {
        "mean_budget": round(float(learned["budgets"].mean()), 4),
        "budget_per_layer": learned["budgets"].mean(axis=0).round(4).tolist(),
        "budget_by_difficulty": by_difficulty(learned["budgets"].mean(axis=1), data),
        "rank_correlation_budget": rank_correlation(learned["budgets"].mean(axis=1), data),
        "rank_correlation_budget_per_layer": [rank_correlation(s, data) for s in learned["budgets"].T],
        "rank_correlation_heads": rank_correlation(heads.mean(axis=1), data),
        "accuracy_random_heads": round(float(random.mean()), 4),
        "accuracy_random_heads_by_difficulty": by_difficulty(random, data),
        "named_from_relevance": readable(relevance, data),
        "named_from_relevance_shuffled": readable(relevance[rng.permutation(len(heads))], data),
        "named_from_relevance_shuffled_within_difficulty": readable(relevance[within], data),
        "named_from_heads": readable(use, data),
        "named_from_heads_shuffled_within_difficulty": readable(use[within], data),
        "distinct_heads_per_layer": (kept.mean(axis=0) > 0.01).sum(axis=-1).tolist(),
        "use_named_minus_unnamed": follows.round(3).tolist(),
        "harm_without_head": harm.round(3).tolist(),
        "use_follows_harm": correlation(follows, harm),
    }


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
