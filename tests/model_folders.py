"""Model folders of small random classifiers, for the tests that load and use them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification
from budgetformer.data.vocabulary import train_tokenizer

from .conftest import WORDS, sentences, spread_budgets

NAMES = ("refund", "praise", "Übrig / other")


def make_tokenizer(*, max_length: int = 32, segments: bool = False) -> PreTrainedTokenizerBase:
    """A vocabulary of the words that the tests use."""
    texts = [text for text, _ in sentences(60, labels=list(WORDS))]
    return train_tokenizer(texts, vocab_size=200, max_length=max_length, segments=segments)


def make_folder(folder: Path, *, segments: bool = False, **changes: Any) -> Path:
    """A folder with a random classifier that spreads its budgets, its tokenizer and three named classes."""
    import torch

    torch.manual_seed(0)
    tokenizer = make_tokenizer(segments=segments)
    fields: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 32,
        "type_vocab_size": 2 if segments else 0,
        "initializer_range": 0.3,
        "id2label": dict(enumerate(NAMES)),
    }
    model = spread_budgets(BudgetFormerForSequenceClassification(BudgetFormerConfig(**(fields | changes))))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run_python(code: str, *, folder: Path | None = None, **environment: str) -> str:
    """What ``code`` prints in a fresh process without network; fails with its error text."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        cwd=folder,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"} | environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
