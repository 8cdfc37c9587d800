"""What the server does with a request, apart from HTTP: admission, token ids, queue, answers, leaving."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ..answers import Pair, Prediction
from ..inference import Classifier
from .batcher import Answered, Batcher
from .engine import Engine
from .examples import examples
from .metrics import Metrics
from .problems import Problem
from .schemas import ClassifyRequest
from .settings import ServingSettings
from .shedding import Shedder
from .writing import HERE, Written, array, members, value

log = logging.getLogger("budgetformer.serving")
T = TypeVar("T")
BUSY = "the server is busy; try again after the time in Retry-After"


class Service:
    """One model with its queue. ``status`` is ``loading``, ``ready``, ``failed`` or ``leaving``."""

    def __init__(self, settings: ServingSettings) -> None:
        self.settings = settings
        self.engine = Engine(settings)
        self.metrics = Metrics()
        shedder = Shedder(cap=settings.shed_budget, at=settings.shed_at)
        self.batcher = Batcher(engine=self.engine, settings=settings, shedder=shedder, metrics=self.metrics)
        self.status = "loading"
        self.explaining = asyncio.Lock()
        self.open_requests = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def classifier(self) -> Classifier:
        """The model; there once it was ready."""
        assert self.engine.classifier is not None
        return self.engine.classifier

    async def load(self) -> None:
        """Load the model and try it; what the folder cannot do is raised."""
        await asyncio.wrap_future(self.engine.load())
        self.batcher.shedder.default = self.classifier.config.default_budget
        if self.status == "loading":
            self.status = "ready"

    def require_ready(self) -> None:
        """Refuse a request while there is no model, or when the server leaves."""
        if self.status != "ready":
            raise Problem(503, f"the server is {self.status}", headers={"Retry-After": "1"})

    @contextmanager
    def accepted(self) -> Iterator[None]:
        """A request that will be answered, even if the server is told to leave meanwhile. 429 when there are enough."""
        if self.open_requests >= self.settings.max_requests or self.batcher.waiting >= self.settings.max_queue:
            raise self._busy()
        self.open_requests += 1
        self._idle.clear()
        try:
            yield
        finally:
            self.open_requests -= 1
            if not self.open_requests:
                self._idle.set()

    async def leave(self) -> None:
        """Refuse new requests; returns when all that were accepted are answered."""
        self.status = "leaving"
        self.batcher.finish_soon()
        await asyncio.sleep(self.settings.leave_s)
        await self._idle.wait()

    async def classify(self, body: ClassifyRequest, *, gone: Callable[[], Coroutine[Any, Any, None]]) -> Written:
        """The answer to a request. ``gone()`` ends when nobody waits for it any more."""
        started = time.monotonic()
        until = started + min(self.settings.timeout_s, (body.timeout_ms or 3_600_000) / 1000)
        inputs = body.inputs
        self._check_number(body)
        self.check_sizes({f"{body.place}[{number}]": item for number, item in enumerate(inputs)})
        self.admit(len(inputs))
        budget, max_budget = body.asked
        left = asyncio.create_task(gone())
        try:
            try:
                encoded = await first_of(asyncio.wrap_future(self.engine.encode(inputs)), left, until)
            except BaseException:
                self.batcher.release(len(inputs))
                raise
            tokenised = time.monotonic()
            job = self.batcher.submit(encoded, budget=budget, max_budget=max_budget, details=body.details)
            try:
                answered = await first_of(job.owner.done, left, until)
            finally:
                self.batcher.drop(job)
            queue = (job.owner.started or time.monotonic()) - tokenised
            seconds = {"tokenisation": tokenised - started, "queue": queue, "inference": job.owner.inference_s}
            self.metrics.stages(**seconds)
            predictions = _predictions(answered, place=body.place)

            def write() -> Written:
                dense = self.dense_macs(predictions)
                self.metrics.answers(predictions, dense=dense, shed=sum(a.shed is not None for a in answered))
                rows = (
                    row_of(prediction, macs_dense=all_heads, shed=answer.shed, details=body.details)
                    for prediction, answer, all_heads in zip(predictions, answered, dense, strict=True)
                )
                return written({"answers": array(rows)}, seconds, started=started, texts=len(answered))

            if len(predictions) * self._numbers(details=body.details) <= HERE:
                return write()
            return await first_of(asyncio.wrap_future(self.engine.write(write)), left, until)
        finally:
            left.cancel()

    def _numbers(self, *, details: bool) -> int:
        """In the answer to one text, about."""
        config = self.classifier.config
        return config.num_labels + config.num_hidden_layers * (1 + details * (1 + 2 * config.num_attention_heads))

    def _check_number(self, body: ClassifyRequest) -> None:
        inputs, most = body.inputs, self.settings.max_texts
        if len(inputs) > most:
            raise Problem(413, f"at most {most} in a request, got {len(inputs)}; send several", field=body.place)

    def check_sizes(self, inputs: Mapping[str, str | Pair]) -> None:
        """Refuse texts with too many characters; the keys are the fields that hold them."""
        for place, item in inputs.items():
            for text, part in [(item, "")] if isinstance(item, str) else [(item.text, ".text"), (item.pair, ".pair")]:
                if len(text) > self.settings.max_characters:
                    said = f"at most {self.settings.max_characters} characters, got {len(text)}"
                    raise Problem(413, said, field=(place + part).removeprefix("."))

    def admit(self, texts: int) -> None:
        """Take places in the queue, or refuse the request."""
        if not self.batcher.admit(texts):
            raise self._busy()

    def dense_macs(self, predictions: Sequence[Prediction]) -> list[int]:
        """Multiply-adds of the same inputs with all heads."""
        return self.classifier.dense_macs(predictions)

    def _busy(self) -> Problem:
        return Problem(429, BUSY, headers={"Retry-After": str(self.batcher.retry_after())})


def _predictions(answered: Sequence[Answered], *, place: str) -> list[Prediction]:
    predictions = []
    for number, answer in enumerate(answered):
        if isinstance(answer.prediction, Exception):
            raise Problem(500, "the model could not answer this input", field=f"{place}[{number}]")
        predictions.append(answer.prediction)
    return predictions


def written(parts: Mapping[str, bytes], seconds: Mapping[str, float], *, started: float, texts: int) -> Written:
    """The body of an answer: its parts and, at its end, the timings up to now."""
    timings = {**seconds, "total": time.monotonic() - started}
    timings = {f"{name}_ms": round(1000 * spent, 3) for name, spent in timings.items()}
    return Written(body=members(**parts, timings=value(timings)), texts=texts, timings=timings)


def row_of(prediction: Prediction, *, macs_dense: int, shed: float | None, details: bool) -> dict[str, Any]:
    """An answer as JSON values: that of ``schemas.Answer``."""
    names = ("label", "score", "scores", "heads", "macs", "tokens", "truncated", "reason")
    row = {name: getattr(prediction, name) for name in names}
    row |= {"macs_dense": macs_dense, "shed_budget": shed, "details": None}
    if details and prediction.relevance is not None and prediction.kept is not None:
        row["details"] = {
            "relevance": prediction.relevance.astype(float).tolist(),
            "kept": prediction.kept.tolist(),
            "budgets": prediction.budgets,
        }
    return row


class Gone(Exception):
    """Nobody waits for the answer any more."""


async def first_of(work: asyncio.Future[T], gone: asyncio.Future[Any], until: float) -> T:
    """The result of ``work``, unless the client leaves or the time is over before."""
    left = max(0.0, until - time.monotonic())
    await asyncio.wait({work, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        return work.result()
    work.cancel()
    if gone.done():
        raise Gone
    raise Problem(504, "the request was not answered in its time", headers={"Retry-After": "1"})


def describe(service: Service, *, version: str, training: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """What is served: labels, sizes, measured figures, limits."""
    classifier, settings = service.classifier, service.settings
    config = classifier.config
    takes = "pairs" if config.pair_column else "texts" if config.text_columns else "texts or pairs"
    limits = ("max_bytes", "max_texts", "max_characters", "max_requests", "max_queue", "max_explain_tokens")
    return {
        "name": Path(settings.folder).resolve().name,
        "labels": classifier.labels,
        "takes": takes,
        "budgeted": bool(config.budgeted),
        "default_budget": config.default_budget,
        "sizes": {
            "layers": config.num_hidden_layers,
            "heads": config.num_attention_heads,
            "hidden_size": config.hidden_size,
            "max_tokens": config.text_limit,
            "parameters": sum(p.numel() for p in classifier.model.parameters()),
        },
        "kept_heads": config.kept_heads,
        "device": str(classifier.model.device),
        "precision": classifier.precision.name,
        "execution": classifier.model.execution_path.NAME,
        "threads": service.engine.threads,
        "measured": training(Path(settings.folder)),
        "examples": examples(Path(settings.folder), takes=takes),
        "limits": {
            name: getattr(settings, name)
            for name in (*limits, "batch_tokens", "max_wait_ms", "timeout_s", "shed_budget")
        },
        "revision": service.engine.revision,
        "version": version,
    }
