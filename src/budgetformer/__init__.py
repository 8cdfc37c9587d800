"""BudgetFormer: text classification that spends attention heads per input (arXiv 2604.22583).

Importing registers the model with the Auto classes of ``transformers``; nothing else happens.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from .version import __version__

_HOME = {
    "AttentionParts": "attention",
    "BudgetFormerConfig": "configuration",
    "BudgetFormerModel": "modeling",
    "BudgetFormerForSequenceClassification": "modeling",
    "BudgetedSelfAttention": "attention",
    "BudgetSchedule": "training",
    "Classifier": "inference",
    "Explanation": "explanation",
    "Pair": "inference",
    "Prediction": "inference",
    "convert": "conversion",
    "explain": "explaining",
    "prune_unused": "conversion",
    "to_transformers": "conversion",
    "train": "training",
}
__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _register()
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])


def _register() -> None:
    importlib.import_module(".registration", __name__)


if "budgetformer_command" not in sys.modules:  # the command line registers when a command needs the model
    _register()
