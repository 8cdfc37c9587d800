"""Keeps the progress bars and advice of the libraries below out of a command's output."""

from __future__ import annotations

import warnings


def quiet_libraries() -> None:
    """Errors of transformers and datasets still show; their bars and advisory warnings do not."""
    import datasets
    import huggingface_hub
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    huggingface_hub.logging.set_verbosity_error()  # without network it tells of every attempt
    for module in ("torch", "transformers", "accelerate", "sklearn", "datasets"):
        warnings.filterwarnings("ignore", module=rf"{module}(\.|$)")
