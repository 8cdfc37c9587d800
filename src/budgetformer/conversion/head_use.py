"""Which heads a model chooses on rows at hand, and dropping for good those that it never chose.

Legend: R rows, L layers, H heads of before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import datasets
import numpy as np
import torch
from accelerate.utils import broadcast

from ..data.encoding import Encoded, collate
from ..modeling import BudgetFormerForSequenceClassification

WINDOW, BATCH_TOKENS = 1024, 4096
"""Rows that are sorted together, and padded tokens of a batch."""

Windows = Callable[[], Iterable[Encoded]]
"""Gives encoded rows, some at a time and in their order; called more than once."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """``kept_RLH``: the heads that were kept. ``answer_R``: the class with the largest score."""

    kept_RLH: np.ndarray
    answer_R: np.ndarray

    def same_heads(self, other: Choices) -> float:
        """On what share of the rows all layers keep the same heads."""
        return float((self.kept_RLH == other.kept_RLH).all(axis=(1, 2)).mean())


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Rows that were not counted, before and after: the same heads in all layers, the same label, the accuracy."""

    rows: int
    same_heads: float
    same_labels: float
    accuracy_before: float
    accuracy_after: float


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """What was dropped.

    ``rows`` were counted; ``used_LH`` of them chose each head at the default budget ``budget``, or at their own budgets
    where the model has none. ``heads``, ``parameters``: before and after.
    ``heads_by_layer``: what is left. ``checked``: rows of the counted ones that were answered again, and
    ``checked_same`` the share of these that chose the same heads as before; rounding can change what hangs on a hair.
    """

    rows: int
    used_LH: np.ndarray
    heads: tuple[int, int]
    heads_by_layer: tuple[int, ...]
    parameters: tuple[int, int]
    checked: int
    checked_same: float
    held_out: HeldOut | None = None
    budget: float | None = None

    def describe(self) -> dict[str, Any]:
        """For ``training.json`` and the model card."""
        fields = {name: getattr(self, name) for name in ("rows", "budget", "heads", "heads_by_layer", "parameters")}
        fields |= {"checked": self.checked, "checked_same": self.checked_same}
        return fields | {"held_out": None if self.held_out is None else asdict(self.held_out)}


def drop_unused(
    model: BudgetFormerForSequenceClassification,
    counted: Windows,
    *,
    held_out: Windows | None = None,
    labels: Sequence[int] = (),
    progress: Callable[[int], None] | None = None,
) -> Pruning:
    """Drop the heads of ``model`` that no ``counted`` row chooses; in place, in evaluation.

    What counts is what a call without a budget does: the default budget, or each row's own where there is none. There,
    on these rows the choice of heads and the answers stay as they are. Other rows may have wanted a head that is gone
    and take their next best: ``held_out`` rows with ``labels`` say how often. Raises ValueError for a model that
    chooses no heads, and when there is no row.
    """
    config = model.config
    if not config.budgeted or not config.num_hidden_layers:
        raise ValueError("this model has full attention: every input uses every head, so none can be dropped as unused")
    if config.head_choice == "random":
        raise ValueError("this model chooses its heads at random (head_choice), so that none is unused for good")
    before = choices(model, counted(), progress=progress)
    if not len(before.answer_R):
        raise ValueError("there is no row to count on, and so no head that was never chosen")
    used = torch.from_numpy(before.kept_RLH.sum(axis=0))
    if torch.distributed.is_initialized():  # rounding may differ between processes, and the heads left must not
        used = broadcast(used.to(model.device)).cpu()
    used_LH = used.numpy()
    held_before = None if held_out is None else choices(model, held_out())
    heads, parameters = sum(config.heads_per_layer), _parameters(model)
    layers = range(config.num_hidden_layers)
    model.prune_heads({i: [h for h in config.heads_of(i) if not used_LH[i, h]] for i in layers})
    again = choices(model, islice(counted(), 1))
    found = None
    if held_out is not None and held_before is not None and len(held_before.answer_R):
        held_after, truth_R = choices(model, held_out()), np.asarray(labels)
        found = HeldOut(
            rows=len(truth_R),
            same_heads=held_before.same_heads(held_after),
            same_labels=float((held_before.answer_R == held_after.answer_R).mean()),
            accuracy_before=float((held_before.answer_R == truth_R).mean()),
            accuracy_after=float((held_after.answer_R == truth_R).mean()),
        )
    checked = len(again.answer_R)
    first = Choices(kept_RLH=before.kept_RLH[:checked], answer_R=before.answer_R[:checked])
    return Pruning(
        rows=len(before.answer_R),
        used_LH=used_LH,
        heads=(heads, sum(config.heads_per_layer)),
        heads_by_layer=tuple(config.heads_per_layer),
        parameters=(parameters, _parameters(model)),
        checked=checked,
        checked_same=first.same_heads(again),
        held_out=found,
        budget=config.default_budget,
    )


@torch.inference_mode()
def choices(
    model: BudgetFormerForSequenceClassification,
    windows: Iterable[Encoded],
    *,
    progress: Callable[[int], None] | None = None,
) -> Choices:
    """What ``model`` chooses and answers on encoded rows, in their order. ``progress`` gets rows done."""
    model.eval()
    kept, answers = [], []
    for window in windows:
        order, kept_R, answer_R = _of_window(model, window)
        kept.append(kept_R[np.argsort(order)])
        answers.append(answer_R[np.argsort(order)])
        if progress is not None:
            progress(len(order))
    config = model.config
    none = np.zeros((0, config.num_hidden_layers, config.num_attention_heads), dtype=bool)
    return Choices(kept_RLH=np.concatenate([none, *kept]), answer_R=np.concatenate([np.zeros(0, dtype=int), *answers]))


def _of_window(
    model: BudgetFormerForSequenceClassification, window: Encoded
) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Rows by length, and of each its heads and its answer."""
    order = sorted(range(len(window.input_ids)), key=lambda i: -len(window.input_ids[i]))
    kept, answers, done = [], [], 0
    while done < len(order):
        rows = order[done : done + max(1, BATCH_TOKENS // max(1, len(window.input_ids[order[done]])))]
        batch = collate(window.select(rows), pad_token_id=model.config.pad_token_id)
        on_device: dict[str, Any] = {name: tensor.to(model.device) for name, tensor in batch.items()}
        output = model(**on_device, output_budgets=True)
        kept.append(output.kept.cpu().numpy())
        answers.append(output.logits.argmax(dim=-1).cpu().numpy())
        done += len(rows)
    return order, np.concatenate(kept), np.concatenate(answers)


def windows_of(rows: datasets.Dataset) -> Iterator[Encoded]:
    """Rows that were encoded for training, some at a time."""
    for start in range(0, len(rows), WINDOW):
        some = rows[start : start + WINDOW]
        none = (False,) * len(some["input_ids"])
        segments = some.get("token_type_ids")
        yield Encoded(input_ids=some["input_ids"], token_type_ids=segments, truncated=none, empty=none)


def _parameters(model: BudgetFormerForSequenceClassification) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
