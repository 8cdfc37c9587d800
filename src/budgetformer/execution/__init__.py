"""How attention is computed: one signature, several ways, chosen by name and never silently another.

``reference`` computes every head and masks: the definition, and what training uses.
"""

from __future__ import annotations

from types import ModuleType

import torch

from . import reference
from .layout import HeadWeights, TokenLayout

__all__ = ["HeadWeights", "TokenLayout", "resolve"]

EXECUTIONS: dict[str, ModuleType] = {"reference": reference}


def resolve(name: str, *, gradients: bool, device: torch.device) -> ModuleType:
    """The module whose ``attend`` computes attention. ``auto``: the reference when gradients are wanted.

    Raises ValueError that lists the names when ``name`` is unknown.
    """
    if name == "auto":
        return reference
    if name not in EXECUTIONS:
        raise ValueError(f"execution must be one of auto, {', '.join(EXECUTIONS)}, got {name!r}")
    return EXECUTIONS[name]
