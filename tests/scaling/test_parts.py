"""The folder of parts: whole or not there, never mixed, never anybody else's."""

from __future__ import annotations

import errno
import itertools
import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from budgetformer.data.columns import Columns
from budgetformer.data.errors import DataError
from budgetformer.data.files import Reading
from budgetformer.data.identity import file_stamp
from budgetformer.data.stretches import Stretch
from budgetformer.model_folder import model_identity
from budgetformer.scaling.failures import Failure
from budgetformer.scaling.inputs import input_files
from budgetformer.scaling.parts import PartFolder, write_whole
from budgetformer.scaling.worker import PartScorer, WorkerPlan

from ..model_folders import make_folder

STRETCHES = [Stretch(path="a.jsonl", first=i, records=1, start_at=10 * i, line=i + 1) for i in range(3)]
SETTINGS = {"model": "abc", "columns": [("text",), None]}


@pytest.fixture
def folder(tmp_path: Path) -> PartFolder:
    """A run of three parts, of which the second is done."""
    folder = PartFolder(path=tmp_path / "out")
    parts = folder.begin(SETTINGS, STRETCHES)
    write_whole(folder.path / parts[1].name, ["{}\n"])
    return folder


def test_a_run_goes_on_with_the_parts_that_are_missing(folder: PartFolder) -> None:
    left = folder.path / "part-0000002.jsonl.ab12.partial"
    left.write_text("half")
    folder.check(resume=True, overwrite=False)
    parts = folder.resumed(SETTINGS)
    assert [part.stretch for part in parts] == STRETCHES
    assert [part.number for part in folder.missing(parts)] == [0, 2]
    assert not left.exists()
    with pytest.raises(RuntimeError, match="part-0000000"):
        folder.finish(SETTINGS, parts)
    for part in folder.missing(parts):
        write_whole(folder.path / part.name, ["{}\n"])
    folder.finish(SETTINGS, parts)
    assert folder.read()["complete"]
    assert folder.read()["records"] == 3


def test_parts_of_another_run_are_never_taken(folder: PartFolder) -> None:
    with pytest.raises(ValueError, match="is now: model;"):
        folder.resumed(SETTINGS | {"model": "other"})
    with pytest.raises(ValueError, match="--resume to go on with it, or --overwrite"):
        folder.check(resume=False, overwrite=False)
    folder.check(resume=False, overwrite=True)
    assert folder.missing(folder.begin(SETTINGS, STRETCHES[:2])) != []
    assert [path.name for path in folder.path.iterdir()] == ["_manifest.json"]


def test_what_other_programs_wrote_is_never_replaced(folder: PartFolder) -> None:
    mine = [folder.path / name for name in ("part-00001.jsonl", "part-0000001.jsonl.gz", "part-notes.jsonl", "a.txt")]
    for file in mine:
        file.write_text("mine")
    folder.check(resume=False, overwrite=True)
    folder.begin(SETTINGS, STRETCHES)
    assert {file.read_text() for file in mine} == {"mine"}
    assert sorted(folder.path.iterdir()) == sorted([folder.manifest, *mine])
    folder.manifest.write_text('{"tool": "another"}')
    for asked in ({"resume": False, "overwrite": True}, {"resume": True, "overwrite": False}):
        with pytest.raises(ValueError, match="start anew in another folder"):
            folder.check(**asked)
    assert folder.manifest.read_text() == '{"tool": "another"}'


@pytest.mark.parametrize("parts", ["5", "[[9, 0, 1, 0, 1]]", "[[0]]", "null"])
def test_a_manifest_that_was_edited_is_named(folder: PartFolder, parts: str) -> None:
    folder.manifest.write_text(
        f'{{"format": 1, "settings": {{}}, "complete": false, "files": ["a.jsonl"], "parts": {parts}}}'
    )
    with pytest.raises(ValueError, match=r"_manifest.json cannot be read .*; start anew in another folder"):
        folder.check(resume=True, overwrite=False)


def test_a_start_anew_that_breaks_off_fits_no_run(folder: PartFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, missing_ok: bool = False) -> None:
        if self.name.startswith("part-"):
            raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", full)
        with pytest.raises(OSError, match="broken"):
            folder.begin(SETTINGS, STRETCHES)
    with pytest.raises(ValueError, match="is now: model, columns"):
        folder.resumed(SETTINGS)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    for name, overwrite, words in (
        ("mine", False, "holds something else"),
        ("mine", True, "holds something else"),
        ("file", True, "is a file"),
        ("o.jsonl", False, "a folder of parts; give a name without .jsonl"),
        ("no/where", False, "make it first"),
    ):
        with pytest.raises(ValueError, match=words):
            PartFolder(path=tmp_path / name).check(resume=False, overwrite=overwrite)
    with pytest.raises(ValueError, match="nothing to resume"):
        PartFolder(path=tmp_path / "new").check(resume=True, overwrite=False)
    PartFolder(path=tmp_path / "new").check(resume=False, overwrite=False)


