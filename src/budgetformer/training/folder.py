"""The output folder of a run: what may be written where, and the finished model folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from ..model_folder import CHECKPOINTS, CURVE_PICTURE, RECORD, check_run_folder, move_into
from .checkpoints import newest_checkpoint


def check_output(
    output: str | Path, *, resume: bool, overwrite: bool, say: Callable[[str], None] | None = None
) -> Path | None:
    """Check the folder before any work; returns the checkpoint to go on from. Nothing is changed yet.

    See ``check_run_folder``; to resume, there must be a whole checkpoint too. Raises ValueError that says what is
    there and what to do.
    """
    output = Path(output)
    check_run_folder(output, resume=resume, overwrite=overwrite)
    if resume:
        checkpoint = newest_checkpoint(output, say)
        if checkpoint is None:
            raise ValueError(f"{output} has no complete checkpoint to resume from; start without --resume")
        return checkpoint
    return None


def start_output(output: Path) -> None:
    """Make room for a new run: the checkpoints of an earlier one go."""
    shutil.rmtree(output / CHECKPOINTS, ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)


def write_model_folder(
    output: Path,
    *,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    card: str,
    record: dict[str, Any],
    picture: bytes | None = None,
) -> None:
    """Write the finished model aside and move it in (``move_into``).

    ``picture``: the curve that the card shows.
    """
    aside = output / ".model.partial"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        with quiet_transformers():
            model.save_pretrained(aside)
            tokenizer.save_pretrained(aside)
        (aside / "README.md").write_text(card, encoding="utf-8")
        if picture is None:
            (output / CURVE_PICTURE).unlink(missing_ok=True)  # of an earlier run
        else:
            (aside / CURVE_PICTURE).write_bytes(picture)
        (aside / RECORD).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        (aside / "model.safetensors").chmod((aside / "config.json").stat().st_mode)  # safetensors writes 0600
        move_into(aside, output)
    except OSError as error:
        raise OSError(
            f"cannot write the model folder {output}: {error}. The last checkpoint is complete: free some space and "
            "go on with --resume."
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


class quiet_transformers:
    """Switch the progress bars of loading and saving in ``transformers`` off for a while."""

    def __enter__(self) -> None:
        self._were_on = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()

    def __exit__(self, *exc: object) -> None:
        if self._were_on:
            logging.enable_progress_bar()
