"""Two writers do not meet in one place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from budgetformer import train
from budgetformer.locking import alone_in

from .model_folders import run_python

TRY = """
import sys
from pathlib import Path
from budgetformer.locking import alone_in
with alone_in(Path({!r})): print(1)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks")
def test_another_process_is_refused_until_the_block_ends(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "file"):
        (tmp_path / "file").touch()
        with alone_in(path), pytest.raises(AssertionError, match="another run is writing there"):
            run_python(TRY.format(str(path)))
        assert run_python(TRY.format(str(path))) == "1\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks")
def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = TRY.format(str(tmp_path)).replace("print(1)", "print(1, flush=True); sys.stdin.read()")
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stdin=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        with pytest.raises(ValueError, match="another run"), alone_in(tmp_path):
            pass
        process.kill()
    with alone_in(tmp_path):
        pass


def test_training_leaves_the_folder_of_another_run_alone(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    settings = {"train": small_csv, "output": tmp_path / "m", "max_steps": 2, **tiny_settings}
    train(**settings)
    before = sorted(p.stat().st_mtime_ns for p in (tmp_path / "m").rglob("*"))
    with alone_in(tmp_path / "m"), pytest.raises(ValueError, match="another run is writing there"):
        train(**settings, overwrite=True)
    assert sorted(p.stat().st_mtime_ns for p in (tmp_path / "m").rglob("*")) == before
