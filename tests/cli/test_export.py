"""``export``: what it writes and says, and what it refuses before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetformer import Classifier

from ..exporting.onnx_at_hand import Runtime
from .commands import Here, texts, there


def test_a_folder_with_its_own_code_is_written(here: Here, model: Path, tmp_path: Path) -> None:
    outcome = here("export", model, "--format", "hub", "--output", tmp_path / "hub")
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    assert "the same logits on" in outcome.out
    assert (tmp_path / "hub" / "modeling_budgetformer.py").is_file()
    assert "holds something already" in here.mistake("export", model, "--format", "hub", "--output", tmp_path / "hub")


@pytest.mark.parametrize("place", [".", "../other/../stand", "../other/.."])
def test_the_folder_in_which_one_stands_is_written(
    here: Here, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    stand, other = tmp_path / "stand", tmp_path / "other"
    stand.mkdir()
    other.mkdir()
    monkeypatch.chdir(stand)
    if place.endswith(".."):
        assert "holds something already" in here.mistake("export", model, "--format", "hub", "--output", place)
        return
    inode = stand.stat().st_ino
    outcome = here("export", model, "--format", "hub", "--output", place)
    assert outcome.code == 0, outcome.err
    assert stand.stat().st_ino == inode  # whoever stands in it sees the files
    assert (stand / "config.json").is_file()
    assert not [file.name for file in (*stand.iterdir(), *tmp_path.iterdir()) if file.name.startswith(".")]


@pytest.mark.slow
def test_files_for_onnx_runtime_are_written_in_silence(model: Path, data: Path, tmp_path: Path) -> None:
    written = there("export", model, "--format", "onnx", "--output", tmp_path / "all.onnx")
    assert written.code == 0, written.err
    assert written.err == ""
    assert "the graph computes all of them" in written.out
    again = there("export", model, "--format", "onnx", "--output", tmp_path / "all.onnx", "--budget", 0.25)
    assert again.code == 2
    fixed = ["--budget", 0.25, "--data", data, "--rows", 30]
    outcome = there("export", model, "--format", "onnx", "--output", tmp_path / "two.onnx", *fixed)
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    assert "of 30 texts get the label" in outcome.out
    assert outcome.out.count("layer ") == 4
    assert (tmp_path / "two.onnx").stat().st_size < (tmp_path / "all.onnx").stat().st_size
    some = [text for text, _ in texts(20, seed=5)]
    ours = Classifier.from_pretrained(model, device="cpu")(some)
    for scores, answer in zip(Runtime(tmp_path / "all.onnx").scores(list(some)), ours, strict=True):
        assert scores == pytest.approx(answer.scores, abs=1e-4)


def test_mistakes_are_refused_before_any_work(
    here: Here, model: Path, dense_model: Path, data: Path, tmp_path: Path
) -> None:
    file = tmp_path / "m.onnx"
    onnx = ["export", model, "--format", "onnx", "--output"]
    for arguments, said in (
        (["export", model, "--format", "gguf", "--output", file], "--format must be one of onnx, hub, got 'gguf'"),
        ([*onnx, file, "--budget", 0], "--budget must lie in (0, 1], got 0.0"),
        ([*onnx, file, "--budget", 0.5], "give --data FILE too"),
        ([*onnx, file, "--rows", 5], "--rows has no effect without --data"),
        ([*onnx, file, "--data", data, "--rows", 0], "--rows must be at least 1"),
        ([*onnx, file, "--data", tmp_path / "none.csv"], "there is no such file"),
        ([*onnx, tmp_path], "ends in .onnx"),
        ([*onnx, tmp_path / "no" / "m.onnx"], "make it first"),
        (["export", tmp_path, "--format", "onnx", "--output", file], "is not a model folder"),
        (["export", dense_model, "--format", "onnx", "--output", file, "--budget", 0.5, "--data", data], "no effect"),
        (["export", model, "--format", "hub", "--output", tmp_path / "h", "--budget", 0.5], "--budget has no effect"),
        (["export", model, "--format", "hub", "--output", tmp_path / "h", "--data", data], "--data has no effect"),
        (["export", model, "--format", "hub", "--output", model], "holds something already"),
        (["export", model, "--output", file], "--format"),
    ):
        assert said in here.mistake(*arguments), arguments
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_page_shows_how_a_file_is_used(
    here: Here, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "exported").mkdir()
    monkeypatch.chdir(tmp_path)
    assert here("export", model, "--format", "onnx", "--output", "exported/news.onnx").code == 0
    page = (Path(__file__).parent.parent.parent / "docs" / "export.md").read_text(encoding="utf-8")
    shown = next(block for block in page.split("```") if block.startswith("python\n# not run: needs exported"))
    here.capsys.readouterr()
    exec(shown.removeprefix("python\n"), {})
    texts = ["Shares rose after the report.", "The striker scored twice."]
    labels = [answer.label for answer in Classifier.from_pretrained(model, device="cpu")(texts)]
    assert here.capsys.readouterr().out.strip() == str(labels)
