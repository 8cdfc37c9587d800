"""The parts of a server that need no process: queue, shedding, settings, logs, engine, batcher."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from budgetformer import BudgetFormerForSequenceClassification, Classifier
from budgetformer.data.encoding import Encoded
from budgetformer.serving import settings as settings_file
from budgetformer.serving.logs import JsonFormatter
from budgetformer.serving.measured import measured
from budgetformer.serving.problems import Problem
from budgetformer.serving.schemas import ClassifyRequest, request_model
from budgetformer.serving.service import Gone, Service, describe
from budgetformer.serving.settings import ServingSettings, usable_cores
from budgetformer.serving.shedding import Shedder
from budgetformer.serving.waiting import Job, Waiting

from ..conftest import WORDS, sentences
from ..model_folders import make_folder, make_tokenizer

TEXTS = [text for text, _ in sentences(24, labels=list(WORDS), seed=5)]


def job(*lengths: int, arrived: float = 0.0) -> Job:
    return Job(encoded=Encoded(input_ids=[[1] * n for n in lengths]), arrived=arrived)


def taken(queue: Waiting, tokens: int) -> list[tuple[Job, list[int]]]:
    return [(part.job, list(part.numbers)) for part in queue.take(tokens)]


def test_a_batch_takes_from_all_requests_in_turn_shortest_first() -> None:
    queue, large, small = Waiting(), job(5, 3, 4, 3), job(4)
    queue.add(large)
    queue.add(small)
    assert queue.tokens == 19
    assert taken(queue, 12) == [(large, [1, 3]), (small, [0])]
    assert queue.tokens == 9
    assert taken(queue, 12) == [(large, [2, 0])]
    assert (len(queue), queue.tokens) == (0, 0)


def test_a_long_text_is_taken_alone_and_not_passed_over_for_ever() -> None:
    queue, long = Waiting(), job(100)
    queue.add(job(*[2] * 20))
    queue.add(long)
    assert all(j is not long for j, _ in taken(queue, 10))
    queue.add(job(1, 1))
    assert taken(queue, 10) == [(long, [0])]


def test_a_dropped_request_is_gone_and_counted() -> None:
    queue, first, second = Waiting(), job(3, 3), job(2, arrived=7.0)
    queue.add(first)
    queue.add(second)
    assert queue.oldest() == 0.0
    assert (queue.drop(first), queue.drop(first), queue.tokens, queue.oldest()) == (2, 0, 2, 7.0)


@given(st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=6), min_size=1, max_size=6), st.integers(1, 64))
def test_every_text_is_taken_once_and_batches_fit(requests: list[list[int]], tokens: int) -> None:
    queue, jobs = Waiting(), [job(*lengths) for lengths in requests]
    for each in jobs:
        queue.add(each)
    seen: list[tuple[Job, int]] = []
    while queue:
        batch = [(j, n) for j, numbers in taken(queue, tokens) for n in numbers]
        longest = max(j.length(n) for j, n in batch)
        assert len(batch) == 1 or longest * len(batch) <= tokens
        seen += batch
    assert queue.tokens == 0
    assert sorted((jobs.index(j), n) for j, n in seen) == [
        (i, n) for i, r in enumerate(requests) for n in range(len(r))
    ]


def test_shedding_tightens_what_asks_for_more_and_says_so() -> None:
    shedder = Shedder(cap=0.25, at=0.5)
    shedder.watch(0.49)
    assert shedder.tightened(1.0, None).shed is None
    shedder.watch(0.5)
    for asked, given_ in (((None, None), (None, 0.25)), ((1.0, None), (0.25, None)), ((None, 0.5), (None, 0.25))):
        answer = shedder.tightened(*asked)
        assert ((answer.budget, answer.max_budget), answer.shed) == (given_, 0.25)
    for asked in ((0.25, None), (0.1, None), (None, 0.2)):
        answer = shedder.tightened(*asked)
        assert ((answer.budget, answer.max_budget), answer.shed) == (asked, None)
    shedder.watch(0.3)
    assert shedder.active
    shedder.watch(0.24)
    assert not shedder.active
    never = Shedder(cap=None, at=0.5)
    never.watch(1.0)
    assert never.tightened(None, None).shed is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"port": 70_000}, "--port must be between 0 and 65535, got 70000"),
        ({"workers": 0}, "--workers must be at least 1, got 0"),
        ({"threads": 0}, "--threads must be between 1 and 4096, got 0"),
        ({"timeout_s": 0}, "--timeout must be between"),
        ({"max_wait_ms": -1}, "--max-wait-ms must be between 0"),
        ({"max_wait_ms": float("nan")}, "--max-wait-ms must be between 0"),
        ({"shed_budget": 1.5}, r"--shed-budget must lie in \(0, 1\], got 1.5"),
        ({"max_explain_tokens": 0}, "--max-explain-tokens must be at least 1, got 0"),
        ({"max_texts": 10, "max_queue": 9}, r"--max-texts \(10\) must be at most --max-queue \(9\)"),
        ({"api_key": "ké"}, "printable ASCII"),
        ({"api_key": ""}, "not empty"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ServingSettings(folder="m", **wrong)


def test_threads_times_workers_are_at_most_the_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    limit = tmp_path / "cpu.max"
    monkeypatch.setattr(settings_file, "CPU_LIMIT", limit)
    for content, cores in ((None, 8), ("max 100000", 8), ("450000 100000", 4), ("20000 100000", 1), ("broken", 8)):
        if content is not None:
            limit.write_text(content + "\n", encoding="ascii")
        assert usable_cores() == cores
        for workers in (1, 2, 3, 5):
            each = ServingSettings(folder="m", workers=workers).threads_each
            assert each * workers <= cores or each == 1
    limit.unlink()
    assert ServingSettings(folder="m", workers=2).threads_each == 4
    assert ServingSettings(folder="m", threads=6, workers=2).threads_each == 6
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert ServingSettings(folder="m").threads_each == 3


def test_a_log_line_is_json_without_the_message_of_an_error() -> None:
    try:
        raise ValueError("the text was: secret")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "it %s\n", ("failed",), info)
    record.texts = 3
    line = json.loads(JsonFormatter().format(record))
    assert (line["event"], line["level"], line["texts"], line["kind"]) == ("it failed", "error", 3, "ValueError")
    assert "secret" not in json.dumps(line)
    assert line["at"][-1].endswith("test_a_log_line_is_json_without_the_message_of_an_error")


def test_measured_figures_are_those_of_training_and_never_nan(tmp_path: Path) -> None:
    assert measured(tmp_path) == {}
    record = {"validation": {"accuracy": 0.9, "macro_f1": float("nan"), "loss": 1.0}, "data": {"validation_rows": 20}}
    (tmp_path / "training.json").write_text(json.dumps(record), encoding="utf-8")
    assert measured(tmp_path) == {"accuracy": 0.9, "rows": 20}
    (tmp_path / "training.json").write_text("[", encoding="utf-8")
    assert measured(tmp_path) == {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that gives no numbers for texts with the word 'lamp'."""
    folder = make_folder(tmp_path_factory.mktemp("parts") / "m", text_columns=["text"])
    model = BudgetFormerForSequenceClassification.from_pretrained(folder)
    word = make_tokenizer().convert_tokens_to_ids("lamp")
    with torch.no_grad():
        model.budgetformer.embeddings.word_embeddings.weight[word] = 3e38
    model.save_pretrained(folder)
    return folder


