"""The demo, shortened: both models, TF-IDF, one table, the report, the next commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from budgetformer.cli import run
from budgetformer.demo import next_steps
from budgetformer.reporting.results import read_rows


def test_a_folder_that_holds_a_model_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "budgetformer"}', encoding="utf-8")
    assert run(["demo", "--output", str(tmp_path)]) == 2
    assert "holds a model" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_the_next_steps_can_be_typed_where_the_shell_has_no_such_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "my bin" / "budgetformer"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom budgetformer_command import main\nmain()\n")
    script.chmod(0o755)
    for started_by, found in ((script, False), ("-c", False), (script, True)):
        monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin" if found else "/usr/bin:/bin")
        monkeypatch.setattr(sys, "argv", [str(started_by)])
        steps = next_steps(Path("runs/demo/budgetformer"), Path("runs/demo/report.html")).splitlines()
        typed = [line.strip() for line in steps if line.startswith("  ")]
        assert len(typed) == 3
        assert typed[0].startswith("budgetformer predict") == found
        begin = typed[0].partition(" predict ")[0]
        assert all(line.startswith(f"{begin} ") for line in typed)
        done = subprocess.run(["sh", "-c", f"{begin} --version"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_short_demo_writes_models_report_and_a_result_row(tmp_path: Path) -> None:
    code = "from budgetformer_command import main; main()"
    options = ["demo", "--output", "runs/demo", "--epochs", "0.1", "--results", "rows.jsonl"]
    done = subprocess.run(
        [sys.executable, "-c", code, *options], cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "non-commercial research" in done.stdout
    assert [f"Part {i} of 4" in done.stderr for i in range(1, 5)] == [True] * 4
    assert "TF-IDF + logistic regression" in done.stdout
    assert "budgetformer predict runs/demo/budgetformer" in done.stdout
    assert "budgetformer train --train your.csv" in done.stdout
    assert "rose after" in (tmp_path / "runs/demo/budgetformer/README.md").read_text(encoding="utf-8")
    report = (tmp_path / "runs/demo/report.html").read_text(encoding="utf-8")
    assert report.count("<figure") >= 7
    assert 'src="http' not in report
    assert 'href="http' not in report
    (row,) = read_rows(tmp_path / "rows.jsonl")
    assert set(row["figures"]) == {"BudgetFormer", "Full attention (twin)", "TF-IDF + logistic regression"}
    assert row["figures"]["TF-IDF + logistic regression"]["accuracy"] > 0.95
    assert [p["mean_heads"] for p in row["curve"] if p["choice"] == "learned"] == list(range(1, 9))
    for folder in ("budgetformer", "full-attention"):
        assert (tmp_path / "runs/demo" / folder / "model.safetensors").is_file()
