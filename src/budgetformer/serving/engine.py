"""The model behind three threads, none of them the server's: one computes, one makes token ids, one writes answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..answers import Pair, Prediction, Request
from ..data.encoding import Encoded, joined
from ..explaining import explain_encoded
from ..explanation import Explanation
from ..inference import Classifier
from ..model_folder import model_identity
from .settings import ServingSettings
from .shedding import Asked
from .writing import Written

WARM_UP = "a first text"
REVISION = 12
"""Characters of the model's digest by which its answers are told from those of another one."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Encoded inputs of any requests, and for each what is asked of it."""

    encoded: Encoded
    asked: Sequence[Asked]
    details: bool

    @property
    def tokens(self) -> int:
        """Real tokens of all inputs."""
        return sum(map(len, self.encoded.input_ids))


class Engine:
    """Loads a model folder and answers batches, one after the other.

    The threads of one operation are set in the thread that computes, since that is where torch looks.
    """

    def __init__(self, settings: ServingSettings) -> None:
        self.settings = settings
        self.classifier: Classifier | None = None
        self.revision: str | None = None
        self.threads = settings.threads_each
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else the tokenizer takes a thread of every core
        self._model = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._tokenizer = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="writer")

    def load(self) -> Future[Classifier]:
        """Load, and make a first prediction: only then is the model known to work."""
        return self._model.submit(self._load)

    def encode(self, items: list[str | Pair]) -> Future[Encoded]:
        """Token ids of texts or pairs."""
        assert self.classifier is not None
        return self._tokenizer.submit(self.classifier.encode, items)

    def answer(self, make: Callable[[], Batch]) -> Future[tuple[Batch, list[Prediction | Exception]]]:
        """Answers to a batch, in its order; an input that cannot be answered has its error in that place.

        ``make`` is called in the model's thread: putting a batch together is work, too.
        """
        return self._model.submit(self._answer, make)

    def explain(self, item: str | Pair, encoded: Encoded, asked: Asked, *, heads: int) -> Future[Explanation]:
        """What the model did with one input, in the model's thread like every answer."""
        return self._model.submit(self._explain, item, encoded, asked, heads)

    def write(self, make: Callable[[], Written]) -> Future[Written]:
        """A large answer as bytes."""
        return self._writer.submit(make)

    def close(self) -> None:
        """Let the threads end after what they are doing."""
        for pool in (self._model, self._tokenizer, self._writer):
            pool.shutdown(wait=False, cancel_futures=True)

    def _load(self) -> Classifier:
        import torch

        torch.set_num_threads(self.threads)
        asked = self.settings
        revision = model_identity(Path(asked.folder))[:REVISION]
        classifier = Classifier.from_pretrained(
            asked.folder,
            device=asked.device,
            precision=asked.precision,
            execution=asked.execution,
            batch_tokens=asked.batch_tokens,
        )
        classifier(Pair(WARM_UP, WARM_UP) if classifier.config.pair_column else WARM_UP)
        self.classifier, self.revision = classifier, revision
        return classifier

    def _explain(self, item: str | Pair, encoded: Encoded, asked: Asked, heads: int) -> Explanation:
        assert self.classifier is not None
        budgets: dict[str, Any] = {"budget": asked.budget, "max_budget": asked.max_budget}
        [prediction] = self.classifier.answer(encoded, Request(**budgets, details=True))
        return explain_encoded(self.classifier, item, encoded=encoded, prediction=prediction, heads=heads, **budgets)

    def _answer(self, make: Callable[[], Batch]) -> tuple[Batch, list[Prediction | Exception]]:
        batch = make()
        return batch, self._answers(batch)

    def _answers(self, batch: Batch) -> list[Prediction | Exception]:
        assert self.classifier is not None
        request = Request(
            budget=_unless_empty([a.budget for a in batch.asked]),
            max_budget=_unless_empty([a.max_budget for a in batch.asked]),
            details=batch.details,
        )
        try:
            return list(self.classifier.answer(batch.encoded, request))
        except Exception as error:
            if len(batch.asked) == 1:
                return [error]
        alone = [
            Batch(encoded=batch.encoded.select([i]), asked=[asked], details=batch.details)
            for i, asked in enumerate(batch.asked)
        ]
        return [answer for one in alone for answer in self._answers(one)]


def batch_of(parts: Sequence[tuple[Encoded, Sequence[int], Asked]], *, details: bool) -> Batch:
    """One batch of inputs (by their numbers) of several requests."""
    return Batch(
        encoded=joined([encoded.select(numbers) for encoded, numbers, _ in parts]),
        asked=[asked for _, numbers, asked in parts for _ in numbers],
        details=details,
    )


def _unless_empty(shares: list[float | None]) -> list[float | None] | None:
    return None if all(share is None for share in shares) else shares
