"""What the parts of ``reliability.py`` share: models whose answers are known, server processes, clients that check."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import numpy as np
import psutil

from serving import LABELS, SHAPES, TOKENIZER, free_port

ENTRY = [sys.executable, "-c", "from budgetformer_command import main; main()"]
PATIENCE_S = 120.0
CLOSE = 1e-5
"""How far a score may be from the one of the text alone; two texts with the same answer are never both asked."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A folder, its revision, and the scores that ``Classifier`` gives to every text alone."""

    folder: Path
    revision: str
    known: dict[str, tuple[float, ...]]


def write_model(folder: Path, *, shape: str, seed: int, texts: Sequence[str]) -> Model:
    """A classifier with random weights, and its answers."""
    import torch
    from transformers import AutoTokenizer

    from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification, Classifier
    from budgetformer.model_folder import model_identity
    from budgetformer.serving.engine import REVISION

    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    tokenizer.model_max_length = 512
    sizes = SHAPES[shape] | {"vocab_size": len(tokenizer), "num_labels": LABELS, "max_position_embeddings": 512}
    config = BudgetFormerConfig(**sizes, initializer_range=0.1, text_columns=["text"])
    BudgetFormerForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    classifier = Classifier.from_pretrained(folder, device="cpu")
    known = {text: tuple(classifier(text).scores.values()) for text in texts}
    return Model(folder=folder, revision=model_identity(folder)[:REVISION], known=known)


def apart(texts: Sequence[str], *models: Model) -> list[str]:
    """The texts whose answers tell them from each other, in every model and between the models."""
    kept: list[str] = []
    seen: list[tuple[float, ...]] = []
    for text in texts:
        own = [model.known[text] for model in models]
        others = np.array(seen) if seen else np.zeros((0, LABELS))
        if all((np.abs(others - np.array(scores)).max(axis=1, initial=0) > 4 * CLOSE).all() for scores in own):
            kept.append(text)
            seen += own
    return kept


class Server:
    """``budgetformer serve`` as a process of its own on the loopback, until the block ends."""

    def __init__(self, model: Model, *options: object, log: Path, port: int | None = None) -> None:
        self.model, self.options, self.log = model, options, log
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes]

    def __enter__(self) -> Server:
        self.start()
        self.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def start(self) -> None:
        """Start the process and do not wait."""
        command = [*ENTRY, "serve", str(self.model.folder), "--port", str(self.port), *map(str, self.options)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=log, env=os.environ | {"TOKENIZERS_PARALLELISM": "false"}
            )

    def wait(self) -> None:
        """Until it says that it is ready."""
        end = time.monotonic() + PATIENCE_S
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"the server did not start: {self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)

    def is_ready(self) -> bool:
        """Whether a request would be answered now."""
        try:
            return httpx.get(f"{self.url}/ready", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    @property
    def memory(self) -> int:
        """Resident bytes."""
        return int(psutil.Process(self.process.pid).memory_info().rss)


@dataclass
class Tally:
    """What came back to all clients together."""

    asked: int = 0
    answered: int = 0
    wrong: int = 0
    lost: int = 0
    busy: int = 0
    unavailable: int = 0
    disconnected: int = 0
    failed: int = 0
    seconds: list[float] = field(default_factory=list)
    revisions: Counter[str] = field(default_factory=Counter)
    numbers: set[str] = field(default_factory=set)
    lock: Any = field(default_factory=threading.Lock, repr=False)

    def add(self, name: str) -> None:
        """One more of a kind."""
        with self.lock:
            setattr(self, name, getattr(self, name) + 1)

    def row(self) -> dict[str, Any]:
        """Figures: ``lost`` are requests without an answer in the end, ``wrong`` those with another text's answer."""
        names = ("asked", "answered", "wrong", "lost", "busy", "unavailable", "disconnected", "failed")
        times = {
            f"p{share}_ms": float(np.percentile(self.seconds, share)) * 1000 if self.seconds else None
            for share in (50, 99)
        }
        return {name: getattr(self, name) for name in names} | times


class Crowd:
    """Clients that ask one text after the other until told to stop, each over its own connection.

    With ``retries`` a request is sent again after 429, 503 or a broken connection, until it is answered or
    ``PATIENCE_S`` are over; without, a client stops at the first of them.
    """

    def __init__(
        self, where: Callable[[], str], models: Sequence[Model], texts: Sequence[str], *, clients: int, retries: bool
    ) -> None:
        self.where, self.texts, self.retries = where, texts, retries
        self.models = {model.revision: model for model in models}
        self.tally = Tally()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(clients)]

    def __enter__(self) -> Crowd:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        generator = random.Random(number)
        with httpx.Client(timeout=PATIENCE_S) as client:
            while not self._stop.is_set():
                self.tally.add("asked")
                if not self._ask(client, generator.choice(self.texts)) and not self.retries:
                    return

    def _ask(self, client: httpx.Client, text: str) -> bool:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            before = time.perf_counter()
            try:
                response = client.post(f"{self.where()}/classify", json={"texts": [text]})
            except httpx.TransportError:
                self.tally.add("disconnected")
                pause = 0.05
            else:
                if response.status_code == 200:
                    self._check(response, text, time.perf_counter() - before)
                    return True
                if response.status_code not in (429, 503):
                    self.tally.add("failed")
                    return False
                self.tally.add("busy" if response.status_code == 429 else "unavailable")
                pause = float(response.headers["Retry-After"]) if response.status_code == 429 else 0.05
            if not self.retries:
                return False
            time.sleep(pause)
        self.tally.add("lost")
        return False

    def _check(self, response: httpx.Response, text: str, seconds: float) -> None:
        revision = response.headers.get("X-Model-Revision", "none")
        try:
            [answer] = response.json()["answers"]
            expected = self.models[revision].known[text]
            right = max(abs(a - b) for a, b in zip(answer["scores"].values(), expected, strict=True)) < CLOSE
        except (KeyError, TypeError, ValueError):  # no answer of a server, or of a model that none of them has
            right = False
        with self.tally.lock:
            self.tally.answered += 1
            self.tally.wrong += not right
            self.tally.seconds.append(seconds)
            self.tally.revisions[revision] += 1
            self.tally.numbers.add(response.headers.get("X-Request-ID", ""))
