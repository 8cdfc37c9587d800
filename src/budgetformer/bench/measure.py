"""Run all candidates side by side on the same texts in the same order, and put the figures into rows."""

from __future__ import annotations

import contextlib
import copy
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
from ..inference import Classifier
from ..metering.latency import Timing, interleaved, latencies
from ..metering.macs import dense_macs
from ..metering.memory import MemoryMeter
from .peak import matmul_peak
from .peers import Answer, batched_answer, dense_bert, onnx_answer, onnx_files, pipeline_answer

REFERENCE = "all heads computed (reference)"
PIPELINE, BATCHES = "dense BERT, transformers pipeline", "dense BERT, transformers"
AGAINST = ("dense", "hf", "onnxruntime")


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """What to compare, and how often.

    precisions: formats of the model. heads: numbers of heads to ask for besides the learned budgets (None: all of
    them). policy: a baseline policy that chooses the heads. against: "dense" (the reference execution, which computes
    all heads), "hf" (a BERT of the same shape in ``transformers``, by its pipeline and by a plain loop),
    "onnxruntime" (that BERT in ONNX Runtime, float32 and int8). batch_size: of those. rounds, warmup: of the timing.
    latency_texts: how many texts are also sent alone; 0 for none.
    """

    precisions: Sequence[str] = ("float32",)
    heads: Sequence[int] | None = None
    policy: Any = None
    against: Sequence[str] = AGAINST
    batch_size: int = 32
    rounds: int = 5
    warmup: int = 1
    latency_texts: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_size", "rounds", "warmup"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in self.against:
            if name not in AGAINST:
                raise ValueError(f"against must name some of {', '.join(AGAINST)}, got {name!r}")


