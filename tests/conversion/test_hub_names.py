"""A name of the hub: here from its local cache, without network."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from budgetformer import convert

from .sources import LABELS, write_source

REVISION = "0123456789abcdef0123456789abcdef01234567"


def put_into_cache(cache: Path, name: str, folder: Path) -> None:
    """The layout that huggingface_hub keeps downloads in."""
    place = cache / ("models--" + name.replace("/", "--"))
    shutil.copytree(folder, place / "snapshots" / REVISION)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(REVISION, encoding="utf-8")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, and no network."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path / "cache"


def test_models_are_found_and_converted_by_name(cache: Path, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", "electra")
    (source / "README.md").write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    put_into_cache(cache, "maker/good", source)
    result = convert("maker/good", output=tmp_path / "out")
    assert result.family == "ELECTRA"
    assert tuple(result.config.id2label.values()) == LABELS
    assert result.config.source is not None
    assert result.config.source["name"] == "maker/good"
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "base_model: maker/good\nlicense: mit" in card


def test_a_folder_within_a_model_of_sentence_transformers_is_found(cache: Path, tmp_path: Path) -> None:
    write_source(tmp_path / "source" / "0_Transformer", "bert", "Model")
    modules = '[{"type": "sentence_transformers.models.Transformer", "path": "0_Transformer"}]'
    (tmp_path / "source" / "modules.json").write_text(modules, encoding="utf-8")
    put_into_cache(cache, "maker/sentences", tmp_path / "source")
    assert convert("maker/sentences", output=tmp_path / "out").family == "BERT"


def test_pickled_and_absent_models_are_refused_by_name(cache: Path, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", "bert")
    (source / "model.safetensors").rename(source / "pytorch_model.bin")
    put_into_cache(cache, "maker/pickled", source)
    with pytest.raises(ValueError, match=r"maker/pickled has its weights in pytorch_model\.bin only"):
        convert("maker/pickled", output=tmp_path / "out")
    with pytest.raises(
        ValueError, match="maker/absent is neither a folder nor a model that the hub or its local cache"
    ):
        convert("maker/absent", output=tmp_path / "out")
    assert not (tmp_path / "out").exists()
