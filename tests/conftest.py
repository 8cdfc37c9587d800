"""Small texts and models that the tests share."""

from __future__ import annotations

import csv
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification

# One thread in this process and in those that tests start: several run at a time, and the last digits of a sum depend
# on how many threads share it.
torch.set_num_threads(int(os.environ.setdefault("OMP_NUM_THREADS", "1")))

WORDS = {
    "praise": ["good", "great", "fine", "lovely", "nice", "super"],
    "refund": ["bad", "awful", "poor", "sad", "ugly", "weak"],
    "Übrig / other": ["table", "chair", "lamp", "window", "door", "floor"],
}
FILLER = ["the", "a", "it", "was", "very", "film", "and", "then"]


def chromium() -> str | None:
    """A Chromium for the browser tests: the one that BUDGETFORMER_CHROMIUM names, or the system's."""
    named = os.environ.get("BUDGETFORMER_CHROMIUM")
    return named or shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, visibly, what this machine cannot run."""
    missing = {
        "gpu": None if torch.cuda.is_available() else "no CUDA device",
        "data": None if os.environ.get("BUDGETFORMER_DATA") else "BUDGETFORMER_DATA names no folder with data sets",
        "browser": None
        if chromium()
        else "no chromium: apt-get install chromium, or name one in BUDGETFORMER_CHROMIUM",
    }
    for item in items:
        for name, reason in missing.items():
            if reason and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))


def sentences(rows: int, *, labels: list[str], seed: int = 0) -> list[tuple[str, str]]:
    """Texts whose words tell the label, in turn over ``labels``."""
    rng = random.Random(seed)
    return [
        (" ".join(rng.choice(WORDS[label] + FILLER) for _ in range(rng.randint(3, 14))), label)
        for label in (labels[i % len(labels)] for i in range(rows))
    ]


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[..., Path]:
    """Write rows under a header to a csv file and return its path."""

    def write(rows: list[tuple[str, ...]], *, header: tuple[str, ...] = ("text", "label"), name: str = "t.csv") -> Path:
        path = tmp_path / name
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return path

    return write


@pytest.fixture
def small_csv(write_csv: Callable[..., Path]) -> Path:
    """48 texts of two classes."""
    return write_csv(sentences(48, labels=["praise", "refund"]))


@pytest.fixture
def small_model() -> Callable[..., BudgetFormerForSequenceClassification]:
    """A factory of small random classifiers in evaluation mode; keyword arguments change the configuration."""

    def make(*, seed: int = 0, **changes: Any) -> BudgetFormerForSequenceClassification:
        torch.manual_seed(seed)
        fields = {
            "vocab_size": 120,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "max_position_embeddings": 64,
            "num_labels": 3,
            "s_max": 0.9,
        }
        model = BudgetFormerForSequenceClassification(BudgetFormerConfig(**(fields | changes)))
        return spread_budgets(model).eval()

    return make


@torch.no_grad()
def spread_budgets(model: BudgetFormerForSequenceClassification) -> BudgetFormerForSequenceClassification:
    """Scale the nets of a fresh model up, so that its inputs choose different heads and numbers of heads."""
    for name, parameter in model.named_parameters():
        if "budget_net" in name or "relevance_net" in name:
            parameter.mul_(25.0)
    return model


@pytest.fixture
def tiny_settings() -> dict[str, Any]:
    """Keyword arguments of ``train`` for a run of seconds."""
    return {
        "preset": "tiny",
        "vocab_size": 200,
        "max_length": 24,
        "batch_size": 8,
        "quiet": True,
        "device": "cpu",
        "config": {
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "hidden_dropout_prob": 0.0,
            "classifier_dropout": 0.0,
        },
    }
