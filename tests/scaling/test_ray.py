"""``predict --engine ray`` in real clusters of two workers: the plain engine's answers, each once, whoever dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from budgetformer.scaling.cluster import PATIENCE

from ..cli.commands import Outcome, environment, read_jsonl, start, texts, there, write_jsonl
from ..model_folders import make_folder

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="signals")]
RAY = ("--engine", "ray", "--workers", "2", "--part-records", "64")
RECORDS = 1500


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Large enough for a part to take a while."""
    return make_folder(tmp_path_factory.mktemp("scaling") / "model", hidden_size=256, intermediate_size=1024)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """jsonl with records of every kind: texts, none, blank lines between."""
    rows: list[dict[str, Any]] = [{"text": text, "key": f"k{i}"} for i, (text, _) in enumerate(texts(RECORDS))]
    rows[3], rows[700], rows[701], rows[1499] = {"text": 7}, {"other": 1}, {"text": ""}, {"text": None}
    path = write_jsonl(tmp_path_factory.mktemp("records") / "rows.jsonl", rows)
    path.write_text(path.read_text(encoding="utf-8").replace('"k9"}\n', '"k9"}\n\n  \n'), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def plain(model: Path, records: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The plain engine's rows."""
    output = tmp_path_factory.mktemp("plain") / "o.jsonl"
    assert there("predict", model, "--input", records, "--output", output).code == 0
    return read_jsonl(output)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder whose path is short enough for Ray's sockets."""
    folder = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def run(short: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command; what it and its cluster leave running ends with the test."""
    started: list[psutil.Process] = []

    def start_one(*arguments: object) -> subprocess.Popen[str]:
        process = start("predict", *arguments, TMPDIR=str(short))
        started.append(psutil.Process(process.pid))
        return process

    yield start_one
    for process in started:
        for one in [*family(process), process]:
            if one.is_running():
                one.kill()


def family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes that hold a model."""
    found = []
    for one in family(psutil.Process(process.pid)):
        try:
            if one.cmdline()[:1] and one.cmdline()[0].startswith("ray::MapWorker(Map(PartScorer"):
                found.append(one)
        except psutil.NoSuchProcess:
            pass
    return found


def parts(output: Path) -> list[Path]:
    return sorted(output.glob("part-*.jsonl"))


def answers(output: Path) -> list[dict[str, Any]]:
    return [row for part in parts(output) for row in read_jsonl(part)]


def wait_for_parts(output: Path, number: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 240
    while len(parts(output)) < number:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "no part was written"
        time.sleep(0.02)


def end_of(process: subprocess.Popen[str]) -> Outcome:
    out, err = process.communicate(timeout=300)
    return Outcome(code=process.returncode, out=out, err=err)


def assert_same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert [row["id"] for row in found] == [row["id"] for row in wanted]
    for a, b in zip(found, wanted, strict=True):
        assert list(a) == list(b)
        for name in a.keys() - {"score", "scores"}:
            assert a[name] == b[name], (a["id"], name)
        assert a["score"] == pytest.approx(b["score"], abs=1e-5)
        assert a["scores"] == pytest.approx(b["scores"], abs=1e-5)


def test_a_worker_dies_and_every_record_is_answered_once(
    model: Path, records: Path, plain: list[dict[str, Any]], tmp_path: Path, run: Callable[..., Any], short: Path
) -> None:
    output = tmp_path / "out"
    process = run(model, "--input", records, "--output", output, *RAY)
    wait_for_parts(output, 2, process)
    found = workers(process)
    listening = [
        connection.laddr.ip
        for one in [psutil.Process(process.pid), *family(psutil.Process(process.pid))]
        for connection in one.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(found) == 2
    os.kill(found[0].pid, signal.SIGKILL)
    assert len(parts(output)) < 20, "the worker was to be killed midway"
    outcome = end_of(process)
    assert outcome.code == 0, outcome.err
    assert outcome.err.splitlines()[-1] == f"1,500 records answered in 24 parts in {output}"
    assert "Traceback" not in outcome.err
    assert_same(answers(output), plain)
    assert len(parts(output)) == 24
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
    assert {path.name for path in output.iterdir()} == {path.name for path in parts(output)} | {"_manifest.json"}
    assert list(short.iterdir()) == []


def test_a_run_that_was_stopped_and_killed_goes_on_with_the_parts_that_are_missing(
    model: Path, records: Path, plain: list[dict[str, Any]], tmp_path: Path, run: Callable[..., Any], short: Path
) -> None:
    output = tmp_path / "out"
    command = (model, "--input", records, "--output", output, *RAY)
    process = run(*command)
    wait_for_parts(output, 2, process)
    process.send_signal(signal.SIGINT)
    outcome = end_of(process)
    assert outcome.code == 130, outcome.err
    assert "Traceback" not in outcome.err
    assert [line[:7] for line in outcome.err.splitlines() if line.startswith(("stopped", "error:"))] == ["stopped"]
    done = sum(len(read_jsonl(part)) for part in parts(output))
    way = "go on with the same command and --resume"
    assert outcome.err.splitlines()[-1] == f"stopped after {done:,} records, kept in {output}; {way}"
    assert list(short.iterdir()) == []
    before = {part: (part.stat().st_ino, part.stat().st_mtime_ns) for part in parts(output)}
    assert 2 <= len(before) < 24

    resume = [*command[:-2], "--resume"]
    process = run(*resume)
    wait_for_parts(output, len(before) + 2, process)
    cluster = family(psutil.Process(process.pid))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    _, alive = psutil.wait_procs(cluster, timeout=180)  # two helpers of Ray look for its head for a minute
    assert alive == [], "the cluster outlives its driver"
    assert len(parts(output)) < 24

    other = make_folder(tmp_path / "other", hidden_size=256, intermediate_size=1024, initializer_range=0.2)
    refused = end_of(run(other, *resume[1:]))
    assert refused.code == 2
    assert "other than in" in refused.err.splitlines()[-1]
    assert "is now: model;" in refused.err.splitlines()[-1]

    outcome = end_of(run(*resume))
    assert outcome.code == 0, outcome.err
    assert "going on after " in outcome.err
    assert {part: (part.stat().st_ino, part.stat().st_mtime_ns) for part in before} == before
    assert_same(answers(output), plain)
    assert json.loads((output / "_manifest.json").read_text(encoding="utf-8"))["complete"]


def test_a_folder_of_parquet_with_ids_columns_and_a_budget(
    model: Path, records: Path, tmp_path: Path, run: Callable[..., Any]
) -> None:
    rows = [row for row in read_rows(records) if isinstance(row.get("text"), str)][:400]
    together, folder = tmp_path / "all.parquet", tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows), together)
    pq.write_table(pa.Table.from_pylist(rows[:130]), folder / "a.parquet", row_group_size=50)
    pq.write_table(pa.Table.from_pylist(rows[130:]), tmp_path / "blob")
    (folder / "b.parquet").symlink_to(tmp_path / "blob")  # as the hub's cache has it
    options = ("--id-column", "key", "--keep-columns", "--max-budget", "0.5")
    assert there("predict", model, "--input", together, "--output", tmp_path / "o.jsonl", *options).code == 0
    outcome = end_of(run(model, "--input", folder, "--output", tmp_path / "out", *options, *RAY))
    assert outcome.code == 0, outcome.err
    assert_same(answers(tmp_path / "out"), read_jsonl(tmp_path / "o.jsonl"))
    assert len(parts(tmp_path / "out")) == 3 + 5


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def test_what_a_worker_cannot_read_is_said_as_elsewhere(
    model: Path, records: Path, tmp_path: Path, run: Callable[..., Any]
) -> None:
    broken = tmp_path / "broken.jsonl"
    lines = records.read_text(encoding="utf-8").splitlines(keepends=True)[:400]
    broken.write_text("".join([*lines[:199], '{"text": "cut\n', *lines[200:]]), encoding="utf-8")
    outcome = end_of(run(model, "--input", broken, "--output", tmp_path / "out", *RAY))
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in outcome.err
    assert "broken.jsonl: line 200 is not JSON" in outcome.err
    assert not (tmp_path / "out" / "part-0000003.jsonl").exists()
    assert list((tmp_path / "out").glob("*.partial")) == []


def test_a_cluster_that_is_there_is_used_and_stays(
    model: Path, records: Path, plain: list[dict[str, Any]], tmp_path: Path, run: Callable[..., Any], short: Path
) -> None:
    code = (
        "import ray, sys\n"
        "ray.init(address='local', num_cpus=2, include_dashboard=False, object_store_memory=100*2**20,"
        f" _node_ip_address='127.0.0.1', _temp_dir={str(short / 'ray')!r}, log_to_driver=False)\n"
        "print(ray.get_runtime_context().gcs_address, flush=True)\n"
        "sys.stdin.read()\n"
        "print(len(ray.nodes()), flush=True)\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(RAY_USAGE_STATS_ENABLED="0", **PATIENCE),
    )
    try:
        assert owner.stdout is not None
        address = owner.stdout.readline().strip()
        assert address.startswith("127.0.0.1:")
        command = (model, "--input", records, "--output", tmp_path / "out", "--engine", "ray")
        outcome = end_of(run(*command, "--ray-address", address, "--part-records", "512"))
        assert outcome.code == 0, outcome.err
        assert_same(answers(tmp_path / "out"), plain)
        out, _ = owner.communicate("", timeout=60)
        assert out.strip() == "1", "the cluster ended with the command"
    finally:
        for one in [*family(psutil.Process(owner.pid)), owner] if owner.poll() is None else []:
            one.kill()
