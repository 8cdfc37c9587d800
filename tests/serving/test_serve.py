"""A running server: right answers whatever the load, and 4xx with a reason for what it cannot answer."""

from __future__ import annotations

import json
import random
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from budgetformer import Classifier, Pair
from budgetformer.cli import run
from budgetformer.metering.macs import dense_macs

from ..cli.commands import Here, there
from ..conftest import WORDS, sentences
from ..model_folders import NAMES
from .running import KEY, KEYED, Running, body_of, equal, refused, strict

TEXTS = [text for text, _ in sentences(24, labels=list(WORDS), seed=5)]
ODD = ["", "   ", "\u200b\u200b", "😀", "\x00x", "[SEP] [PAD]", "a\nb\tc", "very " * 40, "Ünïcode\u2028"]
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("fields", [{}, {"budget": 0.25}, {"max_budget": 0.5}, {"budget": 1}, {"budget": None}])
def test_answers_are_those_of_the_classifier(server: Running, classifier: Classifier, fields: dict[str, Any]) -> None:
    items = TEXTS + ODD
    answers = server.classify(*items, **fields)
    assert len(answers) == len(items)
    for item, answer in zip(items, answers, strict=True):
        equal(answer, classifier(item, **fields))
        assert answer["macs_dense"] == dense_macs(classifier.config, [answer["tokens"]])[0]
        assert (answer["shed_budget"], answer["details"]) == (None, None)
    assert list(answers[0]["scores"]) == list(NAMES)


def test_a_pair_is_one_input_and_its_second_text_counts(server: Running, classifier: Classifier) -> None:
    pairs = [Pair("it was good", "the film was bad"), Pair("it was good", "a lamp"), Pair("a lamp", "it was good")]
    answers = server.answers(body_of(list(pairs)))
    for pair, answer in zip(pairs, answers, strict=True):
        equal(answer, classifier(pair))
    assert len({answer["score"] for answer in answers}) == 3
    assert len(server.classify("it was good", "the film was bad")) == 2


def test_details_give_relevance_and_kept_heads_by_layer(server: Running, classifier: Classifier) -> None:
    [answer] = server.classify("good film", details=True, max_budget=0.5)
    details, alone = answer["details"], classifier("good film", details=True, max_budget=0.5)
    assert details["kept"] == alone.kept.tolist()
    assert [sum(layer) for layer in details["kept"]] == answer["heads"]
    for layer, own in zip(details["relevance"], alone.relevance.tolist(), strict=True):
        assert layer == pytest.approx(own, abs=1e-5)
    assert details["budgets"] == pytest.approx(alone.budgets, abs=1e-5)


def test_timings_add_up(server: Running) -> None:
    timings = strict(server.client.post("/classify", json={"texts": TEXTS}))["timings"]
    assert set(timings) == {"tokenisation_ms", "queue_ms", "inference_ms", "total_ms"}
    assert all(value >= 0 for value in timings.values())
    assert timings["total_ms"] >= timings["inference_ms"] > 0


