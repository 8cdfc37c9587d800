"""Batches across requests: what arrives while the model works goes into the next one, whatever budgets it asks for."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ..answers import Prediction
from ..data.encoding import Encoded
from .engine import Batch, Engine, batch_of
from .metrics import Metrics
from .settings import ServingSettings
from .shedding import Asked, Shedder
from .waiting import Job, Part, Waiting

log = logging.getLogger("budgetformer.serving")


@dataclass(frozen=True, kw_only=True)
class Answered:
    """A prediction, the cap that the server put on it, or the error that stands in its place."""

    prediction: Prediction | Exception
    shed: float | None


class Collected:
    """The answers of one job as they come in."""

    def __init__(self, size: int) -> None:
        self.answers: list[Answered | None] = [None] * size
        self.missing = size
        self.done: asyncio.Future[list[Answered]] = asyncio.get_running_loop().create_future()
        self.started: float | None = None
        self.inference_s = 0.0

    def put(self, number: int, answer: Answered) -> None:
        """The answer to one input; after the last one ``done`` has them all."""
        self.answers[number] = answer
        self.missing -= 1
        if not self.missing and not self.done.done():
            self.done.set_result([a for a in self.answers if a is not None])


class Batcher:
    """A queue in front of the engine. Everything here runs in the event loop; nothing here computes.

    A batch starts when the model is free and the waiting tokens fill it, or no other text is on its way, or the oldest
    has waited ``max_wait_ms``. ``waiting`` counts texts that are admitted and not in a batch yet, ``max_queue`` of
    them at most; those among them that are not in the queue yet are on their way.
    """

    def __init__(self, *, engine: Engine, settings: ServingSettings, shedder: Shedder, metrics: Metrics) -> None:
        self.engine, self.settings, self.shedder, self.metrics = engine, settings, shedder, metrics
        self.waiting = 0
        self.hurry = False
        self._queue = Waiting()
        self._changed = asyncio.Event()
        self._texts_per_second = 0.0

    def admit(self, texts: int) -> bool:
        """Take places in the queue for so many texts, if there are as many."""
        if self.waiting + texts > self.settings.max_queue:
            return False
        self._count(texts)
        return True

    def release(self, texts: int) -> None:
        """Give places back that were not used."""
        self._count(-texts)
        self._changed.set()

    def retry_after(self) -> int:
        """Seconds until the queue will be answered at the present speed, between 1 and 60."""
        return max(1, min(60, math.ceil(self.waiting / (self._texts_per_second or 1.0))))

    def tightened(self, budget: float | None, max_budget: float | None) -> Asked:
        """The budget or cap that a request gets, as full as the queue is now."""
        self.shedder.watch(self.waiting / self.settings.max_queue)
        return self.shedder.tightened(budget, max_budget)

    def submit(self, encoded: Encoded, *, budget: float | None, max_budget: float | None, details: bool) -> Job:
        """Queue the inputs of a request whose places are taken. ``done`` of the job's owner has the answers."""
        job = Job(
            encoded=encoded,
            arrived=time.monotonic(),
            budget=budget,
            max_budget=max_budget,
            details=details,
            owner=Collected(len(encoded.input_ids)),
        )
        self._queue.add(job)
        self._changed.set()
        return job

    def drop(self, job: Job) -> None:
        """Take what still waits of a job out of the queue: nobody wants it any more."""
        self._count(-self._queue.drop(job))

    def finish_soon(self) -> None:
        """Wait for no company any more."""
        self.hurry = True
        self._changed.set()

    async def run(self) -> None:
        """Make batches until cancelled."""
        while True:
            while not self._queue:
                self._changed.clear()
                await self._changed.wait()
            await self._company()
            if parts := self._queue.take(self.settings.batch_tokens):
                await self._batch(parts)

    async def _company(self) -> None:
        until = self._queue.oldest() + self.settings.max_wait_ms / 1000
        while 0 < len(self._queue) < self.waiting and not self.hurry:
            if self._queue.tokens >= self.settings.batch_tokens:
                return
            left = until - time.monotonic()
            if left <= 0:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return

    async def _batch(self, parts: list[Part]) -> None:
        asked = [self.tightened(part.job.budget, part.job.max_budget) for part in parts]
        texts = sum(len(part.numbers) for part in parts)
        self._count(-texts)
        started = time.monotonic()
        for part in parts:
            if part.job.owner.started is None:
                part.job.owner.started = started
        pieces = [(part.job.encoded, part.numbers, ask) for part, ask in zip(parts, asked, strict=True)]
        results: list[tuple[Prediction | Exception, Asked]]
        make = partial(batch_of, pieces, details=any(part.job.details for part in parts))
        try:
            batch, answers = await asyncio.wrap_future(self.engine.answer(make))
            self._note(batch, answers, seconds=time.monotonic() - started)
            results = list(zip(answers, batch.asked, strict=True))
        except Exception as error:  # these requests fail, the server goes on
            log.exception("a batch failed")
            results = [(error, ask) for part, ask in zip(parts, asked, strict=True) for _ in part.numbers]
        in_order = iter(results)
        for part in parts:
            part.job.owner.inference_s += time.monotonic() - started
            for number in part.numbers:
                prediction, ask = next(in_order)
                part.job.owner.put(number, Answered(prediction=prediction, shed=ask.shed))

    def _note(self, batch: Batch, answers: Sequence[Prediction | Exception], *, seconds: float) -> None:
        speed = len(answers) / max(seconds, 1e-6)
        self._texts_per_second = 0.8 * self._texts_per_second + 0.2 * speed if self._texts_per_second else speed
        self.metrics.batch(texts=len(answers), tokens=batch.tokens, seconds=seconds)
        for answer in answers:
            if isinstance(answer, Exception):
                log.error("an input could not be answered", extra={"kind": type(answer).__name__})

    def _count(self, texts: int) -> None:
        self.waiting += texts
        self.metrics.waiting(self.waiting)
