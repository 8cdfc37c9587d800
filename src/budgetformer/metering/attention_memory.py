"""Memory that attention needs at each number of heads: in closed form, and as torch allocates it.

The closed form is the working set of one layer; d = D / H, n real tokens of an input, k the heads that it keeps:

| part         | numbers held |                                                       |
| ------------ | ------------ | ----------------------------------------------------- |
| q, k, v      | ``3 n d k``  | projections of the kept heads                         |
| head outputs | ``n d k``    | what the heads give, before the output projection     |
| scores       | ``n² k``     | only where the attention matrix is held as a whole    |

A fused kernel never holds the scores as a whole. What does not depend on the heads is left out: the layer's input,
its output, the weights.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.profiler import ProfilerActivity, profile

from ..configuration import BudgetFormerConfig
from .macs import breakdown
from .memory import Peak, not_measured


def attention_bytes(
    config: BudgetFormerConfig,
    lengths: ArrayLike,
    heads: ArrayLike,
    *,
    bytes_per_number: int = 4,
    scores: bool = False,
) -> int:
    """Bytes of the attention working set of a batch, in the layer where it is largest.

    ``max_l Σ_b (4 n_b d k_bl + [n_b² k_bl]) · bytes_per_number``, the bracket with ``scores``.

    Args:
        lengths, heads: as in ``macs.breakdown``. An execution that computes all heads on the padded grid holds what
            ``lengths=[N] * B, heads=H`` gives.
        bytes_per_number: 4 for float32, 2 for bfloat16 and float16.
        scores: the attention matrices are materialised, as when maps are returned.

    Raises ValueError that names the argument when a value is impossible or the shapes do not fit.
    """
    breakdown(config, lengths, heads)  # refuses what cannot be
    if bytes_per_number < 1:
        raise ValueError(f"bytes_per_number must be at least 1, got {bytes_per_number}")
    n_B1 = np.atleast_1d(np.asarray(lengths, dtype=np.int64))[:, None]
    k = np.asarray(heads, dtype=np.int64)
    k_BL = np.broadcast_to(k, (1, config.num_hidden_layers)) if k.ndim < 2 else k
    k_BL = np.minimum(k_BL, np.array(config.heads_per_layer, dtype=np.int64))
    held_BL = 4 * n_B1 * config.head_size * k_BL + (n_B1**2 * k_BL if scores else 0)
    return int(held_BL.sum(axis=0).max(initial=0)) * bytes_per_number


class AllocationMeter:
    """Measures the block of a ``with``; afterwards ``peak`` holds the CPU memory that torch had allocated at once.

    Counted are the allocations of torch's CPU allocator on the calling thread, scratch memory inside its kernels
    included. Not counted are what was there before, even if the block frees it, and buffers that a library such as
    oneDNN takes by other ways. ``torch.profiler`` reports allocations one by one, so that the figure is exact and
    repeatable where resident memory is neither. It slows the block down: do not time it. Never raises; inside
    another profiler nothing is measured.

    Example:
        >>> with AllocationMeter() as meter, torch.inference_mode():
        ...     layer(x, budget=0.25)
        >>> meter.peak.increase
    """

    def __init__(self) -> None:
        self.peak = not_measured("the block has not ended")
        self._profiler: Any = None

    def __enter__(self) -> AllocationMeter:
        self.peak = not_measured("the block has not ended")
        self._profiler = None
        try:
            self._profiler = _started_quietly()
        except Exception as error:
            self.peak = not_measured(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._profiler is None:
            return
        try:
            self._profiler.__exit__(None, None, None)
            increase = _highest(self._profiler.profiler.kineto_results.experimental_event_tree())
            self.peak = Peak(
                bytes=increase, increase=increase, how="allocations on the CPU that torch.profiler reports"
            )
        except Exception as problem:
            self.peak = not_measured(f"torch.profiler of torch {torch.__version__}: {problem}")
        finally:
            self._profiler = None


def _started_quietly() -> profile:
    """A running profiler. Kineto, below it, reads at its first start how much it may print on standard error."""
    if torch.autograd._profiler_enabled():
        raise RuntimeError("another profiler is running, which a second one would end")
    asked = os.environ.get("KINETO_LOG_LEVEL")
    os.environ["KINETO_LOG_LEVEL"] = asked or "99"
    try:
        profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        profiler.__enter__()
    finally:
        if asked is None:
            del os.environ["KINETO_LOG_LEVEL"]
    return profiler


def _highest(roots: list[Any]) -> int:
    """The highest running sum of allocated minus freed bytes in the tree of events."""
    changes: list[tuple[int, int]] = []
    waiting = list(roots)
    while waiting:
        event = waiting.pop()
        waiting.extend(event.children)
        if event.name == "[memory]" and event.extra_fields.device.type == "cpu":
            changes.append((event.start_time_ns, event.extra_fields.alloc_size))
    changes.sort(key=lambda change: change[0])
    return int(np.cumsum([size for _, size in changes], dtype=np.int64).max(initial=0))
