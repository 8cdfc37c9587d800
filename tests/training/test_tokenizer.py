"""A tokenizer of the hub, pinned to a commit: a cache as the hub's own library lays it out, read without network."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from budgetformer import train

from ..conftest import sentences

OLD, NEW = "1" * 40, "2" * 40
PROGRAM = """
import sys
from budgetformer import train
from transformers import AutoTokenizer
for name, size in (("words/small@{old}", {few}), ("words/small@{new}", {many}), ("words/small", {many})):
    output = sys.argv[2] + "/" + str(len(name)) + name[-1]
    train(train=sys.argv[1], output=output, tokenizer=name, preset="tiny", max_length=16, max_steps=1, quiet=True)
    assert len(AutoTokenizer.from_pretrained(output)) == size, name
try:
    train(train=sys.argv[1], output=sys.argv[2] + "/none", tokenizer="words/small@{absent}", quiet=True)
except ValueError as error:
    print(error)
"""


def test_a_tokenizer_is_taken_from_the_commit_that_is_named(
    small_csv: Path, write_csv: Callable[..., Path], tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    cache = tmp_path / "home" / "hub" / "models--words--small"
    other = write_csv(
        [(f"{text} quixotic zebra", label) for text, label in sentences(64, labels=["praise", "refund"])],
        name="other.csv",
    )
    for commit, data in ((OLD, small_csv), (NEW, other)):
        snapshot = cache / "snapshots" / commit
        run = train(train=data, output=tmp_path / commit, max_steps=1, **tiny_settings)
        snapshot.mkdir(parents=True)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (snapshot / name).write_bytes((run.output / name).read_bytes())
        (snapshot / "config.json").write_text('{"model_type": "bert"}')
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(NEW)
    few, many = (len(AutoTokenizer.from_pretrained(tmp_path / commit)) for commit in (OLD, NEW))
    assert few < many
    program = PROGRAM.format(old=OLD, new=NEW, absent="3" * 40, few=few, many=many)
    done = subprocess.run(
        [sys.executable, "-c", program, str(small_csv), str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"tokenizer 'words/small@{'3' * 40}' cannot be loaded" in done.stdout