Work = Callable[[Service, Callable[..., Awaitable[Any]]], Awaitable[Any]]


def with_service(folder: Path, work: Work, **options: Any) -> Any:
    """Run ``work(service, ask)`` with the model ready and the batcher running."""

    async def run() -> Any:
        service = Service(ServingSettings(folder=str(folder), threads=1, device="cpu", **options))
        await service.load()
        model = request_model(service.classifier.config, service.settings)
        batching = asyncio.create_task(service.batcher.run())

        async def for_ever() -> None:
            await asyncio.Event().wait()

        async def ask(*texts: str, gone: Callable[[], Any] = for_ever, **fields: Any) -> Any:
            body = model.model_validate({"texts": list(texts)} | fields)
            assert isinstance(body, ClassifyRequest)
            return json.loads((await service.classify(body, gone=gone)).body)

        try:
            return await work(service, ask)
        finally:
            batching.cancel()
            service.engine.close()

    return asyncio.run(run())


def test_requests_share_a_batch_whatever_budgets_they_ask_for(folder: Path) -> None:
    classifier = Classifier.from_pretrained(folder, device="cpu")
    texts = [text for text in TEXTS if "lamp" not in text][:8]
    asks: list[dict[str, Any]] = [{}, {"budget": 0.25}, {"max_budget": 0.5}, {"budget": 1.0}] * 2

    async def work(service: Service, ask: Any) -> Any:
        answers = await asyncio.gather(*(ask(t, **a) for t, a in zip(texts, asks, strict=True)))
        return answers, service.metrics.text().decode()

    answers, figures = with_service(folder, work, max_wait_ms=500)
    assert "budgetformer_batch_texts_count 1.0" in figures
    for text, asked, answer in zip(texts, asks, answers, strict=True):
        alone = classifier(text, **asked)
        [own] = answer["answers"]
        assert (own["label"], own["heads"], own["macs"]) == (alone.label, alone.heads, alone.macs)
        assert own["scores"] == pytest.approx(alone.scores, abs=1e-5)


