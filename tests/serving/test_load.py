"""A server with more to do than it can: it stays reachable, refuses in time, is fair, and forgets what nobody wants."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from budgetformer import Classifier

from ..conftest import WORDS
from ..model_folders import make_folder
from .running import KEYED, PATIENCE, Running, equal, refused, strict

SLOW = {
    "hidden_size": 192,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "max_position_embeddings": 128,
    "text_columns": ["text"],
}
MANY = 280


def long_texts(number: int) -> list[str]:
    """Texts at the model's limit; a batch of 1,024 tokens takes eight of them."""
    generator = random.Random(7)
    words = [word for group in WORDS.values() for word in group]
    return [" ".join(generator.choices(words, k=150)) for _ in range(number)]


@pytest.fixture(scope="module")
def slow_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("slow") / "m", **SLOW)


@pytest.fixture(scope="module")
def slow(slow_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Watched from its start; the last test of this file ends it."""
    options = ("--threads", 1, "--timeout", 120, "--batch-tokens", 1024, "--max-queue", 300, "--max-texts", 300)
    shedding = ("--shed-budget", 0.125, "--shed-at", 0.6, "--leave", 0.3)
    log = tmp_path_factory.mktemp("log") / "log"
    with Running(slow_folder, *options, *shedding, log=log, wait=False) as running:
        yield running


@pytest.fixture(autouse=True)
def ready(request: pytest.FixtureRequest) -> None:
    """Wait until the server is ready, and see that it was not before it could answer."""
    if "slow" not in request.fixturenames:
        return
    server: Running = request.getfixturevalue("slow")
    seen: list[int] = []

    def is_ready() -> bool:
        response = server.client.get("/ready")
        if not seen and response.status_code == 503:
            assert strict(response)["status"] == "loading"
            assert server.client.post("/classify", json={"texts": ["good"]}).status_code in (503, 200)
        seen.append(response.status_code)
        return seen[-1] == 200

    server.until(is_ready)
    if not server.seen:
        server.seen += seen
        assert server.seen[0] == 503
        assert server.classify("good")


def metric(server: Running, name: str) -> int:
    lines = server.client.get("/metrics").text.splitlines()
    return int(float(next(line.split()[1] for line in lines if line.startswith(f"{name} "))))


def waiting(server: Running) -> int:
    return metric(server, "budgetformer_queue_texts")


@contextmanager
def busy(server: Running, **fields: Any) -> Iterator[Future[httpx.Response]]:
    """A request of many long texts under way."""

    def ask() -> httpx.Response:
        with httpx.Client(base_url=server.url, timeout=120, headers=KEYED) as client:
            return client.post("/classify", json={"texts": long_texts(MANY)} | fields)

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(ask)
        server.until(lambda: waiting(server) > 100)
        yield future


def test_a_busy_server_is_reachable_fair_and_sheds(slow: Running, slow_folder: Path) -> None:
    waits, statuses = [], set()
    with busy(slow) as work:
        started = time.monotonic()
        [small] = slow.classify("good film")
        answered_after = time.monotonic() - started
        assert not work.done()
        response = slow.client.post("/classify", json={"texts": ["good"] * 290})
        assert "busy" in refused(response, 429)["error"]
        assert 1 <= int(response.headers["retry-after"]) <= 60
        while not work.done():
            before = time.monotonic()
            statuses.add(slow.client.get("/health").status_code)
            waits.append(time.monotonic() - before)
            time.sleep(0.1)
        took = time.monotonic() - started
    assert statuses == {200}
    assert sorted(waits)[len(waits) * 9 // 10] < 1.0  # not the slowest: the client may be held up too
    assert answered_after < took / 2
    classifier = Classifier.from_pretrained(slow_folder, device="cpu")
    answers = strict(work.result())["answers"]
    shed = [a["shed_budget"] for a in answers]
    assert set(shed) == {0.125, None}
    for number in (0, 1, 2, *(shed.index(value) for value in (0.125, None))):
        asked = {} if shed[number] is None else {"max_budget": 0.125}
        equal(answers[number], classifier(long_texts(MANY)[number], **asked))
    equal(small, classifier("good film", max_budget=small["shed_budget"]))
    assert {tuple(a["heads"]) for a in answers if a["shed_budget"]} == {(1, 1, 1, 1)}


def test_what_a_client_no_longer_waits_for_leaves_the_queue(slow: Running) -> None:
    computed = metric(slow, "budgetformer_batch_texts_sum")
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{slow.url}/classify", json={"texts": long_texts(MANY)}, timeout=httpx.Timeout(60, read=0.5))
    slow.until(lambda: waiting(slow) == 0)
    assert metric(slow, "budgetformer_batch_texts_sum") - computed < MANY
    slow.until(lambda: any(line.get("status") == 499 for line in slow.lines()))
    assert slow.classify("good film")


def test_a_request_is_given_up_at_its_own_time(slow: Running) -> None:
    response = slow.client.post("/classify", json={"texts": long_texts(MANY), "timeout_ms": 400})
    assert "in its time" in refused(response, 504)["error"]
    assert waiting(slow) == 0
    assert slow.classify("good film", timeout_ms=60_000)


@pytest.mark.slow
def test_ctrl_c_ends_as_every_command_does(slow_folder: Path, tmp_path: Path) -> None:
    with Running(slow_folder, "--threads", 1, log=tmp_path / "log") as server:
        assert server.stop(signal.SIGINT) == 130
    assert server.log.read_text(encoding="utf-8").splitlines()[-1] == "stopped"


def holder_of(workers: set[int]) -> int:
    """The worker that computes: that with the most processor time within a moment."""

    def spent() -> dict[int, float]:
        return {number: sum(psutil.Process(number).cpu_times()[:2]) for number in workers}

    before = spent()
    time.sleep(0.3)
    return max(workers, key=lambda number: spent()[number] - before[number])


@pytest.mark.slow
def test_workers_share_cores_and_figures_and_are_replaced(slow_folder: Path, tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    with Running(slow_folder, "--workers", 2, log=tmp_path / "log", OMP_NUM_THREADS=str(cores)) as server:
        threads = strict(server.client.get("/model"))["threads"]
        assert threads * 2 <= max(cores, 2)

        def answered() -> set[int]:
            for _ in range(20):
                with httpx.Client(base_url=server.url, timeout=60) as client:  # a connection of its own
                    if client.get("/ready").status_code == 200:
                        client.post("/classify", json={"texts": ["good"]})
            lines = [line for line in server.lines() if line.get("route") == "/classify" and line["status"] == 200]
            return {line["process"] for line in lines}

        server.until(lambda: len(answered()) == 2)

        def counted() -> bool:  # a line of the log follows its answer
            number = len([line for line in server.lines() if line.get("route") == "/classify"])
            return f"budgetformer_texts_total {float(number)}" in server.client.get("/metrics").text.splitlines()

        server.until(counted)
        before = answered()
        with ThreadPoolExecutor(1) as pool:
            lost = pool.submit(httpx.post, f"{server.url}/classify", json={"texts": long_texts(MANY)}, timeout=60)
            server.until(lambda: waiting(server) > 100)
            holder = psutil.Process(holder_of(before))
            holder.suspend()  # so that the worker surely dies while it is asked whether it lives
            time.sleep(2)
            holder.kill()
            with pytest.raises(httpx.TransportError):
                lost.result()
        server.until(lambda: len(answered()) == 3, patience=100)  # not the two minutes that a silent worker is given
        server.until(lambda: waiting(server) == 0)
        assert server.stop() == 0


@pytest.mark.slow
def test_workers_leave_with_their_parent(slow_folder: Path, tmp_path: Path) -> None:
    with Running(slow_folder, "--workers", 2, log=tmp_path / "log") as server:
        children = psutil.Process(server.process.pid).children()
        server.process.kill()
        _, alive = psutil.wait_procs(children, timeout=PATIENCE)
        assert not alive
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/health")


@pytest.mark.slow
def test_memory_does_not_grow_with_requests_of_varying_length(slow_folder: Path, tmp_path: Path) -> None:
    generator = random.Random(11)
    words = [word for group in WORDS.values() for word in group]
    with Running(slow_folder, "--threads", 1, log=tmp_path / "log") as server:
        held: Callable[[], int] = psutil.Process(server.process.pid).memory_info
        after = {}
        for number in range(1, 2001):
            server.classify(" ".join(generator.choices(words, k=generator.randint(1, 400))))
            if number in (500, 2000):
                after[number] = held().rss
        assert after[2000] < 1.1 * after[500]


def test_sigterm_answers_what_was_accepted_and_refuses_the_rest(slow: Running) -> None:
    with busy(slow) as work:
        slow.process.send_signal(signal.SIGTERM)
        slow.until(lambda: slow.client.get("/ready").status_code == 503)
        last = slow.client.get("/ready")
        assert (strict(last)["status"], last.headers["connection"]) == ("leaving", "close")
        assert slow.client.get("/health").status_code == 200
        assert "leaving" in refused(slow.client.post("/classify", json={"texts": ["good"]}), 503)["error"]
        assert not work.done()
        assert len(strict(work.result())["answers"]) == MANY
    assert slow.process.wait(timeout=60) == 0
    assert not [line for line in slow.lines() if line["level"] in ("error", "critical")]
