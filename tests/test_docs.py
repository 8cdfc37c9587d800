"""The code of README.md and docs/ works: python blocks run in order, commands are parsed, and run where that is cheap.

A block whose first line is ``# not run`` is for reading; its commands are still parsed.
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from budgetformer import train
from budgetformer.cli import run
from budgetformer.cli.app import app

from .conftest import WORDS, sentences
from .conversion.sources import write_source

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = "# not run"
CHEAP = ("predict", "evaluate", "explain", "cost", "doctor", "convert")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of a page; ``line`` is that of its first line of code."""

    page: Path
    line: int
    language: str
    code: str

    @property
    def runs(self) -> bool:
        return not self.code.startswith(NOT_RUN)


def blocks(page: Path, language: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page=page, line=text.count("\n", 0, found.start(2)) + 1, language=found[1], code=found[2])
        for found in FENCE.finditer(text)
        if found[1] == language
    ]


def commands(block: Block) -> list[list[str]]:
    """The arguments of every ``budgetformer`` in a shell block, also behind a launcher such as torchrun."""
    found = []
    for line in block.code.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words = list(lexer)
        if "budgetformer" not in words or "install" in words:
            continue
        arguments = words[words.index("budgetformer") + 1 :]
        end = next((i for i, word in enumerate(arguments) if set(word) <= set("|&;<>")), len(arguments))
        found.append(arguments[:end])
    return found


def check_arguments(arguments: list[str]) -> None:
    """Parse as the command line does, without running; raises for an unknown command, option or value."""
    group: Any = typer.main.get_command(app)
    own = {name for option in group.params for name in option.opts}
    while arguments and arguments[0] in own:
        arguments = arguments[1:]
    if not arguments or arguments == ["--help"]:
        return
    name, *rest = arguments
    assert name in group.commands, f"there is no command {name}"
    if "--help" not in rest:
        group.commands[name].make_context(name, list(rest))


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with news.csv, test.csv, pairs.csv, the models runs/news and runs/nli, and a BERT, my-classifier."""
    folder = tmp_path_factory.mktemp("docs")
    labels = list(WORDS)[:2]
    write(folder / "news.csv", ("text", "label"), sentences(80, labels=labels))
    write(folder / "test.csv", ("text", "label"), sentences(20, labels=labels, seed=1))
    pairs = zip(sentences(40, labels=labels, seed=2), sentences(40, labels=labels, seed=3), strict=True)
    rows = [(first, second, label) for (first, label), (second, _) in pairs]
    names = dict(enumerate(labels))
    write_source(folder / "my-classifier", "bert", id2label=names, label2id={name: i for i, name in names.items()})
    write(folder / "pairs.csv", ("premise", "hypothesis", "label"), rows)
    small = {"preset": "tiny", "vocab_size": 200, "max_length": 32, "batch_size": 16, "device": "cpu", "quiet": True}
    train(train=folder / "news.csv", output=folder / "runs" / "news", epochs=2, **small)
    train(train=folder / "pairs.csv", output=folder / "runs" / "nli", epochs=1, **small)
    return folder


def write(path: Path, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    path.write_text("\n".join(",".join(row) for row in [header, *rows]) + "\n", encoding="utf-8")


@pytest.fixture
def here(trained_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh copy of the folder as the working directory."""
    shutil.copytree(trained_folder, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_blocks_run_in_order(page: Path, here: Path) -> None:
    namespace: dict[str, Any] = {"__name__": page.stem}
    for block in blocks(page, "python"):
        if block.runs:
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_are_accepted_and_cheap_ones_run(page: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks(page, "bash"):
        for arguments in commands(block):
            where = f"{page.name}, block at line {block.line}: budgetformer {shlex.join(arguments)}"
            try:
                check_arguments(arguments)
            except Exception as error:
                pytest.fail(f"{where}: {getattr(error, 'message', error)}")
            if block.runs and arguments and arguments[0] in CHEAP:
                code = run(arguments)
                assert code == 0, f"{where}: {capsys.readouterr().err}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_unknown_commands_options_and_values_are_noticed() -> None:
    mistakes = ("fly runs/news", "predict runs/news --speed 3", "cost --length many --rows 2", "train --train a.csv")
    for wrong in mistakes:
        with pytest.raises(Exception, match=r"no command|[Nn]o such option|valid integer|[Mm]issing"):
            check_arguments(wrong.split())
    block = Block(
        page=ROOT, line=1, language="bash", code="X=1 torchrun -m budgetformer --debug train \\\n --train a | tee b\n"
    )
    assert commands(block) == [["--debug", "train", "--train", "a"]]