def test_a_complete_run_is_not_replaced_without_a_word(folder: PartFolder) -> None:
    parts = folder.resumed(SETTINGS)
    for part in folder.missing(parts):
        write_whole(folder.path / part.name, ["{}\n"])
    folder.finish(SETTINGS, parts)
    with pytest.raises(ValueError, match="holds the answers of a run; give --overwrite"):
        folder.check(resume=False, overwrite=False)
    with pytest.raises(ValueError, match="is complete"):
        folder.check(resume=True, overwrite=False)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"format": 1}', '{"format": 9, "settings": {}, "complete": 1, "parts": [], "files": []}']
)
def test_a_manifest_that_cannot_be_used_is_named(folder: PartFolder, content: str) -> None:
    folder.manifest.write_text(content)
    with pytest.raises(ValueError, match=r"_manifest\.json"):
        folder.check(resume=True, overwrite=False)


def test_a_part_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    def lines():
        yield "one\n"
        raise ValueError("bad record")

    with pytest.raises(ValueError, match="bad record"):
        write_whole(tmp_path / "a", lines())
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match=r"cannot write .*gone"):
        write_whole(tmp_path / "gone" / "a", ["x"])


def test_failures_travel(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "cannot write a (No space left on device)")
    for error, kind, words in (
        (DataError("a.jsonl: line 3 is not JSON"), ValueError, "a.jsonl: line 3 is not JSON"),
        (full, OSError, "cannot write a (No space left on device); what is complete is kept"),
        (FileNotFoundError(errno.ENOENT, "No such file", "in/a.jsonl"), OSError, "in/a.jsonl: No such file; what is"),
        (MemoryError("no"), MemoryError, "no"),
        (KeyError("x"), RuntimeError, "a worker failed with KeyError: 'x'"),
    ):
        arrived = Failure.read(Failure.of(error).text()).error()
        assert type(arrived) is kind
        assert str(arrived).startswith(words)
    cause = Failure.of(full).error().__cause__
    assert isinstance(cause, OSError)
    assert cause.errno == errno.ENOSPC


def test_a_folder_of_input_is_read_by_name_and_nothing_is_left_out(tmp_path: Path) -> None:
    line = json.dumps({"text": "a"}) + "\n"
    for name in ("b.jsonl", "a.jsonl"):
        (tmp_path / name).write_text(line)
    for name in ("_SUCCESS", ".a.jsonl.crc", "empty.jsonl"):
        (tmp_path / name).write_text("")
    assert [path.name for path in input_files(tmp_path, Reading())] == ["a.jsonl", "b.jsonl"]
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(DataError, match=r"notes\.txt: this is neither"):
        input_files(tmp_path, Reading())
    os.replace(tmp_path / "notes.txt", tmp_path / "c.parquet")
    with pytest.raises(DataError, match=r"c\.parquet: this is not a parquet file"):
        input_files(tmp_path, Reading())
    os.replace(tmp_path / "c.parquet", tmp_path / "c.csv")
    with pytest.raises(DataError, match="parquet or jsonl first"):
        input_files(tmp_path, Reading())
    (tmp_path / "c.csv").unlink()
    (tmp_path / "year=2024").mkdir()
    with pytest.raises(DataError, match="this is a folder in the input folder"):
        input_files(tmp_path, Reading())
    (tmp_path / "new").mkdir()
    with pytest.raises(DataError, match="no file with records"):
        input_files(tmp_path / "new", Reading())


def test_a_file_that_changes_while_a_part_is_read_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = tmp_path / "rows.jsonl", tmp_path / "out"
    file.write_text('{"text": "money back"}\n' * 3)
    out.mkdir()
    model = make_folder(tmp_path / "model")
    plan = WorkerPlan(
        folder=str(model),
        model=model_identity(model),
        output=str(out),
        stamps={str(file): file_stamp(file)},
        columns=Columns(text=("text",)),
        reading=Reading(),
        keep_columns=False,
        request={},
        precision="float32",
        execution="auto",
        threads=torch.get_num_threads(),
    )
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")  # so that what a worker sets is taken back
    scorer = PartScorer(plan)
    stretch = Stretch(path=str(file), first=0, records=3, start_at=0, line=1)
    lines = scorer._lines(stretch)
    first = next(lines)
    assert json.loads(first)["id"] == 0
    with open(file, "a") as more:
        more.write("\n")
    with pytest.raises(ValueError, match="was changed while it was read; start anew with --overwrite"):
        write_whole(out / "part-0000000.jsonl", itertools.chain([first], lines))
    assert "was changed while it was read" in scorer({"part": 0} | asdict(stretch))["failure"]
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_file_in_a_folder_of_files_is_named(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "money back"}\n')
    strange = tmp_path / "b.jsonl"
    if kind == "link":
        strange.symlink_to(tmp_path / "nowhere.jsonl")
    else:
        os.mkfifo(strange)
    with pytest.raises(DataError, match=r"b\.jsonl"):
        input_files(tmp_path, Reading())
