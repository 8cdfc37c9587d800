"""Does an ONNX file answer as the model does? On inputs of many shapes that choose heads of their own, and on texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..answers import Pair
from ..configuration import BudgetFormerConfig
from ..data.encoding import collate
from ..inference import Classifier
from ..method import ROUNDING_TOLERANCE
from .graph import input_names
from .head_sets import HeadSets

TOLERANCE = 1e-4
"""Largest difference of a logit between the file and the model."""
NEAR_HEADS, NEAR_RELEVANCE = 5e-6, 1e-3
"""An input is left out when its choice hangs on less than this: on a fraction of a head in ``s · H``, or on a relative
difference of relevance between the last head that is kept and the next. There rounding decides."""


@dataclass(frozen=True, kw_only=True)
class Verification:
    """``inputs`` compared, the ``head_sets`` that the model chose on them, the largest ``difference`` of a logit."""

    inputs: int
    head_sets: int
    difference: float


def verify(
    file: Path, classifier: Classifier, texts: Sequence[str | Pair] = (), *, sets: HeadSets | None = None
) -> Verification:
    """Compare in ONNX Runtime with the model in its own execution, on random tokens and on ``texts``.

    Random tokens come as 1 text of 1 token, 7 of up to 63, 2 of the longest, 32 of up to 24, padded on either side, one
    of them without real tokens. Raises ValueError, with the batch and the values, for a difference above ``TOLERANCE``,
    another label, other numbers of heads, and for a shape of an input that is not free.
    """
    session = _session(file)
    for given in session.get_inputs():
        if any(isinstance(size, int) for size in given.shape):
            raise ValueError(f"the exported graph takes {given.name} of shape {given.shape} only; no file was written")
    names = [output.name for output in session.get_outputs()]
    request: dict[str, Any] = {} if sets is None else {"budget": sets.budget, "policy": sets.policies()}
    model = classifier.model
    chosen: set[bytes] = set()
    inputs, difference = 0, 0.0
    for batch in [*random_batches(classifier.config), *_text_batches(classifier, texts)]:
        with torch.inference_mode():
            on_device = {name: tensor.to(model.device) for name, tensor in batch.items()}
            expected: Any = model(**on_device, **request, output_budgets=model.config.budgeted)
        clear_B = _clear(expected, model.config) if sets is None else np.ones(len(batch["input_ids"]), dtype=bool)
        given = dict(zip(names, session.run(names, {k: v.numpy() for k, v in batch.items()}), strict=True))
        _compare(given, expected, clear_B, shape=list(batch["input_ids"].shape))
        far_BC = np.abs(given["logits"] - expected.logits.float().cpu().numpy())[clear_B]
        difference = max(difference, float(far_BC.max(initial=0.0)))
        inputs += int(clear_B.sum())
        if expected.kept is not None:
            chosen |= {row.tobytes() for row in expected.kept.cpu().numpy()}
    if not inputs:
        raise ValueError(
            "every input that was tried has two heads of nearly equal worth, so the file cannot be checked"
        )
    return Verification(inputs=inputs, head_sets=len(chosen), difference=difference)


def _compare(given: dict[str, np.ndarray], expected: Any, clear_B: np.ndarray, *, shape: list[int]) -> None:
    logits_BC = expected.logits.float().cpu().numpy()
    if given["logits"].shape != logits_BC.shape:
        raise ValueError(f"the exported graph gives logits of shape {list(given['logits'].shape)} for inputs {shape}")
    far_B = np.abs(given["logits"] - logits_BC).max(axis=-1)
    top_BC = np.sort(logits_BC, axis=-1)
    sure_B = (top_BC[:, -1] - top_BC[:, -2] > 2 * TOLERANCE) if logits_BC.shape[-1] > 1 else clear_B
    wrong_B = ~(far_B <= TOLERANCE) | (sure_B & (given["logits"].argmax(axis=-1) != logits_BC.argmax(axis=-1)))
    if "heads" in given:
        wrong_B |= (given["heads"] != expected.heads.cpu().numpy()).any(axis=-1)
    wrong_B &= clear_B
    if wrong_B.any():
        row = int(np.flatnonzero(wrong_B)[0])
        raise ValueError(
            f"the exported graph differs from the model on {int(wrong_B.sum())} of {shape[0]} inputs of {shape[1]} "
            f"tokens: logits {given['logits'][row].tolist()} in place of {logits_BC[row].tolist()}; no file was written"
        )


def _session(file: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def random_batches(config: BudgetFormerConfig, *, seed: int = 0) -> list[dict[str, Tensor]]:
    """Batches of random tokens in many shapes, padded on either side, as the inputs of the graph."""
    generator = torch.Generator().manual_seed(seed)
    limit = config.text_limit
    found = []
    for rows, length, left in ((1, 1, False), (7, min(63, limit), False), (2, limit, True), (32, min(24, limit), True)):
        lengths_B = torch.randint(1, length + 1, (rows,), generator=generator)
        lengths_B[0] = length
        if rows > 2:
            lengths_B[-1] = 0
        mask_BN = torch.arange(length) < lengths_B.unsqueeze(-1)
        mask_BN = mask_BN.flip(-1) if left else mask_BN
        ids_BN = torch.randint(config.vocab_size, (rows, length), generator=generator)
        batch = {"input_ids": torch.where(mask_BN, ids_BN, config.pad_token_id), "attention_mask": mask_BN.long()}
        if "token_type_ids" in input_names(config):
            batch["token_type_ids"] = torch.randint(2, (rows, length), generator=generator)
        found.append(batch)
    return found


def _text_batches(classifier: Classifier, texts: Sequence[str | Pair]) -> list[dict[str, Tensor]]:
    starts = range(0, len(texts), 32)
    parts = [classifier.encode(list(texts[start : start + 32])) for start in starts]
    return [collate(part, pad_token_id=classifier.config.pad_token_id) for part in parts]


def _clear(output: Any, config: BudgetFormerConfig) -> np.ndarray:
    """Whether no choice of an input hangs on rounding, neither how many heads nor which; exact ties are clear."""
    if output.budgets is None:
        return np.ones(len(output.logits), dtype=bool)
    heads = config.num_attention_heads
    wanted_BL = output.budgets.double().cpu().numpy() * heads + ROUNDING_TOLERANCE
    step_BL = np.round(wanted_BL)
    edge_BL = (np.abs(wanted_BL - step_BL) < NEAR_HEADS) & (step_BL > config.min_heads)
    falling_BLH = -np.sort(-output.relevance.double().cpu().numpy(), axis=-1)
    k_BL = output.heads.cpu().numpy()
    last_BL = np.take_along_axis(falling_BLH, np.maximum(k_BL - 1, 0)[..., None], -1)[..., 0]
    next_BL = np.take_along_axis(falling_BLH, np.minimum(k_BL, heads - 1)[..., None], -1)[..., 0]
    near_BL = (last_BL != next_BL) & (last_BL - next_BL < NEAR_RELEVANCE * last_BL)
    learned = config.fixed_budget is None and config.default_budget is None
    return ~(edge_BL & learned | near_BL).any(axis=-1)
