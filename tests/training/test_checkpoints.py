"""A run goes on from its newest whole checkpoint, says which it left out, and executes nothing that lies in one."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from budgetformer import train
from budgetformer.training.checkpoints import damage, newest_checkpoint

from ..conftest import sentences


class Evil:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def run(small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]) -> Path:
    train(train=small_csv, output=tmp_path / "m", max_steps=4, eval_steps=2, **tiny_settings)
    return tmp_path / "m"


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


FILES = ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"]


def test_damaged_checkpoints_are_left_out(run: Path) -> None:
    newest = run / "checkpoints" / "checkpoint-4"
    whole = newest.with_name("checkpoint-2")
    assert damage(newest) is None
    shutil.copytree(newest, run / "kept")
    for name in FILES:
        for spoil in (Path.unlink, lambda file: file.write_bytes(b""), cut):
            spoil(newest / name)
            said: list[str] = []
            assert newest_checkpoint(run, said.append) == whole
            assert "checkpoint-4" in said[0]
            assert name in said[0]
            shutil.copy(run / "kept" / name, newest / name)
    assert newest_checkpoint(run) == newest
    newest.rename(newest.with_name("checkpoint-999"))
    assert newest_checkpoint(run) == whole


@pytest.mark.parametrize("save", [torch.save, lambda value, file: file.write_bytes(pickle.dumps(value))])
def test_nothing_in_a_checkpoint_is_executed(
    run: Path, small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any], save: Callable[..., Any]
) -> None:
    for name in (*FILES[1:4], "training_args.bin", "pytorch_model.bin"):
        save(Evil(tmp_path / "mark"), run / "checkpoints" / "checkpoint-4" / name)
    result = train(train=small_csv, output=run, max_steps=4, eval_steps=2, resume=True, **tiny_settings)
    assert not (tmp_path / "mark").exists()
    assert result.history[-1]["step"] == 4


def test_a_run_whose_settings_are_not_known_is_not_gone_on_with(
    run: Path, small_csv: Path, tiny_settings: dict[str, Any]
) -> None:
    file = run / "checkpoints" / "run.json"
    for content in ("{", "{}", "[]", None):
        file.unlink() if content is None else file.write_text(content)
        with pytest.raises(ValueError, match=r"run\.json cannot be read .*--overwrite"):
            train(train=small_csv, output=run, max_steps=6, eval_steps=2, resume=True, **tiny_settings)


def test_a_run_of_a_version_with_fewer_settings_is_gone_on_with(
    run: Path, small_csv: Path, tiny_settings: dict[str, Any]
) -> None:
    file = run / "checkpoints" / "run.json"
    kept = json.loads(file.read_text())
    del kept["settings"]["fsdp"]
    file.write_text(json.dumps(kept))
    again = {"train": small_csv, "output": run, "max_steps": 6, "eval_steps": 2, "resume": True}
    assert train(**again, **tiny_settings).history[-1]["step"] == 6
    kept["settings"] |= {"fsdp": True}
    file.write_text(json.dumps(kept))
    with pytest.raises(ValueError, match="fsdp was True and is False now"):
        train(**again, **tiny_settings)


def test_other_words_of_the_same_length_are_other_rows(
    run: Path, write_csv: Callable[..., Path], tiny_settings: dict[str, Any]
) -> None:
    rows = sentences(48, labels=["praise", "refund"])
    swapped = [(text.replace("very", "film") if i else f"{text} ", label) for i, (text, label) in enumerate(rows)]
    data = write_csv(swapped)
    with pytest.raises(ValueError, match="training rows are not the same"):
        train(train=data, output=run, max_steps=6, eval_steps=2, resume=True, **tiny_settings)
    record = json.loads((run / "training.json").read_text(encoding="utf-8"))
    assert len(record["data"]["fingerprint"]) == 16
