"""The shape of the package: order of imports, length of files, docstrings, and an import without side effects."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .model_folders import run_python

SOURCE = Path(__file__).parent.parent / "src" / "budgetformer"
FILES = sorted(SOURCE.rglob("*.py"))
PAPER = sorted((SOURCE.parent / "budgetformer_paper").rglob("*.py"))
LEVELS = [
    {"version", "extras", "calling", "configuration", "configuration_checks", "method"},
    {
        "execution",
        "metering",
        "data",
        "objective",
        "model_folder",
        "locking",
        "windows",
        "resuming",
        "side_by_side",
        "quiet",
        "fewer_heads",
        "float32_nets",
    },
    {
        "attention",
        "outputs",
        "layers",
        "pretrained",
        "modeling",
        "registration",
        "precision",
        "answers",
        "explanation",
        "head_pruning",
    },
    {"reporting", "inference", "baselines"},
    {"evaluation", "agreement", "answering", "curve", "bench", "explaining"},
    {"training"},
    {"demo", "conversion", "exporting", "serving", "scaling"},
    {"cli"},
]
"""Imports point to a lower level, to the same package, or along an arrow."""
ARROWS = {
    ("configuration", "configuration_checks"),
    ("layers", "attention"),
    ("pretrained", "attention"),
    ("pretrained", "layers"),
    ("head_pruning", "attention"),
    ("pretrained", "head_pruning"),
    ("modeling", "attention"),
    ("modeling", "layers"),
    ("modeling", "outputs"),
    ("modeling", "pretrained"),
    ("registration", "modeling"),
    ("precision", "attention"),
    ("precision", "modeling"),
    ("agreement", "evaluation"),
    ("curve", "evaluation"),
    ("bench", "curve"),
    ("explanation", "answers"),
    ("model_folder", "data"),
}
ROOT = {"__init__", "__main__"}
"""The package itself names its parts lazily and ``python -m budgetformer`` starts the command line."""


def home(parts: tuple[str, ...]) -> str:
    return parts[0] if parts else "__init__"


def imported(file: Path, *, at_once: bool = False) -> Iterator[tuple[str, ...]]:
    """Modules of the package that ``file`` imports anywhere, or ``at_once``, as parts below ``budgetformer``."""
    package = ("budgetformer", *file.relative_to(SOURCE).parent.parts)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in tree.body if at_once else ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple((node.module or "").split(".")) if node.module else ()
            targets = [(*base, alias.name) for alias in node.names]
        else:
            continue
        for target in targets:
            if target[0] == "budgetformer" and len(target) > 1:
                yield existing(target[1:])


def existing(parts: tuple[str, ...]) -> tuple[str, ...]:
    """The module in ``parts``, without the name that is taken from it."""
    while parts and not ((SOURCE.joinpath(*parts)).is_dir() or SOURCE.joinpath(*parts).with_suffix(".py").is_file()):
        parts = parts[:-1]
    return (*parts, "__init__") if SOURCE.joinpath(*parts).is_dir() else parts


def test_every_module_has_a_level() -> None:
    found = {home(f.relative_to(SOURCE).with_suffix("").parts) for f in FILES} - ROOT
    assert found == set().union(*LEVELS)


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_imports_point_down(file: Path) -> None:
    level = {name: i for i, names in enumerate(LEVELS) for name in names}
    own = home(file.relative_to(SOURCE).with_suffix("").parts)
    for parts in imported(file):
        target = home(parts)
        if own in ROOT or own == target or (own, target) in ARROWS:
            continue
        assert target in level, f"{file} imports the package as a whole"
        assert level[target] < level[own], f"{own} (level {level[own]}) imports {target} (level {level[target]})"


def test_no_files_of_a_package_import_each_other_in_a_circle() -> None:
    names = {f.relative_to(SOURCE).with_suffix("").parts: f for f in FILES}
    graph = {name: {t for t in imported(f, at_once=True) if t in names and t != name} for name, f in names.items()}
    while leaves := [name for name, targets in graph.items() if not targets]:
        graph = {name: targets - set(leaves) for name, targets in graph.items() if name not in leaves}
    assert not graph


def test_the_package_of_the_papers_runs_is_reached_from_its_command_alone_and_late() -> None:
    def named(tree: ast.AST) -> set[str]:
        imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        modules = {n.module or "" for n in imports if isinstance(n, ast.ImportFrom)}
        return modules | {alias.name for n in imports if isinstance(n, ast.Import) for alias in n.names}

    trees = {f: ast.parse(f.read_text(encoding="utf-8")) for f in FILES}
    users = {f for f, tree in trees.items() if any(m.split(".")[0] == "budgetformer_paper" for m in named(tree))}
    assert users == {SOURCE / "cli" / "reproduce.py"}
    at_once = [n for n in trees[SOURCE / "cli" / "reproduce.py"].body if isinstance(n, ast.Import | ast.ImportFrom)]
    assert not any("budgetformer_paper" in ast.unparse(n) for n in at_once)


def test_what_a_contributor_reads_first_is_short() -> None:
    text = (SOURCE.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60


def test_no_file_is_longer_than_300_lines() -> None:
    files = [*FILES, *PAPER]
    lengths = {str(f.relative_to(SOURCE.parent)): len(f.read_text(encoding="utf-8").splitlines()) for f in files}
    assert {name: n for name, n in lengths.items() if n > 300} == {}


def undocumented(body: list[ast.stmt], prefix: str, *, bases: frozenset[str] = frozenset()) -> Iterator[str]:
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        overload = any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)
        known = bases and (node.name.startswith("on_") or node.name in INHERITED or "Protocol" in bases)
        if ast.get_docstring(node) is None and not overload and not known:
            yield f"{prefix}{node.name}"
        if isinstance(node, ast.ClassDef):
            names = frozenset(ast.unparse(base) for base in node.bases)
            yield from undocumented(node.body, f"{prefix}{node.name}.", bases=names)


INHERITED = {"forward", "get_input_embeddings", "set_input_embeddings"}
"""Methods whose meaning torch or transformers define; ``on_…`` are the events of a Trainer callback."""


@pytest.mark.parametrize("file", [*FILES, *PAPER], ids=lambda f: str(f.relative_to(SOURCE.parent)))
def test_every_public_part_has_a_docstring(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert not tree.body or ast.get_docstring(tree) is not None
    missing = set(undocumented(tree.body, ""))
    assert missing - ({"run"} if file.parent.name == "cli" else set()) == set()  # a command's help is that of its file


def test_importing_registers_the_model_and_does_nothing_else(tmp_path: Path) -> None:
    code = """