BROKEN: dict[str, tuple[Any, str]] = {
    "cut off": (b'{"texts": ["a]', "body"),
    "empty": (b"", "body"),
    "a list": (b"[]", "body"),
    "a number": (b"3", "body"),
    "null": (b"null", "body"),
    "not utf-8": (b'{"texts": ["\xff"]}', "body"),
    "half a surrogate pair": (rb'{"texts": ["\ud800"]}', "body"),
    "the other half": (rb'{"texts": ["\udc00 x"]}', "body"),
    "NaN": (b'{"texts": ["a"], "budget": NaN}', "body"),
    "Infinity": (b'{"texts": ["a"], "budget": Infinity}', "body"),
    "nested without end": (b"[" * 90_000, "body"),
    "nested objects": (b'{"texts":' * 9_000, "body"),
    "nested in a field": (b'{"texts": ' + b"[" * 150 + b"]" * 150 + b"}", "texts[0]"),
    "a digit too many": (b'{"texts": ["a"], "budget": ' + b"9" * 50_000 + b"}", "body"),
    "a huge number": (b'{"texts": ["a"], "budget": 1e400}', "budget"),
    "a text as list": (b'{"texts": "x"}', "texts"),
    "no texts": (b'{"texts": []}', "texts"),
    "texts null": (b'{"texts": null}', "texts"),
    "wrong elements": (b'{"texts": ["a", null]}', "texts[1]"),
    "an object as text": (b'{"texts": [{"text": "a"}]}', "texts[0]"),
    "nothing given": (b"{}", "body"),
    "both given": (b'{"texts": ["a"], "pairs": [{"text": "a", "pair": "b"}]}', "body"),
    "pair without second": (b'{"pairs": [{"text": "a"}]}', "pairs[0].pair"),
    "pair as list": (b'{"pairs": [["a", "b"]]}', "pairs[0]"),
    "budget 0": (b'{"texts": ["a"], "budget": 0}', "budget"),
    "budget above 1": (b'{"texts": ["a"], "max_budget": 1.0001}', "max_budget"),
    "budget as text": (b'{"texts": ["a"], "budget": "0.5"}', "budget"),
    "budget true": (b'{"texts": ["a"], "budget": true}', "budget"),
    "both budgets": (b'{"texts": ["a"], "budget": 0.5, "max_budget": 0.5}', "body"),
    "details as text": (b'{"texts": ["a"], "details": "yes"}', "details"),
    "no time": (b'{"texts": ["a"], "timeout_ms": 0}', "timeout_ms"),
    "unknown field": (b'{"texts": ["a"], "polcy": 1}', "polcy"),
    "unknown field with odd name": (b'{"texts": ["a"], "\\u0000\\n": 1}', r"'\x00\n'"),
    "text too long": (b'{"texts": ["a", "' + b"x" * 5001 + b'"]}', "texts[1]"),
    "too many texts": (b'{"texts": [' + b'"a",' * 64 + b'"a"]}', "texts"),
    "too many bytes": (b'{"texts": ["' + b"x" * 100_000 + b'"]}', "body"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_answered_is_refused_with_the_field(server: Running, name: str) -> None:
    body, field = BROKEN[name]
    reason = refused(server.client.post("/classify", content=body, headers=JSON), 400, 413, 422)
    assert reason["fields"][0]["field"] == field
    assert "x" * 50 not in json.dumps(reason)


def test_other_kinds_of_content_and_unknown_places_are_refused(server: Running) -> None:
    good = json.dumps({"texts": ["good"]}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        refused(server.client.post("/classify", content=good, headers={"Content-Type": kind}), 415)
    refused(server.client.post("/classify", content=good), 415)
    nowhere = server.client.get("/docs")
    refused(nowhere, 404)
    assert "/openapi.json" in nowhere.json()["error"]
    refused(server.client.post("/classify/", content=good, headers=JSON), 404)
    wrong_method = server.client.get("/classify")
    refused(wrong_method, 405)
    assert wrong_method.headers["allow"] == "POST"
    assert "takes no GET; use POST" in wrong_method.json()["error"]
    packed = server.client.post("/classify", content=good, headers=JSON | {"Content-Encoding": "gzip"})
    refused(packed, 415)
    assert "without Content-Encoding, got gzip" in packed.json()["error"]
    in_address = server.client.post("/classify?budget=0.1", content=good, headers=JSON)
    refused(in_address, 422)
    assert "budget: has no effect in the address" in in_address.json()["error"]
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert server.client.post("/classify", content=good, headers=charset).status_code == 200


def test_the_state_can_be_asked_for_without_a_body(server: Running) -> None:
    for path in ("/health", "/ready"):
        answer = server.client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
    refused(server.client.delete("/health"), 405)


def test_a_body_without_declared_length_ends_at_the_limit(server: Running) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        yield b'{"texts": ["'
        for _ in range(2000):
            sent += 10_000
            yield b"x" * 10_000

    reason = refused(server.client.post("/classify", content=endless(), headers=JSON), 413)
    assert reason["fields"][0] == {"field": "body", "message": "at most 100000 bytes; send several requests"}


def test_a_body_with_a_false_length_does_no_harm(server: Running) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    lines = ("POST /classify HTTP/1.1", "Host: x", f"X-API-Key: {KEY}", "Content-Type: application/json")
    head = "\r\n".join([*lines, "Content-Length: "]).encode()
    for length in (b"999999999999999999999999", b"-5", b"99"):
        with socket.create_connection((host, int(port)), timeout=10) as raw:
            raw.sendall(head + length + b"\r\n\r\n{}")
            raw.shutdown(socket.SHUT_WR)
            reply = raw.recv(4096)
        assert not reply or reply.startswith((b"HTTP/1.1 4",)), reply
    assert server.classify("good")


@pytest.mark.parametrize(
    ("clients", "requests"), [(16, 10), pytest.param(32, 50, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_parallel_requests_get_the_answers_that_they_get_alone(
    server: Running, classifier: Classifier, clients: int, requests: int
) -> None:
    generator = random.Random(3)
    words = [word for group in WORDS.values() for word in group]
    asks: list[dict[str, Any]] = [{}, {"budget": 0.25}, {"max_budget": 0.5}, {"budget": 0.75}, {"details": True}]

    def work(client_number: int) -> list[tuple[list[str], dict[str, Any], httpx.Response]]:
        own = random.Random(client_number)
        done = []
        with httpx.Client(base_url=server.url, timeout=120, headers=KEYED) as client:
            for number in range(requests):
                texts = [" ".join(own.choices(words, k=own.randint(1, 45))) for _ in range(own.randint(1, 4))]
                ask = asks[(client_number + number) % len(asks)]
                if number % 10 == 4:
                    content = own.choice([b'{"texts": [1]}', b"{", b'{"texts": ["' + b"x" * 5001 + b'"]}'])
                    refused(client.post("/classify", content=content, headers=JSON), 400, 413, 422)
                done.append((texts, ask, client.post("/classify", json={"texts": texts} | ask)))
        return done

    order = generator.sample(range(clients), clients)
    with ThreadPoolExecutor(clients) as pool:
        results = [item for done in pool.map(work, order) for item in done]
    assert {response.status_code for _, _, response in results} == {200}
    for texts, ask, response in results:
        alone = classifier(texts, **{k: v for k, v in ask.items() if k != "details"})
        for answer, own in zip(strict(response)["answers"], alone, strict=True):
            equal(answer, own)


def test_the_model_is_described(server: Running, classifier: Classifier) -> None:
    described = strict(server.client.get("/model"))
    assert described["labels"] == list(NAMES)
    assert (described["name"], described["takes"], described["budgeted"]) == ("news", "texts or pairs", True)
    sizes = {"layers": 2, "heads": 4, "hidden_size": 32, "max_tokens": 32}
    assert described["sizes"] == sizes | {"parameters": sum(p.numel() for p in classifier.model.parameters())}
    assert described["limits"]["max_texts"] == 64
    assert described["threads"] == 1


def test_metrics_count_what_was_answered(server: Running) -> None:
    def figures() -> dict[str, float]:
        text = server.client.get("/metrics").text
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
        return {s.name + "".join(f"|{v}" for _, v in sorted(s.labels.items())): s.value for s in samples}

    server.client.post("/classify", content=b"{", headers=JSON)
    server.client.get("/made/up/by/a/client")
    before = figures()
    answers = server.classify(*TEXTS[:3], "very " * 40, budget=0.5)
    after = figures()
    gained = {name: after[name] - before.get(name, 0.0) for name in after}
    assert gained["budgetformer_requests_total|POST|/classify|200"] == 1
    assert gained["budgetformer_texts_total"] == 4
    assert gained["budgetformer_truncated_texts_total"] == 1
    assert gained["budgetformer_heads_total|0"] == gained["budgetformer_heads_total|1"] == 8
    assert gained["budgetformer_multiply_adds_total"] == sum(a["macs"] for a in answers)
    assert gained["budgetformer_multiply_adds_dense_total"] == sum(a["macs_dense"] for a in answers)
    assert gained["budgetformer_batch_tokens_sum"] == sum(a["tokens"] for a in answers)
    assert after["budgetformer_queue_texts"] == 0
    assert after["budgetformer_requests_total|POST|/classify|400"] >= 1
    assert not any("made" in name for name in after)


def test_logs_have_every_request_and_no_text(server: Running) -> None:
    secret = "xylophonequartet"
    server.classify(secret)
    server.client.post("/classify", content=f'{{"texts": ["{secret}"'.encode(), headers=JSON)
    server.client.post("/classify", json={"texts": [secret], secret: secret})
    server.client.get(f"/{secret}?q={secret}")
    number = server.client.get("/model").headers["x-request-id"]
    server.until(lambda: any(line.get("id") == number for line in server.lines()))  # written after the answer was sent
    lines = server.lines()
    assert secret not in server.log.read_text(encoding="utf-8")
    [last] = [line for line in lines if line.get("id") == number]
    assert (last["event"], last["route"], last["status"]) == ("request", "/model", 200)
    assert all({"time", "level", "event", "process"} <= set(line) for line in lines)


def test_a_port_in_use_is_one_clear_line(server: Running, folder: Path) -> None:
    port = server.url.rpartition(":")[2]
    outcome = there("serve", folder, "--port", port)
    assert outcome.code == 2
    assert outcome.err == f"error: port {port} on 127.0.0.1 is in use; choose another one with --port\n"
    assert outcome.out == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--port", 99999), "--port must be between 0 and 65535, got 99999"),
        (("--host", "no.such.host.invalid"), "cannot listen on --host no.such.host.invalid"),
        (("--api-key-file", "nowhere"), "--api-key-file nowhere cannot be read"),
        (("--api-key-file", "/dev/null"), "--api-key-file /dev/null holds no key"),
        (("--precision", "int4"), "precision must be one of"),
        (("--device", "tpu"), "device must be"),
        (("--shed-budget", 0), "--shed-budget must lie in (0, 1], got 0.0"),
        (("--shed-at", 0.3), "--shed-at has no effect without --shed-budget"),
        (("--max-texts", 5000), "--max-texts (5000) must be at most --max-queue (4096)"),
    ],
)
def test_mistakes_of_its_user_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], options: tuple[object, ...], said: str
) -> None:
    assert said in Here(capsys).mistake("serve", folder, "--port", 0, *options)


def test_a_folder_that_cannot_be_loaded_is_one_line_and_the_server_ends(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder, tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert run(["serve", str(tmp_path / "cut"), "--port", "0"]) == 2
    *log, last = capfd.readouterr().err.splitlines()
    assert last.startswith(f"error: model folder {tmp_path / 'cut'} cannot be loaded")
    assert any('"the model cannot be loaded"' in line for line in log)
    assert run(["serve", str(tmp_path / "missing"), "--port", "0"]) == 2
    assert "does not exist" in capfd.readouterr().err
