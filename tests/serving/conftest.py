"""One server for all tests that only ask it things."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from budgetformer import Classifier

from ..model_folders import make_folder
from .running import KEY, Running

LIMITS = ("--max-bytes", 100_000, "--max-texts", 64, "--max-characters", 5000, "--threads", 1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("served") / "news", segments=True)


@pytest.fixture(scope="session")
def classifier(folder: Path) -> Classifier:
    return Classifier.from_pretrained(folder, device="cpu")


@pytest.fixture(scope="session")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("log") / "log"
    with Running(folder, *LIMITS, log=log, BUDGETFORMER_API_KEY=KEY) as running:
        yield running
