"""How attention is computed: one signature, several ways, chosen by name and never silently another.

``reference`` computes every head and masks: the definition, and what training uses. ``packed`` computes only the
heads that were chosen, for real tokens only, and has no gradient.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

import torch
from torch import Tensor

from . import packed, reference
from .first_token import attend_first
from .layout import HeadWeights, TokenLayout

__all__ = ["HeadWeights", "TokenLayout", "attend_first", "gradients_wanted", "resolve", "resolve_layout"]

EXECUTIONS: dict[str, ModuleType] = {"reference": reference, "packed": packed}


def resolve(name: str, *, gradients: bool, device: torch.device) -> ModuleType:
    """The module whose ``attend`` computes attention. ``auto``: packed on a CPU when no gradients are wanted.

    ``gradients`` is true in training mode too, where heads that are not kept may have open gates.
    Raises ValueError that lists the names when ``name`` is unknown, RuntimeError for ``packed`` with gradients.
    """
    if name == "auto":
        return packed if device.type == "cpu" and not gradients else reference
    if name not in EXECUTIONS:
        raise ValueError(f"execution must be one of auto, {', '.join(EXECUTIONS)}, got {name!r}")
    if EXECUTIONS[name].PACKED and gradients:
        raise RuntimeError(f"execution={name!r} {packed.INFERENCE_ONLY}")
    return EXECUTIONS[name]


def resolve_layout(layout: TokenLayout) -> ModuleType:
    """The module that takes tokens as ``layout`` has them: whoever laid them out has chosen."""
    return packed if layout.packed else reference


def gradients_wanted(tensors: Iterable[Tensor]) -> bool:
    """Whether autograd would record an operation on ``tensors``."""
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
