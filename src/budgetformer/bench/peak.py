"""The speed of matrix products on this machine: what every other speed is held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from ..execution.int8 import unsupported

ROWS = 2048
TURN_MACS, MOST_PRODUCTS = 2e10, 200
"""Multiply-adds of one turn: some tenths of a second on two cores, so that it meets what the others meet."""


@dataclass(frozen=True, kw_only=True)
class PeakJob:
    """``run()`` makes ``macs`` multiply-adds in products of one format, one after the other."""

    run: Callable[[], object]
    macs: float


def peak_job(*, width: int, intermediate: int, device: torch.device, precision: str) -> PeakJob:
    """Products of ``(2048, width) @ (width, intermediate)``, to be timed in turn with what they are compared with.

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
    macs = float(ROWS * width * intermediate)
    times = min(MOST_PRODUCTS, max(1, round(TURN_MACS / macs)))

    @torch.inference_mode()
    def run() -> None:
        for _ in range(times):
            _ = torch._int_mm(left, transposed) if precision == "int8" else F.linear(left, right)

    return PeakJob(run=run, macs=times * macs)
