"""Several modules as one file: readable, repeatable, and refused where that would change the meaning."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from budgetformer import exporting
from budgetformer.exporting.bundle import SourceModule, bundle
from budgetformer.exporting.own_code import LICENCE, MODULES, code_files

ROOT = Path(__file__).parent.parent.parent


def test_the_same_sources_give_the_same_files() -> None:
    assert code_files() == code_files()


def test_the_files_say_where_they_are_from_and_need_no_package() -> None:
    assert (ROOT / "LICENSE").read_text(encoding="utf-8") == LICENCE
    for name, text in code_files().items():
        tree = ast.parse(text)
        assert "Made by budgetformer" in text
        assert "Permission is hereby granted" in text
        assert ast.get_docstring(tree)
        roots = {
            node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level
        }
        roots |= {a.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
        assert "budgetformer" not in roots
        beside = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level}
        assert beside == (set() if name.startswith("configuration") else {"configuration_budgetformer"})


def test_comments_and_docstrings_of_the_sources_stay() -> None:
    made = code_files()["modeling_budgetformer.py"]
    for name in MODULES:
        tree = SourceModule.read(name).tree
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (said := ast.get_docstring(node, clean=False)):
                assert said in made, f"{name}: {node.name}"
    assert "# Scaled by √D in the model" in made


def test_every_name_of_the_file_means_one_thing() -> None:
    body = ast.parse(code_files()["modeling_budgetformer.py"]).body
    names = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert len(set(names)) == len(names)
    assert {"packed_attend", "reference_attend", "cuda_attend"} <= set(names)


def test_what_would_change_its_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match=r"BudgetFormerConfig of budgetformer\.configuration is not among the modules"):
        bundle(["outputs"], header="", apart={}, public=[])
    inside = SourceModule(name="part", text="def f():\n    from . import method\n    return method\n")
    with pytest.raises(ValueError, match="line 2: an import of the package inside a block"):
        exporting.bundle._renamed(inside, {})
    argument = SourceModule(name="part", text="def f(a):\n    return a\n")
    with pytest.raises(ValueError, match="has an argument a"):
        exporting.bundle._renamed(argument, {"a": "part_a"})
