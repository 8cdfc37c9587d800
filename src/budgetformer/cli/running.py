"""How a command runs a model: tokens of a text, tokens in a batch, and threads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from .outcome import warn

MOST_THREADS = 4096
"""As in ``budgetformer serve``: beyond that a number is a slip."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """``batch_tokens`` of a batch at most, ``threads`` of torch and the tokenizer, ``max_length`` of a text in tokens.

    None leaves the defaults.

    ValueError names the option and a value that cannot be.
    """

    batch_tokens: int | None = None
    threads: int | None = None
    max_length: int | None = None

    def __post_init__(self) -> None:
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise ValueError(f"--batch-tokens must be at least 1, got {self.batch_tokens}")
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            raise ValueError(f"--threads must be between 1 and {MOST_THREADS}, got {self.threads}")

    def take(self) -> dict[str, Any]:
        """Set the threads of this process, before a model is loaded; returns the arguments of ``Classifier``."""
        if self.threads is not None:
            import torch

            from ..serving.settings import usable_cores

            if self.threads > usable_cores():
                warn(f"--threads {self.threads} is more than the {usable_cores()} cores here, which makes it slower")
            torch.set_num_threads(self.threads)
            os.environ["RAYON_NUM_THREADS"] = str(self.threads)  # of the tokenizer, read at its first use
        given = {"batch_tokens": self.batch_tokens, "max_length": self.max_length}
        return {name: value for name, value in given.items() if value is not None}
