"""Figures for Prometheus. With several workers they are summed over all of them, by files in a shared folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from ..answers import Prediction

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable by which prometheus_client finds the shared folder; to be set before this is imported."""
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TOKENS = tuple(float(2**power) for power in range(3, 18))


class Metrics:
    """All figures of one server."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        name = "budgetformer_"
        self._requests = Counter(
            name + "requests", "Requests answered", ("route", "method", "status"), registry=registry
        )
        self._seconds = Histogram(
            name + "request_seconds",
            "From the first byte to the answer",
            ("route",),
            registry=registry,
            buckets=SECONDS,
        )
        self._stages = Histogram(
            name + "stage_seconds",
            "Part of a request: tokenisation, queue, inference",
            ("stage",),
            registry=registry,
            buckets=SECONDS,
        )
        self._waiting = Gauge(name + "queue_texts", "Texts that wait", registry=registry, multiprocess_mode="livesum")
        self._batch_texts = Histogram(name + "batch_texts", "Texts in a batch", registry=registry, buckets=TOKENS[:10])
        self._batch_tokens = Histogram(
            name + "batch_tokens", "Tokens in a batch, without padding", registry=registry, buckets=TOKENS
        )
        self._batch_seconds = Histogram(
            name + "batch_seconds", "Time of a batch in the model", registry=registry, buckets=SECONDS
        )
        self._texts = Counter(name + "texts", "Texts answered", registry=registry)
        self._heads = Counter(name + "heads", "Heads kept, summed over texts", ("layer",), registry=registry)
        self._macs = Counter(name + "multiply_adds", "Multiply-adds executed", registry=registry)
        self._dense = Counter(name + "multiply_adds_dense", "The same texts with all heads", registry=registry)
        self._cut = Counter(name + "truncated_texts", "Texts cut to the model's limit", registry=registry)
        self._shed = Counter(name + "shed_texts", "Texts whose budget the server tightened", registry=registry)

    def request(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """One answered request; ``route`` is the path of the programme, never one that a client made up."""
        self._requests.labels(route=route, method=method, status=str(status)).inc()
        self._seconds.labels(route=route).observe(seconds)

    def stages(self, **seconds: float) -> None:
        """The parts of one request."""
        for stage, value in seconds.items():
            self._stages.labels(stage=stage).observe(value)

    def batch(self, *, texts: int, tokens: int, seconds: float) -> None:
        """One batch."""
        self._batch_texts.observe(texts)
        self._batch_tokens.observe(tokens)
        self._batch_seconds.observe(seconds)

    def answers(self, answers: Iterable[Prediction], *, dense: Sequence[int], shed: int) -> None:
        """The answers of one request and what they would have cost with all heads."""
        for answer, all_heads in zip(answers, dense, strict=True):
            self._texts.inc()
            self._macs.inc(answer.macs)
            self._dense.inc(all_heads)
            self._cut.inc(answer.truncated)
            for layer, heads in enumerate(answer.heads):
                self._heads.labels(layer=str(layer)).inc(heads)
        self._shed.inc(shed)

    def waiting(self, texts: int) -> None:
        """How many texts wait now."""
        self._waiting.set(texts)

    def text(self) -> bytes:
        """All figures in Prometheus' format."""
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)
        return generate_latest(shared)

    def close(self) -> None:
        """Take the present values of a worker that leaves out of the sums."""
        if SHARED in os.environ:
            mark_process_dead(os.getpid())
