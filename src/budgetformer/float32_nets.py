"""Nets that are run in float32 whatever the dtype of the model, so that half precision cannot change a choice."""

from __future__ import annotations

import threading
from itertools import chain

import torch
from torch import Tensor, nn

_SWAPPED = threading.Lock()
"""``functional_call`` puts other tensors into the module while it runs: two threads of one model must take turns."""


def in_float32(net: nn.Module, pooled_BD: Tensor) -> Tensor:
    """``net(pooled)`` in float32, with its tensors brought to float32 where they are not; gradients reach them."""
    with _SWAPPED:
        # Not net.parameters(): it makes the name of every parameter, which costs a small model a twentieth of its time.
        own = (t for m in net.modules() for t in chain(m._parameters.values(), m._buffers.values()) if t is not None)
        if not all(t.dtype == torch.float32 for t in own):
            tensors = dict([*net.named_parameters(), *net.named_buffers()])
            other = {k: v.float() for k, v in tensors.items() if v.is_floating_point() and v.dtype != torch.float32}
            if other:
                return torch.func.functional_call(net, other, (pooled_BD,)).float()
    return net(pooled_BD).float()
