"""A folder with the five sets, each with a few generated texts, laid out as ``data.registry`` reads them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from budgetformer.data.registry import SOURCES
from budgetformer_paper.run import Running

WORDS = ["river", "stone", "lamp", "green", "seven", "window", "paper", "cloud", "engine", "salt", "copper", "garden"]


def write_set(folder: Path, name: str, *, train: int, test: int, validation: int = 0) -> None:
    """One set; a class is given away by its own word. SNLI has pairs and one row without label."""
    source, generator = SOURCES[name], random.Random(0)
    here = folder / name
    here.mkdir(parents=True)
    (here / "labels.txt").write_text("\n".join(source.class_names) + "\n", encoding="utf-8")
    for split, count in (("train", train), ("test", test), ("validation", validation)):
        lines = []
        for number in range(count):
            label = number % len(source.class_names)
            text = " ".join(generator.choices(WORDS, k=6)) + f" mark{label}"
            row = {"premise": text, "hypothesis": f"so mark{label}"} if source.columns.pair else {"text": text}
            lines.append(json.dumps(row | {"label": -1 if source.columns.pair and number == 0 else label}))
        if count:
            (here / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets")
    for name in SOURCES:
        write_set(folder, name, train=90, test=40, validation=0 if name == "imdb" else 20)
    return folder


@pytest.fixture
def running(data_folder: Path, tmp_path: Path) -> Running:
    """Rows and models in a fresh folder, on the CPU, without a word."""
    return Running(
        results=tmp_path / "rows.jsonl", work=tmp_path / "work", data_folder=data_folder, device="cpu", quiet=True
    )
