"""Run all candidates side by side on the same texts in the same order, and put the figures into rows."""

from __future__ import annotations

import contextlib
import ctypes
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..answers import Pair, Prediction
from ..curve import possible_heads
from ..inference import Classifier
from ..metering.latency import Timing, interleaved, latencies
from ..metering.memory import MemoryMeter
from .candidates import BenchSettings, Candidate, definitions, ours, peers
from .peak import peak_job

PREPARING, TRYING, MEMORY, TIMING, ALONE = "Preparing", "First answers", "Memory", "Rounds", "Texts one by one"
"""The stages that ``progress`` hears of, in order."""


@dataclass(frozen=True, kw_only=True)
class BenchRow:
    """One candidate: ``kind`` "ours", "reference" (all heads computed) or "peer"; ``asked`` the heads asked for.

    ``seconds`` of all texts, by round. ``macs``: multiply-adds executed per text, padding included where it is
    computed. ``speed``: times as fast as the first peer (median and quartiles of the rounds), None without peers.
    ``peak_share``: of the machine's product speed in the same format, the median over the rounds. ``labels_equal``:
    share of the texts with the label that the float32 reference gives when it is asked the same: what the definition
    says, None without a float32 model that can be asked. ``memory``: peak bytes of the process above the start;
    ``device_memory``: those that torch allocated on the model's CUDA device, None elsewhere. Seconds of texts sent
    alone: ``p50``, ``p95``.
    """

    name: str
    kind: str
    precision: str
    asked: int | None
    heads: float | None
    texts_per_second: float
    quartiles: tuple[float, float]
    seconds: tuple[float, ...]
    macs: float
    peak_share: float | None
    speed: tuple[float, float, float] | None
    labels_equal: float | None
    memory: int | None
    device_memory: int | None = None
    p50: float | None = None
    p95: float | None = None


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """``rows`` in the order of the table; ``notes`` say in words what is gained and what is not.

    ``peaks``: multiply-adds per second of plain products by format, the median of ``peak_rounds``.
    """

    rows: list[BenchRow]
    texts: int
    tokens: float
    threads: int
    peaks: dict[str, float]
    peak_rounds: dict[str, tuple[float, ...]]
    skipped: dict[str, str]
    notes: list[str] = field(default_factory=list)


def bench(
    classifiers: Mapping[str, Classifier],
    inputs: Sequence[str | Pair],
    settings: BenchSettings,
    *,
    progress: Callable[[str, int, int], object] | None = None,
) -> BenchResult:
    """Time everything on ``inputs``; ``classifiers`` by format, "float32" among them when "dense" is compared.

    Candidates take turns in every round, in an order drawn anew; the first round is not counted. ``progress`` is told
    what is being done, how many steps of it are done, and how many there are. Raises ValueError
    for empty inputs or a number of heads that the model does not have.
    """
    if not inputs:
        raise ValueError("bench needs at least one text")
    first = next(iter(classifiers.values()))
    possible = possible_heads(first)
    for k in settings.heads or ():
        if k not in possible:
            raise ValueError(f"heads must lie between {possible[0]} and {possible[-1]}, got {k}")
    tell = progress or _silent
    with tempfile.TemporaryDirectory(prefix="budgetformer-bench-") as folder:
        tell(PREPARING, 0, 1)
        others, skipped = peers(first, inputs, settings, Path(folder))
        candidates = [*ours(classifiers, settings), *others]
        answers, memory = {}, {}
        for number, c in enumerate(candidates):
            tell(f"{TRYING}: {c.name}", number, len(candidates))
            answers[c.name] = c.answer(inputs)
        for number, c in enumerate(candidates):
            tell(f"{MEMORY}: {c.name}", number, len(candidates))
            memory[c.name] = _peak_memory(c, inputs, first.model.device)
        config = first.config
        peaks = {
            p: peak_job(
                width=config.hidden_size, intermediate=config.intermediate_size, device=first.model.device, precision=p
            )
            for p in {c.precision: None for c in candidates}
        }
        timings = interleaved(
            {c.name: partial(c.answer, inputs) for c in candidates} | {_peak(p): job.run for p, job in peaks.items()},
            rounds=settings.rounds,
            warmup=settings.warmup,
            synchronize=first.model.device,
            seed=settings.seed,
            progress=partial(tell, TIMING),
        )
        alone = {}
        if settings.latency_texts:
            singles = [[item] for item in inputs[: settings.latency_texts]]
            alone = latencies(
                {c.name: c.answer for c in candidates},
                singles,
                synchronize=first.model.device,
                progress=partial(tell, ALONE),
            )
    peak_rounds = {p: tuple(job.macs / s for s in timings[_peak(p)].seconds) for p, job in peaks.items()}
    truths = {c.request: c.answer(inputs) for c in definitions(classifiers, settings)}
    baseline = timings[others[0].name] if others else None
    rows = []
    for c in candidates:
        row = _row(c, answers[c.name], timings[c.name], baseline, len(inputs), peak_rounds[c.precision])
        truth = truths.get(c.request)
        equal = None if truth is None else _share_equal(answers[c.name], truth)
        times = alone.get(c.name)
        rows.append(
            BenchRow(
                **row,
                labels_equal=equal,
                memory=memory[c.name].resident.increase,
                device_memory=memory[c.name].device.increase,
                p50=None if times is None else times.p50,
                p95=None if times is None else times.p95,
            )
        )
    tokens = float(np.mean([a.tokens for a in answers[candidates[0].name]]))
    return BenchResult(
        rows=rows,
        texts=len(inputs),
        tokens=tokens,
        threads=torch.get_num_threads(),
        peaks={p: float(np.median(rounds)) for p, rounds in peak_rounds.items()},
        peak_rounds=peak_rounds,
        skipped=skipped,
        notes=_notes(rows, others[0].name if others else None),
    )


