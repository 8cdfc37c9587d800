"""Tells whether a folder holds a whole model with its own tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .configuration import BudgetFormerConfig


def check_folder(folder: str | Path) -> Path:
    """The folder, when it holds a BudgetFormer classifier; otherwise ValueError says what is wrong."""
    folder = Path(folder)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise ValueError(f"model folder {folder} {what}; give a folder written by `budgetformer train`")
    file = folder / "config.json"
    if not file.is_file():
        raise ValueError(f"{folder} is not a model folder: it has no config.json; was the training finished?")
    try:
        kind = json.loads(file.read_text(encoding="utf-8")).get("model_type")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{file} is not readable as a configuration ({error}); copy the folder anew") from error
    if kind != BudgetFormerConfig.model_type:
        raise ValueError(f"{folder} holds a model of type {kind!r}, not {BudgetFormerConfig.model_type!r}")
    if not list(folder.glob("*.safetensors")):
        raise ValueError(f"{folder} has no model.safetensors; weights in other formats are not loaded")
    if not (folder / "tokenizer.json").is_file():
        raise ValueError(f"{folder} has no tokenizer.json; copy the whole folder that training wrote")
    return folder


def check_vocabulary(tokenizer: Any, config: BudgetFormerConfig) -> None:
    """Refuse a tokenizer that gives token ids which the model does not have."""
    largest = max(tokenizer.get_vocab().values(), default=0)
    if largest >= config.vocab_size:
        raise ValueError(
            f"the tokenizer gives token ids up to {largest} and the model has {config.vocab_size} (vocab_size): it is "
            "not the tokenizer of this model; restore the tokenizer files of the folder"
        )
