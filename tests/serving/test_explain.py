"""``POST /explain``: the numbers of ``budgetformer.explain``, bounded in size, in turn with the batches."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from budgetformer import Classifier, Pair, explain
from budgetformer.serving.explain_schemas import MAP_TOKENS, ExplainResponse, explain_model
from budgetformer.serving.explanations import explain as explain_as_bytes
from budgetformer.serving.problems import Problem
from budgetformer.serving.service import Gone, Service

from ..conftest import WORDS, sentences
from ..model_folders import make_folder
from .running import Running, equal, refused, strict
from .test_parts import with_service

TEXT = "the film was good and the chair it was bad"


def ask(server: Running, **body: Any) -> dict[str, Any]:
    response = server.client.post("/explain", json=body)
    assert response.status_code == 200, response.text
    return strict(response)


@pytest.mark.parametrize("fields", [{}, {"budget": 0.25}, {"max_budget": 0.5, "heads": 3}, {"pair": "it was a door"}])
def test_the_numbers_are_those_of_the_library(server: Running, classifier: Classifier, fields: dict[str, Any]) -> None:
    found = ask(server, text=TEXT, **fields)
    ExplainResponse.model_validate(found)
    request = {name: value for name, value in fields.items() if "budget" in name}
    item = Pair(TEXT, fields["pair"]) if "pair" in fields else TEXT
    expected = explain(classifier, item, heads=fields.get("heads", 1), **request)
    equal(found["answer"], classifier(item, **request))
    assert found["answer"]["details"]["kept"] == expected.kept_LH.tolist()
    assert found["tokens"] == list(expected.tokens)
    for layer, own in zip(found["layers"], expected.to_dict()["layers"], strict=True):
        assert (layer["heads_kept"], layer["budget"]) == (own["heads_kept"], pytest.approx(own["budget"], abs=1e-5))
        for head, alone in zip(layer["heads"], own["heads"], strict=True):
            assert (head["head"], head["kept"], "map" in head) == (alone["head"], alone["kept"], "map" in alone)
            assert head["entropy"] == pytest.approx(alone["entropy"], abs=1e-4)
            if "map" in head:
                np.testing.assert_allclose(head["map"], alone["map"], atol=1e-4)
    classified = server.client.post("/classify", json={"texts": [TEXT], **request}) if item == TEXT else None
    if classified is not None:
        assert strict(classified)["answers"][0]["heads"] == found["answer"]["heads"]


@pytest.mark.parametrize("text", ["", "\u200b", "<script>alert(1)</script>", "😀 \x00", "good " * 200])
def test_odd_texts_are_explained(server: Running, text: str) -> None:
    found = ask(server, text=text)
    assert len(found["tokens"]) == found["answer"]["tokens"] <= 32
    assert found["answer"]["truncated"] == (len(text) > 500)


WRONG: dict[str, tuple[dict[str, Any], int, str]] = {
    "no text": ({}, 422, "text"),
    "a list": ({"text": ["a"]}, 422, "text"),
    "no map": ({"text": "a", "heads": 0}, 422, "heads"),
    "too many maps": ({"text": "a", "heads": 5}, 422, "heads"),
    "budget 0": ({"text": "a", "budget": 0}, 422, "budget"),
    "both budgets": ({"text": "a", "budget": 0.5, "max_budget": 0.5}, 422, "body"),
    "unknown": ({"text": "a", "texts": ["a"]}, 422, "texts"),
    "long text": ({"text": "x" * 5001}, 413, "text"),
    "long pair": ({"text": "x", "pair": "x" * 5001}, 413, "pair"),
    "no time": ({"text": "a", "timeout_ms": 0}, 422, "timeout_ms"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_explained_is_refused_with_the_field(server: Running, name: str) -> None:
    body, status, field = WRONG[name]
    reason = refused(server.client.post("/explain", json=body), status)
    assert reason["fields"][0]["field"] == field
    assert "x" * 50 not in json.dumps(reason)


def test_it_asks_for_the_key_and_logs_no_text(server: Running) -> None:
    secret = "an unmistakable phrase"
    assert httpx.post(f"{server.url}/explain", json={"text": secret}).status_code == 401
    ask(server, text=secret)
    server.until(lambda: any(line.get("route") == "/explain" for line in server.lines()))
    assert secret not in server.log.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("explained") / "m", max_position_embeddings=128, model_max_length=128)


async def for_ever() -> None:
    await asyncio.Event().wait()


async def explain_request(service: Service, body: Any, *, gone: Any) -> Any:
    return json.loads((await explain_as_bytes(service, body, gone=gone)).body)


def test_maps_are_cut_and_longer_texts_refused(longer: Path) -> None:
    async def work(service: Service, classify: Any) -> Any:
        model = explain_model(service.classifier.config, service.settings)
        long = await explain_request(service, model(text="good film " * 40), gone=for_ever)
        with pytest.raises(Problem) as refusal:
            await explain_request(service, model(text="good film " * 60), gone=for_ever)
        assert service.batcher.waiting == 0
        return long, refusal.value

    found, refusal = with_service(longer, work, max_explain_tokens=100)
    assert (refusal.status, refusal.fields[0].field) == (413, "text")
    assert len(found["tokens"]) == MAP_TOKENS < found["answer"]["tokens"]
    maps = [head["map"] for layer in found["layers"] for head in layer["heads"] if "map" in head]
    assert {(len(rows), len(rows[0])) for rows in maps} == {(MAP_TOKENS, MAP_TOKENS)}
    assert len(maps) == 2


def test_explanations_and_batches_take_turns_and_give_their_places_back(longer: Path) -> None:
    texts = [text for text, _ in sentences(6, labels=list(WORDS), seed=3)]

    async def work(service: Service, classify: Any) -> None:
        model = explain_model(service.classifier.config, service.settings)

        def ask(text: str, **fields: Any) -> Any:
            return explain_request(service, model(text=text, **fields), gone=for_ever)

        answers = await asyncio.gather(*map(ask, texts), *map(classify, texts))
        assert [a["answer"]["label"] for a in answers[:6]] == [a["answers"][0]["label"] for a in answers[6:]]

        async def at_once() -> None:
            return None

        await service.explaining.acquire()
        with pytest.raises(Problem) as late:
            await ask("good", timeout_ms=30)
        assert late.value.status == 504
        with pytest.raises(Gone):
            await explain_request(service, model(text="good"), gone=at_once)
        waiting = [asyncio.create_task(ask(text)) for text in texts[:4]]
        await asyncio.sleep(0.05)
        assert service.batcher.waiting == 4
        assert service.batcher.admit(8)
        with pytest.raises(Problem) as full:
            await ask("good")
        service.batcher.release(8)
        assert full.value.status == 429
        waiting.pop().cancel()
        service.explaining.release()
        assert len(await asyncio.gather(*waiting)) == 3
        assert (service.batcher.waiting, service.explaining.locked()) == (0, False)

    with_service(longer, work, max_queue=12, max_texts=4)


def test_an_explanation_is_shed_while_the_queue_is_full_and_counted(longer: Path) -> None:
    async def work(service: Service, classify: Any) -> tuple[list[float | None], str]:
        model = explain_model(service.classifier.config, service.settings)
        shed = []
        for waiting in (6, 0):
            assert service.batcher.admit(waiting)
            answer = (await explain_request(service, model(text="good film"), gone=for_ever))["answer"]
            service.batcher.release(waiting)
            shed.append(answer["shed_budget"])
        return shed, service.metrics.text().decode()

    shed, figures = with_service(longer, work, max_queue=8, max_texts=4, shed_budget=0.25)
    assert shed == [0.25, None]  # the second one comes to an idle server
    assert "budgetformer_texts_total 2.0" in figures
    assert "budgetformer_shed_texts_total 1.0" in figures
