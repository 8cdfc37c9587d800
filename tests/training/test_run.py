"""Whole runs: the model folder, resuming, stopping, and what happens when something goes wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from budgetformer import Classifier, train
from budgetformer.training import CheckpointError, NonFiniteError, TrainingSettings
from budgetformer.training.checkpoints import newest_checkpoint
from budgetformer.training.trainer import BudgetTrainer

from ..conftest import sentences


def steps(history: list[dict[str, Any]], name: str) -> list[float]:
    return [row[name] for row in history if name in row]


def test_a_run_writes_a_folder_that_classifies_and_says_what_was_measured(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    result = train(train=small_csv, output=tmp_path / "m", epochs=12, learning_rate=5e-3, **tiny_settings)
    folder = tmp_path / "m"
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md", "training.json"} <= set(
        os.listdir(folder)
    )
    assert not [p for p in folder.iterdir() if p.suffix in {".bin", ".pt", ".pth", ".pkl"}]
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    assert record["data"]["classes"] == {"praise": 22, "refund": 22}
    assert f"{record['validation']['accuracy']:.4f}" in (folder / "README.md").read_text(encoding="utf-8")
    classifier = Classifier.from_pretrained(folder, device="cpu")
    assert [p.label for p in classifier(["good great fine", "bad awful poor"])] == ["praise", "refund"]
    assert result.metrics["mean_heads"] <= 4
    assert 0.09 <= result.metrics["mean_budget"] <= 0.31


def test_resuming_repeats_the_run_that_was_not_stopped(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    tiny_settings |= {"config": tiny_settings["config"] | {"hidden_dropout_prob": 0.1}}
    whole = train(train=small_csv, output=tmp_path / "whole", max_steps=10, eval_steps=5, **tiny_settings)
    common = {"train": small_csv, "output": tmp_path / "parts", "max_steps": 10, "eval_steps": 5}
    train(**common, **tiny_settings)
    shutil.rmtree(tmp_path / "parts" / "checkpoints" / "checkpoint-10")
    tiny_settings |= {"quiet": False}
    resumed = train(**common, resume=True, **tiny_settings)
    assert steps(resumed.history, "learning_rate") == steps(whole.history, "learning_rate")
    assert len(steps(whole.history, "learning_rate")) == 10
    assert steps(resumed.history, "task_loss") == pytest.approx(steps(whole.history, "task_loss"), abs=1e-6)
    a, b = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all((a[name] - b[name]).abs().max() <= 1e-6 for name in a)
    assert "length of the run changed" not in capfd.readouterr().err

    longer = train(**(common | {"max_steps": 20}), resume=True, **tiny_settings)
    assert "max_steps 10 → 20" in capfd.readouterr().err
    assert len(steps(longer.history, "learning_rate")) == 20

    with pytest.raises(ValueError, match=r"learning_rate was 0\.001 and is 0\.5 now"):
        train(**common, resume=True, learning_rate=0.5, **tiny_settings)
    with small_csv.open("a", encoding="utf-8") as file:
        file.write("one more,praise\n")
    with pytest.raises(ValueError, match="training rows are not the same"):
        train(**common, resume=True, **tiny_settings)


def test_nothing_that_is_not_ours_is_overwritten(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(ValueError, match=r"holds something else \(chapter.txt"):
            train(train=small_csv, output=other, overwrite=overwrite, **tiny_settings)
    assert (other / "chapter.txt").read_text() == "years of work"
    with pytest.raises(ValueError, match="is a file"):
        train(train=small_csv, output=other / "chapter.txt", **tiny_settings)
    with pytest.raises(ValueError, match=r"cannot be made or written in .*chapter\.txt"):
        train(train=small_csv, output=other / "chapter.txt" / "m", **tiny_settings)
    with pytest.raises(ValueError, match="no complete checkpoint"):
        train(train=small_csv, output=tmp_path / "new", resume=True, **tiny_settings)
    train(train=small_csv, output=tmp_path / "m", max_steps=1, **tiny_settings)
    with pytest.raises(ValueError, match="holds an earlier run; give --resume"):
        train(train=small_csv, output=tmp_path / "m", max_steps=1, **tiny_settings)


def test_data_that_cannot_be_used_cost_no_checkpoint(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    train(train=small_csv, output=tmp_path / "m", max_steps=1, **tiny_settings)
    with pytest.raises(ValueError, match="column 'stars'"):
        train(train=small_csv, output=tmp_path / "m", label_column="stars", overwrite=True, **tiny_settings)
    assert newest_checkpoint(tmp_path / "m") is not None
    with pytest.raises(ValueError, match="column 'stars'"):
        train(train=small_csv, output=tmp_path / "new", label_column="stars", **tiny_settings)
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="hidden_sze"):
        train(train=tmp_path / "none.csv", output=tmp_path / "new", preset="tiny", config={"hidden_sze": 3})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda loss: loss * float("nan"), "the loss and the gradients are"),
        (lambda loss: loss + float("nan"), "the loss is"),
        (lambda loss: loss + float("inf"), "the loss is"),
    ],
)
def test_a_loss_that_is_not_finite_stops_the_run_at_that_update_and_the_last_checkpoint_stays(
    small_csv: Path,
    tmp_path: Path,
    tiny_settings: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[torch.Tensor], torch.Tensor],
    said: str,
) -> None:
    original = BudgetTrainer.compute_loss

    def broken(self: Any, *args: Any, **kwargs: Any) -> Any:
        loss = original(self, *args, **kwargs)
        return change(loss) if self.state.global_step == 4 and self.model.training else loss

    monkeypatch.setattr(BudgetTrainer, "compute_loss", broken)
    for epochs_dense in (False, True):
        output = tmp_path / f"m{epochs_dense}"
        settings = tiny_settings | {"config": tiny_settings["config"] | {"budgeted": not epochs_dense}}
        with pytest.raises(NonFiniteError, match=f"update 5: {said} not finite"):
            train(train=small_csv, output=output, max_steps=9, eval_steps=2, **settings)
        checkpoint = newest_checkpoint(output)
        assert checkpoint is not None
        assert checkpoint.name == "checkpoint-4"
        assert all(bool(torch.isfinite(t).all()) for t in load_file(checkpoint / "model.safetensors").values())
        state = json.loads((checkpoint / "trainer_state.json").read_text())
        assert state["best_metric"] == state["best_metric"]  # not NaN


def test_a_full_disk_names_the_checkpoint_and_leaves_the_older_one_whole(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = torch.save

    def full(thing: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        if "checkpoint-4" in str(path):
            Path(path).write_bytes(b"half")
            raise OSError(28, "No space left on device", str(path))
        original(thing, path, *args, **kwargs)

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(CheckpointError, match=r"checkpoint-4.*No space left"):
        train(train=small_csv, output=tmp_path / "m", max_steps=6, eval_steps=2, **tiny_settings)
    assert sorted(p.name for p in (tmp_path / "m" / "checkpoints").iterdir()) == ["checkpoint-2", "run.json"]
    monkeypatch.setattr(torch, "save", original)
    result = train(train=small_csv, output=tmp_path / "m", max_steps=6, eval_steps=2, resume=True, **tiny_settings)
    assert len(steps(result.history, "learning_rate")) == 6


@pytest.mark.parametrize("twice", [False, True])
def test_an_interrupt_saves_once_leaves_and_resumes(
    write_csv: Callable[..., Path], tmp_path: Path, tiny_settings: dict[str, Any], twice: bool
) -> None:
    data = write_csv(sentences(400, labels=["praise", "refund"]))
    settings = tiny_settings | {"train": str(data), "output": str(tmp_path / "m"), "max_steps": 100_000, "quiet": False}
    code = f"from budgetformer import train\ntrain(**{settings!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    checkpoints = tmp_path / "m" / "checkpoints"
    while not list(checkpoints.glob("checkpoint-*")) and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.05)
    before = newest_checkpoint(tmp_path / "m")
    process.send_signal(signal.SIGINT if not twice else signal.SIGTERM)
    if twice:
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    after = newest_checkpoint(tmp_path / "m")
    assert after is not None
    assert before is not None
    assert not list(checkpoints.glob(".*partial")) or twice
    if not twice:
        assert int(after.name[11:]) > int(before.name[11:])
        assert "--resume" in errors
    done = int(after.name[11:])
    settings |= {"max_steps": done + 2, "resume": True, "quiet": True}
    result = train(**settings)
    assert len(steps(result.history, "learning_rate")) == done + 2 or result.history[-1]["step"] == done + 2


def test_class_weights_with_smoothing_keep_separable_classes_separated(
    write_csv: Callable[..., Path], tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    data = write_csv(sentences(90, labels=["praise", "refund", "Übrig / other"]))
    result = train(
        train=data,
        output=tmp_path / "m",
        epochs=40,
        learning_rate=5e-3,
        class_weights=[1, 1, 100],
        label_smoothing=0.1,
        **tiny_settings,
    )
    assert result.metrics["accuracy"] >= 0.85
    saved = json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8"))["class_weights"]
    assert sum(saved) / 3 == pytest.approx(1.0, abs=0.05)


def test_patience_stops_early_and_keeps_the_best(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    result = train(train=small_csv, output=tmp_path / "m", epochs=60, learning_rate=5e-3, patience=2, **tiny_settings)
    scores = steps(result.history, "eval_score")
    assert len(scores) < 60
    assert result.metrics["score"] == pytest.approx(max(scores), abs=1e-6)


def test_where_the_last_state_is_kept_no_other_is_called_the_best(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    result = train(train=small_csv, output=tmp_path / "m", max_steps=4, eval_steps=2, keep_best=False, **tiny_settings)
    assert result.best_update is None
    assert json.loads((tmp_path / "m" / "training.json").read_text())["best_update"] is None


def test_a_set_with_rows_for_validation_takes_no_share_of_the_others(
    tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    folder = tmp_path / "snli"
    folder.mkdir()
    (folder / "labels.txt").write_text("entailment\nneutral\ncontradiction\n")
    for split in ("train", "validation", "test"):
        rows = [{"premise": f"a man runs {i}", "hypothesis": "he is out", "label": i % 3} for i in range(12)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = tiny_settings | {"train": "snli", "output": tmp_path / "m", "data_folder": tmp_path, "max_steps": 1}
    with pytest.raises(ValueError, match="validation_fraction has no effect: snli brings rows for validation"):
        train(**settings, validation_fraction=0.2)
    assert not (tmp_path / "m").exists()
    train(**settings)


def test_tensorboard_sees_what_the_heads_do(small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(train=small_csv, output=tmp_path / "m", max_steps=2, tensorboard=tmp_path / "tb", **tiny_settings)
    names: set[str] = set()
    for file in (tmp_path / "tb").rglob("*tfevents*"):
        names |= set(EventAccumulator(str(file)).Reload().Tags()["scalars"])
    assert {"train/tau", "train/mean_heads", "train/layer_1/effective_heads", "eval/mean_heads"} <= names


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 3, "max_steps": 5}, "epochs .* or max_steps"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0, got nan"),
        ({"preset": "huge"}, "preset must be one of tiny, small, base, paper, got 'huge'"),
        ({"label_smoothing": 1.5}, r"label_smoothing must lie in \[0, 1\)"),
        ({"word_dropout": -0.1}, r"word_dropout must lie in \[0, 1\)"),
        ({"resume": True, "overwrite": True}, "give one of them"),
        ({"class_weights": "equal"}, "'balanced'"),
        ({"device": "cuda:1"}, "CUDA_VISIBLE_DEVICES=1"),
        ({"max_steps": 2.5}, "max_steps must be a whole number, at least 1, got 2.5"),
        ({"batch_size": 10**20}, "batch_size must be at most 2147483647"),
        ({"seed": 2**32}, "seed must be at most 4294967295, got 4294967296"),
    ],
)
def test_settings_that_cannot_work_name_field_and_value(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingSettings(train="a.csv", output="b", **settings)


def test_a_label_that_only_validation_has_is_named_before_training(
    write_csv: Callable[..., Path], small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    other = write_csv([*sentences(4, labels=["praise", "refund"]), ("so so", "mixed")], name="v.csv")
    with pytest.raises(ValueError, match=r"mixed.*1"):
        train(train=small_csv, validation=other, output=tmp_path / "m", **tiny_settings)
    assert not list((tmp_path / "m").glob("checkpoints/checkpoint-*"))