def test_an_input_that_fails_does_not_touch_the_others_of_its_batch(folder: Path) -> None:
    async def work(service: Service, ask: Any) -> Any:
        return await asyncio.gather(ask("good film"), ask("bad", "a lamp"), ask("nice"), return_exceptions=True)

    first, broken, last = with_service(folder, work, max_wait_ms=300)
    assert isinstance(broken, Problem)
    assert (broken.status, broken.fields[0].field) == (500, "texts[1]")
    assert "lamp" not in str(broken.message)
    assert len(first["answers"]) == len(last["answers"]) == 1


def test_a_text_waits_for_others_on_their_way_and_no_longer_than_stated(folder: Path) -> None:
    async def work(service: Service, ask: Any) -> None:
        async def queued() -> float:
            return (await ask("good film"))["timings"]["queue_ms"]

        assert await queued() < 250
        assert service.batcher.admit(1)
        assert await queued() >= 250
        service.batcher.finish_soon()
        assert await queued() < 250

    with_service(folder, work, max_wait_ms=250)


def test_places_in_the_queue_are_given_back_in_every_case(folder: Path) -> None:
    async def work(service: Service, ask: Any) -> None:
        assert service.batcher.admit(4)
        with pytest.raises(Problem) as full:
            await ask("good")
        service.batcher.release(4)
        assert (full.value.status, full.value.headers["Retry-After"]) == (429, "4")

        assert service.batcher.admit(1)  # another one that is on its way: so the others wait for it

        async def at_once() -> None:
            return None

        with pytest.raises(Gone):
            await ask("good", "bad", gone=at_once)
        with pytest.raises(Problem) as late:
            await ask("good", "bad", timeout_ms=20)
        assert late.value.status == 504
        asked = asyncio.create_task(ask("good"))
        await asyncio.sleep(0.05)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert (service.batcher.waiting, len(service.batcher._queue)) == (1, 0)

    with_service(folder, work, max_wait_ms=5000, max_queue=4, max_texts=4)


def test_the_description_says_where_texts_are_cut_however_many_positions_there_are(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "m", max_position_embeddings=128, model_max_length=24)
    service = Service(ServingSettings(folder=str(folder), device="cpu", threads=1))
    asyncio.run(service.load())
    assert describe(service, version="0", training=lambda _: {})["sizes"]["max_tokens"] == 24
