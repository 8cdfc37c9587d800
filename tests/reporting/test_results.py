from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from budgetformer.reporting.results import append_row, environment, read_rows


def _append_many(path: Path, name: str) -> None:
    for number in range(50):
        append_row(path, {"name": name, "number": number, "long": "x" * 3000})


def test_rows_come_back_in_order_with_numpy_values_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.jsonl"
    append_row(
        path, {"accuracy": np.float32(0.5), "heads": np.array([1, 2]), "name": "体育", "file": tmp_path, "none": None}
    )
    append_row(path, {"confusion": [[1, 0], (0, 1)], "right": np.bool_(True)})
    first, second = read_rows(path)
    assert first == {"accuracy": 0.5, "heads": [1, 2], "name": "体育", "file": str(tmp_path), "none": None}
    assert second == {"confusion": [[1, 0], [0, 1]], "right": True}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": {"b": [1.0, float("nan")]}}, r"field a\.b\[1\] of the row is nan"),
        ({"a": np.array([np.inf])}, r"field a\[0\] of the row is inf"),
        ({"a": object()}, "field a of the row is a object"),
    ],
)
def test_what_json_does_not_have_is_refused_and_nothing_is_written(tmp_path: Path, row: dict, message: str) -> None:
    path = tmp_path / "results.jsonl"
    with pytest.raises(ValueError, match=message):
        append_row(path, row)
    assert not path.exists()


def test_a_line_that_was_cut_off_is_named(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": "\xe4\xbd')
    with pytest.raises(ValueError, match=r"results\.jsonl, line 2 was cut off while it was written.*delete this line"):
        read_rows(path)


def test_a_new_row_does_not_grow_onto_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": ')
    append_row(path, {"c": 3})
    assert json.loads(path.read_text().splitlines()[-1]) == {"c": 3}
    with pytest.raises(ValueError, match="line 2 is not JSON"):
        read_rows(path)


def test_rows_that_are_no_objects_are_named(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"a": 1}\n\n[1, 2]\n')
    with pytest.raises(ValueError, match="line 3 is not a JSON object"):
        read_rows(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.jsonl does not exist"):
        read_rows(tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match="is a folder"):
        read_rows(tmp_path)


def test_two_writers_can_write_to_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ThreadPoolExecutor(2) as pool:  # every row opens the file anew, as two processes would
        list(pool.map(partial(_append_many, path), "ab"))
    rows = read_rows(path)
    assert [r["number"] for r in rows if r["name"] == "a"] == list(range(50))
    assert len(rows) == 100


def test_the_environment_is_json_and_names_what_was_used() -> None:
    found = environment()
    json.dumps(found, allow_nan=False)
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert all(found[name] for name in ("torch", "transformers", "cpu", "cores", "system"))
    assert found["date"].endswith("+00:00")
    assert (found["commit"] is None) == (found["dirty"] is None)


def test_the_environment_says_what_a_time_depends_on() -> None:
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert environment()["threads"] == threads
    finally:
        torch.set_num_threads(before)
    found = environment()
    assert found["dtype"] == str(torch.get_default_dtype()).removeprefix("torch.")
    assert found["vector"] == torch.backends.cpu.get_cpu_capability()
    assert found["interop_threads"] == torch.get_num_interop_threads()
    assert 0 < found["cores"] <= (os.cpu_count() or 1)
    assert found["load"] is None or found["load"] >= 0
    assert found["memory"] is None or found["memory"] > 2**28
    assert (found["gpu"] is None) == (found["gpu_memory"] is None) == (not torch.cuda.is_available())


def test_another_projects_checkout_is_not_ours(tmp_path: Path) -> None:
    package = Path(__file__).parents[2] / "src" / "budgetformer"
    site = tmp_path / "project" / "site"
    (site / "budgetformer" / "reporting").mkdir(parents=True)
    for name in ("version.py", "reporting/results.py", "reporting/__init__.py"):
        (site / "budgetformer" / name).write_bytes((package / name).read_bytes())
    (site / "budgetformer" / "__init__.py").write_text("")
    subprocess.run(["git", "init", "-q", str(tmp_path / "project")], check=True)
    code = "from budgetformer.reporting import results; e = results.environment(); print(e['commit'], e['dirty'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=site,
        env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["None", "None"]
