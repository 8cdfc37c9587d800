"""The demo: a BudgetFormer, its full-attention twin and TF-IDF on the BBC News articles, side by side."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
from rich.console import Console

from .baselines import evaluate_tfidf, random_policy
from .data.labels import encode_labels
from .data.registry import DEMO, NamedData, load_named
from .evaluation import Evaluation, evaluate
from .inference import Classifier
from .training import TrainingResult, TrainingSettings, run

MAX_LENGTH = 256
VOCABULARY = 8000
PRESET = "tiny"
EPOCHS = 8


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """What the demo measured: ``figures`` by model name, the folder and the report."""

    figures: dict[str, dict[str, Any]]
    curve: list[dict[str, Any]]
    folder: Path
    report: Path


def run_demo(output: Path, *, seed: int = 0, epochs: float = EPOCHS, overwrite: bool = True) -> DemoResult:
    """Train both models, measure everything on the held-out articles, print one table, write the report.

    Articles are cut to 256 tokens; the model folders are ``output`` and ``output/full-attention``.
    """
    console = Console(stderr=False)
    started = time.perf_counter()
    articles = {split: _split(split) for split in ("train", "test")}
    console.print(f"Data: {articles['train'].origin}.\n[bold]Licence:[/bold] {articles['train'].licence}.")
    trained = {
        "BudgetFormer": run(demo_settings(output, seed=seed, epochs=epochs, budgeted=True, overwrite=overwrite)),
        "full attention": run(
            demo_settings(output / "full-attention", seed=seed, epochs=epochs, budgeted=False, overwrite=overwrite)
        ),
    }
    classes = articles["train"].class_names
    test = encode_labels(articles["test"].dataset, classes, source="the test articles")
    train = encode_labels(articles["train"].dataset, classes, source="the training articles")
    measured = measure(trained, test)
    figures = {name: evaluation.figures for name, evaluation in measured.items()}
    figures["TF-IDF + logistic regression"] = evaluate_tfidf(train, test, seed=seed)
    curve = budget_curve(trained["BudgetFormer"].output, test)
    ...
