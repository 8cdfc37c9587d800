"""How attention is computed: one signature, several ways, chosen by name and never silently another.

``reference`` computes every head and masks: the definition, and what training uses. ``packed`` computes only the
heads that were chosen, for real tokens only, and has no gradient; ``cuda`` does the same for half precision on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

import torch
from torch import Tensor

from . import cuda, packed, reference
from .first_token import attend_first
from .layout import Reach, TokenLayout
from .weights import HeadWeights

__all__ = ["HeadWeights", "Reach", "TokenLayout", "attend_first", "gradients_wanted", "resolve", "resolve_layout"]

EXECUTIONS: dict[str, ModuleType] = {"reference": reference, "packed": packed, "cuda": cuda}


def resolve(name: str, *, gradients: bool, device: torch.device, dtype: torch.dtype, head_size: int) -> ModuleType:
    """The module whose ``attend`` computes attention for tokens and weights of ``dtype`` on ``device``.

    ``auto``: the reference when gradients are wanted, else cuda where it can run, packed on a CPU or GPU otherwise,
    and the reference on other devices. ``gradients`` is true in training mode too, where heads that are not kept may
    have open gates. Raises ValueError that lists the names when ``name`` is unknown, ValueError with the reason when
    cuda cannot run, RuntimeError for packed and cuda with gradients.
    """
    if name not in ("auto", *EXECUTIONS):
        raise ValueError(f"execution must be one of auto, {', '.join(EXECUTIONS)}, got {name!r}")
    if name == "auto" and (gradients or device.type not in ("cpu", "cuda")):
        return reference
    why_not = cuda.refusal(device=device, dtype=dtype, head_size=head_size)
    if name == "auto":
        return packed if why_not else cuda
    if EXECUTIONS[name].PACKED and gradients:
        raise RuntimeError(f"execution={name!r} {packed.INFERENCE_ONLY}")
    if name == "cuda" and why_not:
        raise ValueError(f"execution='cuda' {why_not}")
    return EXECUTIONS[name]


def resolve_layout(layout: TokenLayout) -> ModuleType:
    """The module that takes tokens as ``layout`` has them: whoever laid them out has chosen."""
    return EXECUTIONS[layout.execution]


def gradients_wanted(tensors: Iterable[Tensor]) -> bool:
    """Whether autograd would record an operation on ``tensors``."""
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
