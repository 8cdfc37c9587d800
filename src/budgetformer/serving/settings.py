"""Everything that a server can be told: address, limits, waits, threads. All of it has a default."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path

CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")
SHED_AT = 0.5


@dataclass(frozen=True, kw_only=True)
class ServingSettings:
    """Settings of a server; ValueError names the option and the value that cannot be.

    Limits: ``max_bytes`` of a body, ``max_texts`` of a request (a pair is one), ``max_characters`` of a text,
    ``max_requests`` accepted and not answered, ``max_queue`` texts waiting, ``max_explain_tokens`` of a text to be
    explained: that takes heads × tokens² numbers.
    Batching: ``batch_tokens`` padded tokens at most, ``max_wait_ms`` that a text waits at most for others that
    are on their way. ``timeout_s``: a request that is not answered by then is given up.
    Shedding: with ``shed_budget``, texts are capped to that share of the heads from the moment the queue is
    ``shed_at`` full until it is less than half of that. Leaving: after SIGTERM new requests are still answered,
    with 503, for ``leave_s`` seconds at least.
    ``threads`` of the model in each of ``workers`` processes; None: the cores divided by the workers, or as many as
    OMP_NUM_THREADS says if these are fewer.
    """

    folder: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    threads: int | None = None
    device: str = "auto"
    precision: str = "float32"
    execution: str = "auto"
    max_bytes: int = 1_048_576
    max_texts: int = 1024
    max_characters: int = 100_000
    max_requests: int = 256
    max_queue: int = 4096
    max_explain_tokens: int = 512
    batch_tokens: int = 8192
    max_wait_ms: float = 2.0
    timeout_s: float = 30.0
    shed_budget: float | None = None
    shed_at: float = SHED_AT
    leave_s: float = 0.0
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("workers", "max_bytes", "max_texts", "max_characters", "max_requests", "max_queue"):
            _require(name, getattr(self, name), 1, math.inf)
        _require("max_explain_tokens", self.max_explain_tokens, 1, math.inf)
        _require("batch_tokens", self.batch_tokens, 1, math.inf)
        _require("port", self.port, 0, 65535)
        _require("max_wait_ms", self.max_wait_ms, 0, 60_000)
        _require("timeout_s", self.timeout_s, 0.001, 3600)
        _require("leave_s", self.leave_s, 0, 3600)
        if self.threads is not None:
            _require("threads", self.threads, 1, 4096)
        for name in ("shed_budget", "shed_at"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise ValueError(f"{option(name)} must lie in (0, 1], got {value}")
        if self.max_texts > self.max_queue:
            raise ValueError(
                f"--max-texts ({self.max_texts}) must be at most --max-queue ({self.max_queue}): such a request "
                "would never be accepted"
            )
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable() and self.api_key):
            raise ValueError("the API key must be printable ASCII and not empty, as it travels in a header")

    @property
    def threads_each(self) -> int:
        """Threads of one worker: those asked for, or an equal part of the cores."""
        wanted = os.environ.get("OMP_NUM_THREADS", "")
        most = int(wanted) if wanted.isdecimal() and int(wanted) else math.inf
        return self.threads or int(max(1, min(usable_cores() // self.workers, most)))


def usable_cores() -> int:
    """Cores that this process may use: of the machine, of its affinity, and of its container's limit (rounded down)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = CPU_LIMIT.read_text(encoding="ascii").split()
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):  # no such file, or "max": no limit
        return cores


def option(name: str) -> str:
    """The option of the command line for a field."""
    return "--" + name.removesuffix("_s").replace("_", "-")


def _require(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        limit = f"at least {low}" if high == math.inf else f"between {low} and {high}"
        raise ValueError(f"{option(name)} must be {limit}, got {value}")
