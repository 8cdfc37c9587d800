"""What takes part in a bench: the model at its own and at every number of heads, its reference, and the peers."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..answers import Pair
from ..curve import possible_heads
from ..inference import Classifier
from ..metering.macs import dense_macs
from .peers import Answer, batched_answer, dense_bert, onnx_answer, onnx_files, pipeline_answer

REFERENCE = "all heads computed (reference)"
PIPELINE, BATCHES = "dense BERT, transformers pipeline", "dense BERT, transformers"
AGAINST = ("dense", "hf", "onnxruntime")


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """What to compare, and how often.

    precisions: formats to measure (None: of all classifiers). heads: numbers of heads to ask for besides the learned
    budgets (None: all that can be kept). policy: a baseline policy that chooses the heads. against: "dense" (the
    reference execution, which computes all heads), "hf" (a BERT of the same shape in ``transformers``, by its pipeline
    and by a plain loop), "onnxruntime" (that BERT in ONNX Runtime, float32 and int8). batch_size: of those. rounds,
    warmup: of the timing. latency_texts: how many texts are also sent alone; 0 for none.
    """

    precisions: Sequence[str] | None = None
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
        if self.latency_texts < 0:
            raise ValueError(f"latency_texts must be 0 or above, got {self.latency_texts}")
        for name in self.against:
            if name not in AGAINST:
                raise ValueError(f"against must name some of {', '.join(AGAINST)}, got {name!r}")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One contestant; ``macs`` per text for a peer, which does not report them.

    ``request``: in words, what it is asked for, in any format and execution; empty for a peer.
    """

    name: str
    precision: str
    answer: Answer
    kind: str = "ours"
    asked: int | None = None
    macs: float | None = None
    request: str = ""


def ours(classifiers: Mapping[str, Classifier], settings: BenchSettings) -> list[Candidate]:
    """The model in each format, at its own budgets and at every number of heads, and its reference."""
    found = []
    for precision in settings.precisions or classifiers:
        found += _at_every_number(classifiers[precision], precision, settings)
    if "dense" in settings.against:
        unasked = [c for c in definitions(classifiers, settings) if c.asked is None]
        # The last one is what a call without a budget gets: the default budget where there is one.
        found += [replace(c, name=REFERENCE, kind="reference") for c in unasked[-1:]]
    return found


def definitions(classifiers: Mapping[str, Classifier], settings: BenchSettings) -> list[Candidate]:
    """What every number of heads should give: the float32 reference, asked like ``ours``; nothing without float32."""
    exact = classifiers.get("float32")
    return [] if exact is None else _at_every_number(_by_reference(exact), "float32", settings)


def _at_every_number(classifier: Classifier, precision: str, settings: BenchSettings) -> list[Candidate]:
    """One model at its own budgets, at its default budget and at every number of heads."""
    suffix = "" if precision == "float32" else f", {precision}"
    all_heads = classifier.config.num_attention_heads
    asks: dict[str, tuple[int | None, dict[str, Any]]] = {}
    if classifier.config.budgeted:
        default = classifier.config.default_budget
        own = {} if default is None else {"max_budget": 1.0}
        asks["own budgets"] = None, {"policy": settings.policy} | own
        if default is not None:
            asks[f"default budget {default:.3g}"] = None, {"policy": settings.policy}
        for k in possible_heads(classifier) if settings.heads is None else settings.heads:
            ask = {"budget": k / all_heads, "policy": settings.policy}
            asks[f"{k} of {all_heads} heads"] = k, ask
    else:
        asks["full attention"] = None, {}
    return [
        Candidate(
            name=request + suffix, precision=precision, answer=_answer(classifier, ask), asked=asked, request=request
        )
        for request, (asked, ask) in asks.items()
    ]


def _by_reference(classifier: Classifier) -> Classifier:
    """The same model, which computes all heads and masks."""
    twin = copy.copy(classifier)
    twin.model = copy.deepcopy(classifier.model)
    twin.model.set_execution("reference")
    return twin


def _answer(classifier: Classifier, ask: dict[str, Any]) -> Answer:
    return lambda inputs: classifier(inputs, **ask)


def peers(
    classifier: Classifier, inputs: Sequence[str | Pair], settings: BenchSettings, folder: Path
) -> tuple[list[Candidate], dict[str, str]]:
    """The others, and why some are missing."""
    found: list[Candidate] = []
    skipped: dict[str, str] = {}
    if not {"hf", "onnxruntime"} & set(settings.against):
        return found, skipped
    config, size = classifier.config, settings.batch_size
    lengths = np.array([len(ids) for ids in classifier.encode(list(inputs)).input_ids])
    arriving, sorted_ = (_padded_macs(classifier, some, size) for some in (lengths, np.sort(lengths)))
    with torch.random.fork_rng(devices=[]):  # made on the CPU; the random state of the process stays as it is
        torch.manual_seed(settings.seed)
        bert = dense_bert(config).to(classifier.model.device)
    if "hf" in settings.against:
        for name, make in ((PIPELINE, pipeline_answer), (BATCHES, batched_answer)):
            answer = make(bert, classifier.tokenizer, batch_size=size)
            name = f"{name}, batch {size}"
            found.append(Candidate(name=name, precision="float32", answer=answer, macs=arriving, kind="peer"))
    if "onnxruntime" in settings.against:
        try:
            files = onnx_files(bert.cpu(), folder)
        except Exception as error:  # of the exporter or without the extra: the others are measured all the same
            known = isinstance(error, ImportError)
            skipped["onnxruntime"] = str(error) if known else f"the export failed: {type(error).__name__}: {error}"
            files = {}
        bert.to(classifier.model.device)
        for precision, file in files.items():
            for sort in (False, True):
                answer = onnx_answer(
                    file,
                    classifier.tokenizer,
                    batch_size=size,
                    max_length=config.text_limit,
                    sort=sort,
                )
                name = f"dense BERT, ONNX Runtime {precision}, batch {size}{' sorted' if sort else ''}"
                macs = sorted_ if sort else arriving
                found.append(Candidate(name=name, precision=precision, answer=answer, macs=macs, kind="peer"))
    return found, skipped


def _padded_macs(classifier: Classifier, lengths: np.ndarray, batch_size: int) -> float:
    """Mean multiply-adds of a text when batches are padded to their longest."""
    padded = [lengths[i : i + batch_size] for i in range(0, len(lengths), batch_size)]
    longest = np.concatenate([np.full(len(part), part.max()) for part in padded])
    return float(dense_macs(classifier.config.dense_twin(), longest, whole=True).mean())
