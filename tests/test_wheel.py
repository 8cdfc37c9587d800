"""The wheel holds all that is needed and runs outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_a_built_wheel_trains_and_predicts_away_from_the_checkout(small_csv: Path, tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--quiet",
        "-w",
        "dist",
        str(ROOT),
    ]
    subprocess.run(build, check=True, cwd=tmp_path, timeout=200)
    (wheel,) = (tmp_path / "dist").glob("budgetformer-*.whl")
    static = {f"budgetformer/serving/static/{name}" for name in ("index.html", "page.css", "page.js", "icon.svg")}
    assert static <= set(zipfile.ZipFile(wheel).namelist())
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, cwd=tmp_path, timeout=200)
    environment = os.environ | {"PYTHONPATH": str(site)}

    def command(*arguments: str) -> str:
        code = "from budgetformer_command import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = subprocess.run(
        [sys.executable, "-c", "import budgetformer; print(budgetformer.__file__)"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(site) in where.stdout
    options = ["--preset", "tiny", "--max-steps", "2", "--max-length", "32", "--vocab-size", "200", "--device", "cpu"]
    command("train", "--train", str(small_csv), "--output", "m", *options)
    assert command("predict", "m", "good great film").strip()
