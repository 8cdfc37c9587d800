"""Models trained by the command itself, once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetformer.cli import run

from .commands import TRAINING, Here, texts, write_csv


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(capsys)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("data") / "train.csv", texts(60))


def trained(folder: Path, *arguments: object) -> Path:
    assert run(["train", "--output", str(folder), "--quiet", *TRAINING, *map(str, arguments)]) == 0
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """Single texts, three named classes."""
    return trained(tmp_path_factory.mktemp("runs") / "model", "--train", data)


@pytest.fixture(scope="session")
def dense_model(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    return trained(tmp_path_factory.mktemp("runs") / "dense", "--train", data, "--dense")


@pytest.fixture(scope="session")
def pair_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs, with column names that have to be given."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = [(first, second, f"{10 * (i % 3 + 1)}") for i, ((first, _), (second, _)) in enumerate(pairs())]
    file = write_csv(folder / "pairs.csv", rows, ("one", "two", "mark"))
    columns = ["--text-column", "one", "--pair-column", "two", "--label-column", "mark"]
    return trained(folder / "model", "--train", file, *columns)


def pairs() -> list[tuple[tuple[str, str], tuple[str, str]]]:
    return list(zip(texts(45, seed=1), texts(45, seed=2), strict=True))
