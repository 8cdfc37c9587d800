"""The description at /openapi.json holds for every request that schemathesis makes of it."""

from __future__ import annotations

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from .running import KEY, Running, strict

EXAMPLES = 30
OPERATIONS = [
    ("/classify", "POST"),
    ("/explain", "POST"),
    ("/health", "GET"),
    ("/ready", "GET"),
    ("/model", "GET"),
    ("/metrics", "GET"),
]


CONFIG = {"checks": {"negative_data_rejection": {"expected-statuses": ["400", "413", "415", "422"]}}}
CASES = [(*operation, GenerationMode.POSITIVE) for operation in OPERATIONS]
CASES += [
    (path, "POST", GenerationMode.NEGATIVE) for path in ("/classify", "/explain")
]  # of the others there is nothing to get wrong


@pytest.mark.parametrize(("path", "method", "mode"), CASES)
def test_the_description_holds_for_generated_requests(
    server: Running, path: str, method: str, mode: GenerationMode
) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json", config=schemathesis.Config.from_dict(CONFIG))
    operation = schema[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    def holds(case: schemathesis.Case) -> None:
        time = case.body.get("timeout_ms") if isinstance(case.body, dict) else None
        if isinstance(time, int | float) and not isinstance(time, bool) and 0 < time < 60_000:
            case.body["timeout_ms"] = 60_000  # too little time is rightly answered with 504
        case.call_and_validate(headers={"Authorization": f"Bearer {KEY}"})

    holds()


def test_every_operation_is_described_and_none_hidden(server: Running) -> None:
    paths = strict(server.client.get("/openapi.json"))["paths"]
    assert {(path, method.upper()) for path, methods in paths.items() for method in methods} == set(OPERATIONS)


def test_the_key_is_asked_for_where_something_is_to_be_had(server: Running) -> None:
    good = {"texts": ["good"]}
    wrong = ({}, {"Authorization": "Bearer other"}, {"X-API-Key": KEY + "x"}, {"Authorization": f"Basic {KEY}"})
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for headers in wrong:
            response = client.post("/classify", json=good, headers=headers)
            assert response.status_code == 401
            assert "API key" in strict(response)["error"]
            assert [client.get(path, headers=headers).status_code for path in ("/model", "/metrics")] == [401, 401]
        for headers in ({"Authorization": f"bearer {KEY}"}, {"X-API-Key": KEY}):
            assert client.post("/classify", json=good, headers=headers).status_code == 200
        assert [client.get(path).status_code for path in ("/health", "/ready", "/openapi.json")] == [200] * 3
        assert client.post("/classify", content=b"{", headers={"X-API-Key": "é".encode()}).status_code == 401
    assert KEY not in server.log.read_text(encoding="utf-8")
