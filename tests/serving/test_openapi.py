"""The description at /openapi.json holds for every request that schemathesis makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings

from ..model_folders import make_folder
from .running import Running, strict

KEY = "a-key-for-tests"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = make_folder(tmp_path_factory.mktemp("described") / "m", segments=True)
    log = tmp_path_factory.mktemp("log") / "log"
    with Running(folder, "--threads", 1, log=log, BUDGETFORMER_API_KEY=KEY) as running:
        yield running


@pytest.fixture
def described(server: Running) -> Any:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    return schema


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(max_examples=40, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_the_description_holds(case: schemathesis.Case, server: Running) -> None:
    if isinstance(case.body, dict) and isinstance(case.body.get("timeout_ms"), int) and case.body["timeout_ms"] > 0:
        case.body["timeout_ms"] = max(case.body["timeout_ms"], 30_000)  # too little time is answered with 504
    case.call_and_validate(headers={"Authorization": f"Bearer {KEY}"})


def test_the_key_is_asked_for_where_something_is_to_be_had(server: Running) -> None:
    good = {"texts": ["good"]}
    for headers in ({}, {"Authorization": "Bearer other"}, {"X-API-Key": KEY + "x"}, {"Authorization": f"Basic {KEY}"}):
        response = server.client.post("/classify", json=good, headers=headers)
        assert response.status_code == 401
        assert "API key" in strict(response)["error"]
        assert [server.client.get(p, headers=headers).status_code for p in ("/model", "/metrics")] == [401, 401]
    for headers in ({"Authorization": f"Bearer {KEY}"}, {"X-API-Key": KEY}):
        assert server.client.post("/classify", json=good, headers=headers).status_code == 200
    assert [server.client.get(p).status_code for p in ("/health", "/ready", "/openapi.json")] == [200] * 3
    assert KEY not in server.log.read_text(encoding="utf-8")
    assert server.client.post("/classify", content=b"{", headers={"X-API-Key": "é".encode()}).status_code == 401