import builtins, json, os, socket, sys, threading
writes, sockets = [], []
def watch(event, args):
    if event == "open" and args[1] is not None and set(str(args[1])) & set("wax+"):
        writes.append(str(args[0]))
    if event in ("os.mkdir", "os.rename", "os.remove"):
        writes.append(f"{event} {args[0]}")
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo"):
        sockets.append(event)
import torch, transformers
import transformers.modeling_layers, transformers.modeling_utils
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification
before = dict(os.environ), threading.active_count(), torch.get_num_threads(), torch.initial_seed()
sys.addaudithook(watch)
import budgetformer
assert budgetformer.BudgetFormerForSequenceClassification
after = dict(os.environ), threading.active_count(), torch.get_num_threads(), torch.initial_seed()
config = AutoConfig.for_model("budgetformer", hidden_size=8, num_attention_heads=2, vocab_size=9)
assert type(config) is budgetformer.BudgetFormerConfig
assert type(AutoModel.from_config(config)) is budgetformer.BudgetFormerModel
classifier = AutoModelForSequenceClassification.from_config(config)
assert type(classifier) is budgetformer.BudgetFormerForSequenceClassification
print(json.dumps({"writes": writes, "sockets": sockets, "same": before == after, "cuda": torch.cuda.is_initialized()}))
"""
    printed = run_python(code, folder=tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert json.loads(printed) == {"writes": [], "sockets": [], "same": True, "cuda": False}
    assert list(tmp_path.iterdir()) == []


def test_the_public_names_are_there_and_others_are_not() -> None:
    import budgetformer

    assert set(budgetformer.__all__) <= set(dir(budgetformer))
    assert all(getattr(budgetformer, name) is not None for name in budgetformer.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Klassifier'"):
        budgetformer.Klassifier  # noqa: B018
