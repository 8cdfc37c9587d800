"""Which checkpoints of a run are whole, so that it can go on from the newest of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import safe_open
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_pt_utils import safe_globals

from ..model_folder import CHECKPOINTS

_NEEDED = ("model.safetensors", "config.json", "scheduler.pt", TRAINER_STATE_NAME)
_OPTIMISER, _OPTIMISER_OF_FSDP = ("optimizer.pt",), ("optimizer.bin", "pytorch_model_fsdp.bin")


def newest_checkpoint(output: Path, say: Callable[[str], None] | None = None) -> Path | None:
    """The whole checkpoint with the most updates; ``say`` is told of newer ones that are damaged.

    Folders that are still being written do not count.
    """
    found = [p for p in (output / CHECKPOINTS).glob("checkpoint-*") if p.name[11:].isdigit()]
    for checkpoint in sorted(found, key=lambda p: int(p.name[11:]), reverse=True):
        problem = damage(checkpoint)
        if problem is None:
            return checkpoint
        if say is not None:
            say(f"note: {checkpoint} is damaged ({problem}) and left out")
    return None


def damage(checkpoint: Path) -> str | None:
    """What makes resuming from this checkpoint impossible; None when it is whole. Nothing in it is executed."""
    states = sorted(checkpoint.glob("rng_state*.pth"))
    optimiser = _OPTIMISER_OF_FSDP if (checkpoint / _OPTIMISER_OF_FSDP[0]).exists() else _OPTIMISER
    for name in (*_NEEDED, *optimiser):
        file = checkpoint / name
        if not file.is_file() or not file.stat().st_size:
            return f"{name} is missing or empty"
    if not states:
        return "rng_state.pth is missing"
    file = checkpoint / TRAINER_STATE_NAME
    try:
        if json.loads(file.read_text(encoding="utf-8"))["global_step"] != int(checkpoint.name[11:]):
            return f"{file.name} is of another update"
        file = checkpoint / "model.safetensors"
        with safe_open(file, "pt"):
            pass
        for file in (*(checkpoint / name for name in (*optimiser, "scheduler.pt")), *states):
            with safe_globals():
                torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except Exception as problem:  # a damaged file can fail anywhere in the reading
        return f"{file.name} cannot be read: {type(problem).__name__}"
    return None
