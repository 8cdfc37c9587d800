"""The speed of matrix products on this machine: what every other speed is held against."""

from __future__ import annotations

import time

import torch
from torch.nn import functional as F

from ..execution.int8 import unsupported
from ..metering.latency import wait_for

ROWS = 2048
ROUNDS = 5


def matmul_peak(*, width: int, intermediate: int, device: torch.device, precision: str) -> float:
    """Multiply-adds per second of ``(2048, width) @ (width, intermediate)``, the best of some rounds.

    ``precision``: "float32", "bf16" or "int8" (products of integers alone, without scaling). Threads as set in torch.
    Raises ValueError for another name, or with the reason when the format cannot run.
    """
    if precision not in ("float32", "bf16", "int8"):
        raise ValueError(f"precision must be float32, bf16 or int8, got {precision!r}")
    if precision == "int8":
        if reason := unsupported(device):
            raise ValueError(reason)
        left, right = (torch.randint(-127, 128, (n, width), dtype=torch.int8) for n in (ROWS, intermediate))
        transposed = right.t()
    else:
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        left, right = (torch.randn(n, width, device=device, dtype=dtype) for n in (ROWS, intermediate))
    best = float("inf")
    with torch.inference_mode():
        for _ in range(ROUNDS + 1):
            wait_for(device)
            started = time.perf_counter()
            _ = torch._int_mm(left, transposed) if precision == "int8" else F.linear(left, right)
            wait_for(device)
            best = min(best, time.perf_counter() - started)
    return ROWS * width * intermediate / best
