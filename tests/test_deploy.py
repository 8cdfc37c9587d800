"""The container file and the systemd unit start the server with options that it has, from files that are there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .test_docs import check_arguments

ROOT = Path(__file__).parent.parent
UNIT, CONTAINER = ROOT / "deploy" / "budgetformer.service", ROOT / "deploy" / "Containerfile"


def test_the_container_starts_the_server_and_copies_what_is_there() -> None:
    text = CONTAINER.read_text(encoding="utf-8")
    [entry] = re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    name, *arguments = json.loads(entry)
    assert name == "budgetformer"
    check_arguments(arguments)
    copied = [name for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for name in line.split()]
    assert copied
    assert all((ROOT / name).exists() for name in copied)
    assert re.search(r"^USER (?!root|0$)", text, re.MULTILINE)


def test_the_unit_starts_the_server_and_leaves_it_time_to_finish() -> None:
    lines = dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE))
    name, *arguments = lines["ExecStart"].split()
    assert name.endswith("/budgetformer")
    check_arguments(arguments)
    assert float(lines["TimeoutStopSec"]) >= 30 + 5 + float(arguments[arguments.index("--leave") + 1])
    assert lines["KillMode"] == "mixed"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text(encoding="utf-8")), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
