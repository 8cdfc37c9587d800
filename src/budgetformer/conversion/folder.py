"""The folder that a conversion writes: aside first, then under its name, and never over something else."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

from ..data.unicode import require_writable_name
from ..model_folder import move_into
from .source import quietly

UNREAD = "source_unread.safetensors"
"""Tensors of the source that the new model does not read, kept for the way back."""


def check_output(output: str | Path) -> Path:
    """The folder, when it can be written: new or empty. Raises ValueError that says what is there."""
    output = Path(output)
    require_writable_name(output)
    if output.is_symlink() and not output.exists():
        raise ValueError(f"output {output} is a link to {os.readlink(output)}, which is not there; give a folder")
    if output.exists() and not output.is_dir():
        raise ValueError(f"output {output} is a file; give a folder")
    content = sorted(path.name for path in output.iterdir()) if output.is_dir() else []
    if content:
        raise ValueError(f"output folder {output} is not empty ({content[0]}, …); give a new or empty folder")
    there = next(p for p in (output.absolute(), *output.absolute().parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ValueError(f"output folder {output} cannot be made or written in {there}; give another place")
    return output.resolve()


def write_folder(
    output: Path,
    *,
    model: PreTrainedModel,
    tokenizer: Any,
    card: str | None = None,
    unread: Mapping[str, Tensor] = MappingProxyType({}),
    texts: Mapping[str, str] | None = None,
    copies: Iterable[Path] = (),
) -> None:
    """Write model, tokenizer, card, unread tensors, ``texts`` by file name and ``copies`` of files.

    A new folder has its name when it is complete; into one that is there, the files are moved (``move_into``).
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output if output.is_dir() else output.parent))
    try:
        aside.chmod(0o777 & ~_umask())
        with quietly():
            model.save_pretrained(aside)
            if tokenizer is not None:
                tokenizer.save_pretrained(aside)
        for name, text in {**({} if card is None else {"README.md": card}), **(texts or {})}.items():
            (aside / name).write_text(text, encoding="utf-8")
        for file in copies:
            shutil.copyfile(file, aside / file.name)
        if unread:
            save_file({name: tensor.contiguous() for name, tensor in unread.items()}, aside / UNREAD)
        for file in aside.glob("*.safetensors"):
            file.chmod((aside / "config.json").stat().st_mode)  # safetensors writes 0600
        if output.is_dir():
            move_into(aside, output)
        else:
            os.rename(aside, output)
    except OSError as error:
        raise OSError(error.errno, f"cannot write the model folder {output}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _umask() -> int:
    """The process's mask for new files, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
