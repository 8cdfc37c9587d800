"""Tells whether a folder holds a whole model with its own tokenizer, and whether a run may write to it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .data.unicode import require_writable_name

if TYPE_CHECKING:
    from .configuration import BudgetFormerConfig

CHECKPOINTS, RECORD = "checkpoints", "training.json"
"""What a training run leaves in its folder: on the way, and at the end."""
CURVE_PICTURE = "budget-curve.png"
"""Beside the model card, which shows it."""
MOST_EXAMPLES, LONGEST_EXAMPLE = 6, 1000
"""Of the texts to try that a card names: how many, and characters of one."""
_RARE = "\U00013000"
"""A character that few vocabularies have: what a tokenizer does with unknown ones must work as well."""
_MODEL_TYPE = "budgetformer"  # of BudgetFormerConfig, whose import takes seconds


def check_folder(folder: str | Path) -> Path:
    """The folder, when it holds a BudgetFormer classifier; otherwise ValueError says what is wrong."""
    folder = Path(folder)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise ValueError(f"model folder {folder} {what}; give a folder written by `budgetformer train`")
    file = folder / "config.json"
    if not file.is_file() and (folder / "model.safetensors").is_file():
        raise ValueError(f"{folder} has weights and no config.json; copy the whole folder that training wrote")
    if not file.is_file() and (folder / CHECKPOINTS).is_dir():
        raise ValueError(
            f"{folder} is a training run that was stopped and no model folder yet (it has no config.json): go on with "
            "the command that began it and --resume"
        )
    if not file.is_file():
        raise ValueError(f"{folder} is not a model folder: it has no config.json; was the training finished?")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        kind = content.get("model_type")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{file} is not readable as a configuration ({error}); copy the folder anew") from error
    if kind != _MODEL_TYPE:
        raise ValueError(f"{folder} holds a model of type {kind!r}, not {_MODEL_TYPE!r}")
    if content.get("architectures") == ["BudgetFormerModel"]:
        raise ValueError(f"{folder} holds an encoder without labels; train it on labelled rows before it can classify")
    if not list(folder.glob("*.safetensors")):
        raise ValueError(f"{folder} has no model.safetensors; weights in other formats are not loaded")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} has no {name}; copy the whole folder that training wrote")
    return folder


def is_model_folder(folder: str | Path) -> bool:
    """Whether a folder says of itself that it holds a BudgetFormer; it may be damaged all the same."""
    try:
        content = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        return bool(content.get("model_type") == _MODEL_TYPE)
    except (OSError, ValueError, AttributeError):
        return False


def check_run_folder(output: str | Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse a folder that a training run may not write to; whether it has a whole checkpoint is not looked at.

    An empty or new folder is taken as it is. A folder of an earlier run needs ``resume`` or ``overwrite``; one that
    holds anything else is never taken. Raises ValueError that says what is there and what to do.
    """
    output = Path(output)
    require_writable_name(output)
    if output.exists() and not output.is_dir():
        raise ValueError(f"output {output} is a file; give a folder")
    if output.is_symlink() and not output.exists():
        raise ValueError(f"output {output} is a link to {os.readlink(output)}, which is not there; give a folder")
    there = next(p for p in (output.absolute(), *output.absolute().parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ValueError(f"output folder {output} cannot be made or written in {there}; give another place")
    ours = output.is_dir() and ((output / CHECKPOINTS).is_dir() or (output / RECORD).is_file())
    content = sorted(p.name for p in output.iterdir()) if output.is_dir() else []
    if content and not ours:
        raise ValueError(f"output folder {output} holds something else ({content[0]}, …); give a new or empty folder")
    if content and not resume and not overwrite:
        raise ValueError(
            f"output folder {output} holds an earlier run; give --resume to go on with it, --overwrite to replace "
            "it, or another folder"
        )


def move_into(aside: Path, output: Path) -> None:
    """Move the files of a complete model folder into ``output``, which can be loaded before and after, never between.

    An older ``config.json`` goes first and the new one comes last. The folder itself stays: somebody may stand in it.
    """
    (output / "config.json").unlink(missing_ok=True)
    for file in sorted(aside.iterdir(), key=lambda path: path.name == "config.json"):
        os.replace(file, output / file.name)


def read_card(folder: Path) -> str:
    """The model card, or the beginning of one where there is none. Raises ValueError when it cannot be read as text."""
    file = folder / "README.md"
    try:
        return file.read_text(encoding="utf-8") if file.exists() else "# A BudgetFormer text classifier\n"
    except (OSError, UnicodeDecodeError) as problem:
        raise ValueError(
            f"{file}: the model card cannot be read as UTF-8 text ({problem}); save it as that, or move it away"
        ) from problem


def read_record(folder: Path) -> dict[str, Any] | None:
    """What training wrote of itself; None where it did not. Raises ValueError when it cannot be read."""
    file = folder / RECORD
    if not file.exists():
        return None
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise ValueError(f"{file} cannot be read ({problem}); restore the original file, or move it away") from problem
    if not isinstance(record, dict):
        raise ValueError(f"{file} is no record of a training; restore the original file, or move it away")
    return record


def model_identity(folder: Path) -> str:
    """A digest of configuration, tokenizer and weights."""
    digest = hashlib.sha256()
    for file in sorted([folder / "config.json", folder / "tokenizer.json", *folder.glob("*.safetensors")]):
        with open(file, "rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


def load_config(folder: Path) -> BudgetFormerConfig:
    """The configuration of a folder; ValueError names the folder and what cannot be used."""
    from .configuration import BudgetFormerConfig

    try:
        return BudgetFormerConfig.from_pretrained(folder, local_files_only=True)
    except Exception as problem:  # a damaged file can fail anywhere in the reading
        raise ValueError(
            f"{folder / 'config.json'} cannot be used: {_line(problem)}; restore the original file"
        ) from problem


def load_tokenizer(folder: Path, config: BudgetFormerConfig) -> Any:
    """The tokenizer of a folder; ValueError names the folder and what cannot be used."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        tokenizer(_RARE)
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
