"""Memory that has something in it before it is written, and number formats that a machine may lack."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch.nn import functional as F

TOLERANCE = {torch.bfloat16: 0.025, torch.float16: 0.004}
"""Largest error, as a share of the largest value of the float32 result from the same weights and inputs."""


@contextmanager
def dirty_memory(device: torch.device | None = None) -> Iterator[None]:
    """Fresh memory is full of NaN: what is read before it is written shows in the result."""
    if device is not None and device.type == "cuda":
        scratch = torch.full((2**28,), math.nan, device=device)
        del scratch  # back to torch's allocator, which hands it out again as it is
        yield
    else:
        torch.use_deterministic_algorithms(True)  # on a CPU this fills what torch.empty returns
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(False)


def require_on_cpu(dtype: torch.dtype) -> None:
    """Skip the test, saying why, where the CPU's torch has no products or no attention in this format."""
    try:
        x = torch.ones(1, 1, 4, 8, dtype=dtype)
        F.scaled_dot_product_attention(F.linear(x, x[0, 0]), x[..., :4], x[..., :4])
    except RuntimeError as problem:
        pytest.skip(f"no {dtype} on this CPU: {problem}")
