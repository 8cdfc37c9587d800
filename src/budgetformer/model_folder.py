"""Tells whether a folder holds a whole model with its own tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

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
        content = json.loads(file.read_text(encoding="utf-8"))
        kind = content.get("model_type")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{file} is not readable as a configuration ({error}); copy the folder anew") from error
    if kind != BudgetFormerConfig.model_type:
        raise ValueError(f"{folder} holds a model of type {kind!r}, not {BudgetFormerConfig.model_type!r}")
    if content.get("architectures") == ["BudgetFormerModel"]:
        raise ValueError(f"{folder} holds an encoder without labels; train it on labelled rows before it can classify")
    if not list(folder.glob("*.safetensors")):
        raise ValueError(f"{folder} has no model.safetensors; weights in other formats are not loaded")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} has no {name}; copy the whole folder that training wrote")
    return folder


def load_config(folder: Path) -> BudgetFormerConfig:
    """The configuration of a folder; ValueError names the folder and what cannot be used."""
    try:
        return BudgetFormerConfig.from_pretrained(folder, local_files_only=True)
    except Exception as problem:  # a damaged file can fail anywhere in the reading
        raise ValueError(
            f"{folder / 'config.json'} cannot be used: {_line(problem)}; restore the original file"
        ) from problem


def load_tokenizer(folder: Path, config: BudgetFormerConfig) -> Any:
    """The tokenizer of a folder; ValueError names the folder and what cannot be used."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as problem:  # a damaged file can fail anywhere in the reading
        raise ValueError(
            f"{folder}: the tokenizer files cannot be used ({type(problem).__name__}: {_line(problem)}); "
            "copy the folder anew"
        ) from problem
    try:
        check_vocabulary(tokenizer, config)
    except ValueError as problem:
        raise ValueError(f"{folder}: {problem}") from problem
    return tokenizer


def check_vocabulary(tokenizer: Any, config: BudgetFormerConfig) -> None:
    """Refuse a tokenizer that gives token ids which the model does not have."""
    largest = max(tokenizer.get_vocab().values(), default=0)
    if largest >= config.vocab_size:
        raise ValueError(
            f"the tokenizer gives token ids up to {largest} and the model has {config.vocab_size} (vocab_size): it is "
            "not the tokenizer of this model; restore the tokenizer files of the folder"
        )


def _line(problem: Exception) -> str:
    return " ".join(str(problem).split())