@dataclass(frozen=True, kw_only=True)
class BenchRow:
    """One candidate: ``kind`` "ours", "reference" (all heads computed) or "peer"; ``asked`` the heads asked for.

    ``seconds`` of all texts, by round. ``macs``: multiply-adds executed per text, padding included where it is
    computed. ``speed``: times as fast as the first peer (median and quartiles of the rounds), None without peers.
    ``peak_share``: of the machine's product speed in the same format. ``labels_equal``: share of the texts with the
    label of the float32 reference. ``memory``: peak bytes of the process above the start. Seconds of texts sent alone:
    ``p50``, ``p95``.
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
    p50: float | None = None
    p95: float | None = None


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """``rows`` in the order of the table; ``notes`` say in words what is gained and what is not."""

    rows: list[BenchRow]
    texts: int
    tokens: float
    threads: int
    peaks: dict[str, float]
    skipped: dict[str, str]
    notes: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class _Candidate:
    name: str
    precision: str
    answer: Answer
    kind: str = "ours"
    asked: int | None = None
    macs: float | None = None


def bench(
    classifiers: Mapping[str, Classifier],
    inputs: Sequence[str | Pair],
    settings: BenchSettings,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> BenchResult:
    """Time everything on ``inputs``; ``classifiers`` by format, "float32" among them when "dense" is compared.

    Candidates take turns in every round, in an order drawn anew; the first round is not counted. Raises ValueError
    for empty inputs or a number of heads that the model does not have.
    """
    if not inputs:
        raise ValueError("bench needs at least one text")
    first = next(iter(classifiers.values()))
    for k in settings.heads or ():
        if not 1 <= k <= first.config.num_attention_heads:
            raise ValueError(f"heads must lie between 1 and {first.config.num_attention_heads}, got {k}")
    with tempfile.TemporaryDirectory(prefix="budgetformer-bench-") as folder:
        peers, skipped = _peers(first, inputs, settings, Path(folder))
        candidates = [*_ours(classifiers, settings), *peers]
        answers = {c.name: c.answer(inputs) for c in candidates}
        memory = {c.name: _peak_memory(c, inputs) for c in candidates}
        timings = interleaved(
            {c.name: partial(c.answer, inputs) for c in candidates},
            rounds=settings.rounds,
            warmup=settings.warmup,
            synchronize=first.model.device,
            seed=settings.seed,
            progress=progress,
        )
        alone = {}
        if settings.latency_texts:
            singles = [[item] for item in inputs[: settings.latency_texts]]
            alone = latencies({c.name: c.answer for c in candidates}, singles, synchronize=first.model.device)
        config = first.config
        peaks = {
            p: matmul_peak(
                width=config.hidden_size, intermediate=config.intermediate_size, device=first.model.device, precision=p
            )
            for p in {c.precision for c in candidates}
        }
    truth = answers.get(REFERENCE) or next((answers[c.name] for c in candidates if c.precision == "float32"), None)
    baseline = timings[peers[0].name] if peers else None
    rows = []
    for c in candidates:
        row = _row(c, answers[c.name], timings[c.name], baseline, len(inputs), peaks[c.precision])
        equal = _share_equal(answers[c.name], truth) if c.kind != "peer" and truth is not None else None
        times = alone.get(c.name)
        rows.append(
            BenchRow(
                **row,
                labels_equal=equal,
                memory=memory[c.name],
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
        peaks=peaks,
        skipped=skipped,
        notes=_notes(rows, peers[0].name if peers else None),
    )


def _ours(classifiers: Mapping[str, Classifier], settings: BenchSettings) -> list[_Candidate]:
    found = []
    for precision, classifier in classifiers.items():
        all_heads = classifier.config.num_attention_heads
        suffix = "" if precision == "float32" else f", {precision}"
        asks: dict[str, tuple[int | None, dict[str, Any]]] = {}
        if classifier.config.budgeted:
            asks[f"own budgets{suffix}"] = None, {"policy": settings.policy}
            for k in range(1, all_heads + 1) if settings.heads is None else settings.heads:
                name = f"{k} of {all_heads} heads{suffix}"
                asks[name] = k, {"budget": k / all_heads, "policy": settings.policy}
        else:
            asks[f"full attention{suffix}"] = None, {}
        for name, (asked, ask) in asks.items():
            found.append(_Candidate(name=name, precision=precision, answer=_answer(classifier, ask), asked=asked))
    exact = classifiers.get("float32")
    if "dense" in settings.against and exact is not None:
        twin = Classifier(model=copy.deepcopy(exact.model), tokenizer=exact.tokenizer)
        twin.model.set_execution("reference")
        ask = {"policy": settings.policy} if exact.config.budgeted else {}
        found.append(_Candidate(name=REFERENCE, precision="float32", answer=_answer(twin, ask), kind="reference"))
    return found


def _answer(classifier: Classifier, ask: dict[str, Any]) -> Answer:
    return lambda inputs: classifier(inputs, **ask)


def _peers(
    classifier: Classifier, inputs: Sequence[str | Pair], settings: BenchSettings, folder: Path
) -> tuple[list[_Candidate], dict[str, str]]:
    """The others, and why some are missing."""
    found: list[_Candidate] = []
    skipped: dict[str, str] = {}
    if not {"hf", "onnxruntime"} & set(settings.against):
        return found, skipped
    config, size = classifier.config, settings.batch_size
    lengths = np.array([len(ids) for ids in classifier.encode(list(inputs)).input_ids])
    arriving, sorted_ = (_padded_macs(classifier, some, size) for some in (lengths, np.sort(lengths)))
    torch.manual_seed(settings.seed)
    bert = dense_bert(config).to(classifier.model.device)
    if "hf" in settings.against:
        for name, make in ((PIPELINE, pipeline_answer), (BATCHES, batched_answer)):
            answer = make(bert, classifier.tokenizer, batch_size=size)
            name = f"{name}, batch {size}"
            found.append(_Candidate(name=name, precision="float32", answer=answer, macs=arriving, kind="peer"))
    if "onnxruntime" in settings.against:
        try:
            files = onnx_files(bert.cpu(), folder)
        except ImportError as error:
            skipped["onnxruntime"] = str(error)
            files = {}
        bert.to(classifier.model.device)
        for precision, file in files.items():
            for sort in (False, True):
                answer = onnx_answer(
                    file,
                    classifier.tokenizer,
                    batch_size=size,
                    max_length=config.max_position_embeddings,
                    sort=sort,
                )
                name = f"dense BERT, ONNX Runtime {precision}, batch {size}{' sorted' if sort else ''}"
                macs = sorted_ if sort else arriving
                found.append(_Candidate(name=name, precision=precision, answer=answer, macs=macs, kind="peer"))
    return found, skipped


def _padded_macs(classifier: Classifier, lengths: np.ndarray, batch_size: int) -> float:
    """Mean multiply-adds of a text when batches are padded to their longest."""
    padded = [lengths[i : i + batch_size] for i in range(0, len(lengths), batch_size)]
    longest = np.concatenate([np.full(len(part), part.max()) for part in padded])
    return float(dense_macs(classifier.config.dense_twin(), longest, whole=True).mean())


def _peak_memory(candidate: _Candidate, inputs: Sequence[str | Pair]) -> int | None:
    _give_back()
    with MemoryMeter() as meter:
        candidate.answer(inputs)
    return meter.resident.increase


def _give_back() -> None:
    """Hand freed memory back to the system, where the C library can, so that it is not used again unseen."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _row(
    candidate: _Candidate, answers: Sequence[Any], timing: Timing, baseline: Timing | None, texts: int, peak: float
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
        "peak_share": macs * texts / timing.median / peak,
        "speed": None if ratio is None else (ratio.median, ratio.lower, ratio.upper),
    }


def _share_equal(answers: Sequence[Prediction], truth: Sequence[Prediction]) -> float:
    return float(np.mean([a.label == b.label for a, b in zip(answers, truth, strict=True)]))


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
        few, many = some[0], some[-1]
        if few is not many and few.quartiles[0] <= many.quartiles[1]:
            notes.append(f"In {precision}, {few.name} is not clearly faster than {many.name} on these texts.")
    return notes
