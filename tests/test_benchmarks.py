"""The benchmark for GPUs: its measuring part on a CPU, and what it says without a GPU."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from budgetformer import BudgetFormerConfig

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "inference_cuda.py"


@pytest.fixture
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.mark.parametrize("file", sorted(SCRIPT.parent.glob("*.py")), ids=lambda file: file.stem)
def test_every_benchmark_finds_the_names_that_it_takes_from_others(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    assert runpy.run_path(str(file))["__doc__"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_without_a_gpu_it_stops_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.argv", [str(SCRIPT), "--output", str(tmp_path / "rows.jsonl")])
    with pytest.raises(SystemExit, match=r"needs a CUDA device, and torch .* sees none"):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert list(tmp_path.iterdir()) == []


def test_every_contender_has_a_row_and_those_with_all_heads_agree(script: dict[str, Any]) -> None:
    config = BudgetFormerConfig(vocab_size=50, hidden_size=32, num_attention_heads=4, intermediate_size=32)
    cpu = torch.device("cpu")
    rows = script["measure"](config, [9, 20, 3], device=cpu, rounds=2, warm_up=1, fast="packed")
    named = [(row["contender"], row["heads"]) for row in rows]
    assert named == [("sdpa_padded", 4), ("varlen_dense", 4), *(("budgetformer", k) for k in (1, 2, 3, 4))]
    assert all(row["difference"] < 0.05 for row in rows if row["heads"] == 4)
    macs = [row["macs"] for row in rows]
    assert macs[0] > macs[1]
    assert macs[2:] == sorted(macs[2:])
    assert all(row["seconds"]["median"] > 0 for row in rows)
    json.dumps(rows)