def _silent(stage: str, done: int, steps: int) -> None:
    """Nobody wants to know."""


def _peak(precision: str) -> str:
    """The name under which the products of a format take their turn."""
    return f"products, {precision}"


def _peak_memory(candidate: Candidate, inputs: Sequence[str | Pair], device: torch.device) -> MemoryMeter:
    _give_back()
    with MemoryMeter(device=device) as meter:
        candidate.answer(inputs)
    return meter


def _give_back() -> None:
    """Hand freed memory back to the system, where the C library can, so that it is not used again unseen."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _row(
    candidate: Candidate,
    answers: Sequence[Any],
    timing: Timing,
    baseline: Timing | None,
    texts: int,
    peaks: Sequence[float],
) -> dict[str, Any]:
    macs, heads = candidate.macs, None
    if candidate.kind != "peer":
        predictions: Sequence[Prediction] = answers
        macs = float(np.mean([p.macs for p in predictions]))
        heads = float(np.mean([np.mean(p.heads) for p in predictions])) if predictions[0].heads else None
    assert macs is not None
    low, high = timing.quartiles
    ratio = baseline.ratio(timing) if baseline is not None else None
    return {
        "name": candidate.name,
        "kind": candidate.kind,
        "precision": candidate.precision,
        "asked": candidate.asked,
        "heads": heads,
        "texts_per_second": texts / timing.median,
        "quartiles": (texts / high, texts / low),
        "seconds": timing.seconds,
        "macs": macs,
        "peak_share": float(np.median(macs * texts / np.array(timing.seconds) / np.array(peaks))),
        "speed": None if ratio is None else (ratio.median, ratio.lower, ratio.upper),
    }


def _share_equal(answers: Sequence[Prediction], truth: Sequence[Prediction]) -> float:
    return float(np.mean([a.label == b.label for a, b in zip(answers, truth, strict=True)]))


def _asked(row: BenchRow) -> int:
    return row.asked or 0


def _notes(rows: Sequence[BenchRow], baseline: str | None) -> list[str]:
    """What is not gained, in words."""
    notes = []
    if baseline is not None:
        slower = [row.name for row in rows if row.speed is not None and row.name != baseline and row.speed[1] <= 1]
        if slower:
            notes.append(f"Not faster than {baseline} here (lower quartile at most 1): {'; '.join(slower)}.")
    by_heads: dict[str, list[BenchRow]] = {}
    for row in rows:
        if row.asked is not None:
            by_heads.setdefault(row.precision, []).append(row)
    for precision, some in by_heads.items():
        few, many = min(some, key=_asked), max(some, key=_asked)
        if few is not many and few.quartiles[0] <= many.quartiles[1]:
            notes.append(f"In {precision}, {few.name} is not clearly faster than {many.name} on these texts.")
    return notes
