"""Loads a model folder for a command, and settles the budget that was asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from ..inference import Classifier
from .early import model_files as model_files
from .libraries import quiet_libraries
from .outcome import warn
from .running import Running


def load_classifier(
    folder: Path, *, device: str, precision: str, execution: str, running: Running | None = None
) -> Classifier:
    """A Classifier; ValueError with the folder's name when it cannot be loaded whole."""
    quiet_libraries()
    options = (running or Running()).take()
    try:
        classifier = Classifier.from_pretrained(
            folder, device=device, precision=precision, execution=execution, **options
        )
    except (OSError, SafetensorError, KeyError, TypeError, AttributeError, RuntimeError) as problem:
        raise ValueError(f"model folder {folder} cannot be loaded ({problem}); copy the whole folder anew") from problem
    if classifier.precision.why:
        print(f"precision {classifier.precision.name} ({classifier.precision.why})", file=sys.stderr)
    return classifier


def effective_budgets(classifier: Classifier, *, budget: float | None, max_budget: float | None) -> dict[str, Any]:
    """The budget arguments of a call; those that the model cannot follow are dropped, with a warning."""
    if not classifier.config.budgeted and (budget is not None or max_budget is not None):
        option = "--budget" if budget is not None else "--max-budget"
        warn(f"{option} has no effect: this model has full attention and always uses all heads")
        return {"budget": None, "max_budget": None}
    return {"budget": budget, "max_budget": max_budget}
