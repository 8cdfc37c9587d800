"""Large answers are written apart from the event loop, and every answer says which model gave it."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from budgetformer import Classifier
from budgetformer.model_folder import model_identity
from budgetformer.serving.service import Service
from budgetformer.serving.writing import HERE, array, members, value

from ..model_folders import make_folder
from .running import Running, strict
from .test_parts import with_service

MANY = 600


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("deep") / "m", num_hidden_layers=8, num_attention_heads=16)


@pytest.mark.parametrize("details", [False, True])
def test_the_loop_goes_on_while_a_large_answer_is_written(
    deep: Path, details: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []

    async def work(service: Service, ask: Any) -> Any:
        write = service.engine.write

        def watched(make: Any) -> Any:
            future = write(make)

            async def count() -> None:
                while not future.done():
                    turns[-1] += 1
                    await asyncio.sleep(0)

            turns.append(0)
            counting.append(asyncio.get_running_loop().create_task(count()))
            return future

        counting: list[asyncio.Task[None]] = []
        monkeypatch.setattr(service.engine, "write", watched)
        answer = await ask(*["good film"] * MANY, details=details)
        await asyncio.gather(*counting)
        small = await ask("good film")
        return answer, small

    answer, small = with_service(deep, work, max_texts=MANY)
    assert len(turns) == 1
    assert turns[0] >= (20 if details else 1)
    assert len(answer["answers"]) == MANY
    if details:
        kept = answer["answers"][-1].pop("details")["kept"]
        assert [sum(layer) for layer in kept] == small["answers"][0]["heads"]
    else:
        assert answer["answers"][-1]["heads"] == small["answers"][0]["heads"]
    assert answer["timings"]["total_ms"] > answer["timings"]["inference_ms"]
    assert MANY * 8 > HERE


def test_pieces_make_the_json_that_the_whole_makes() -> None:
    rows = [{"a": [1, 0.1], "ü": None}, {}, [True]]
    written = members(answers=array(rows), none=array([]), timings=value({"x": 1e-7}))
    assert json.loads(written) == {"answers": rows, "none": [], "timings": {"x": 1e-7}}
    for wrong in (float("nan"), "\ud800"):
        with pytest.raises(ValueError, match=r"JSON|surrogates"):
            array([wrong])


def test_every_answer_says_which_model_gave_it(server: Running, folder: Path, tmp_path: Path) -> None:
    revision = strict(server.client.get("/model"))["revision"]
    assert revision == model_identity(folder)[: len(revision)]
    assert len(revision) == 12
    asked = {"/classify": {"texts": ["good"]}, "/explain": {"text": "good"}}
    for response in (*(server.client.post(path, json=body) for path, body in asked.items()), server.client.get("/no")):
        assert response.headers["x-model-revision"] == revision
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    make_folder(other, segments=True, initializer_range=0.2)
    assert Classifier.from_pretrained(other, device="cpu")
    assert model_identity(other) != model_identity(folder)
