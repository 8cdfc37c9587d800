"""One Python file out of several modules of this package, for model folders that carry their own code.

The text of the sources stays as it is, comments included, but for three changes: imports within the package go, for
everything lies in one file; a name that several modules give to different things gets its module's name in front; and
a module that others use as an object (``method.budget``) becomes a namespace of that name after its part of the file.
The same sources give the same file.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files

PACKAGE = __name__.split(".")[0]


@dataclass(frozen=True, kw_only=True)
class SourceModule:
    """A module below the package, such as ``execution.packed``, and its source text."""

    name: str
    text: str = field(repr=False)

    @classmethod
    def read(cls, name: str) -> SourceModule:
        """From the installed package."""
        place = files(PACKAGE).joinpath(*name.split("."))
        file = (
            place.joinpath("__init__.py") if place.is_dir() else files(PACKAGE).joinpath(f"{name.replace('.', '/')}.py")
        )
        return cls(name=name, text=file.read_text(encoding="utf-8"))

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed text."""
        return ast.parse(self.text)

    @property
    def short(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    @cached_property
    def defined(self) -> dict[str, ast.stmt]:
        """Top-level functions, classes and variables."""
        found: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {t.id: node for t in targets if isinstance(t, ast.Name) and t.id != "__all__"}
        return found

    def origin(self, node: ast.ImportFrom) -> str | None:
        """The module that a relative import names, "" for the package itself; None for other packages."""
        if not node.level:
            return None
        parts = self.name.split(".")
        is_package = files(PACKAGE).joinpath(*parts).is_dir()
        base = parts[: len(parts) - node.level + is_package]
        return ".".join([*base, *([node.module] if node.module else [])])


def bundle(names: Sequence[str], *, header: str, apart: dict[str, str], public: Sequence[str]) -> str:
    """The source of one file that holds the modules ``names``, each after those that it imports.

    ``apart``: modules that stay files of their own, by the name of that file. ``public``: the names for ``__all__``.
    Raises ValueError for an import or a clash of names that this cannot carry over.
    """
    modules = {name: SourceModule.read(name) for name in names}
    final = _final_names(list(modules.values()))
    imports: dict[str, set[str]] = {}
    used_apart: dict[str, set[str]] = {}
    parts = []
    as_objects = _used_as_objects(modules)
    for module in modules.values():
        text = _section(module, modules, final, apart, used_apart, imports)
        parts.append(f"# {'-' * 20} {PACKAGE}/{module.name.replace('.', '/')}.py\n\n{text}")
        if module.name in as_objects:
            parts.append(_namespace(module, final))
    if as_objects:
        imports.setdefault("types", set()).add("SimpleNamespace")
    beside = _import_lines({f".{file}": names for file, names in used_apart.items()})
    exported = "__all__ = [" + ", ".join(f'"{name}"' for name in public) + "]"
    top = [header, "from __future__ import annotations", _import_lines(imports), beside, exported]
    return "\n\n".join(part for part in top if part) + "\n\n\n" + "\n\n\n".join(parts) + "\n"


def _import_lines(imports: dict[str, set[str]]) -> str:
    """``import a`` for what has "" among its names, ``from a import b, c`` for the others, in order."""
    whole = [f"import {name}" for name in sorted(imports) if "" in imports[name]]
    parts = [f"from {name} import {', '.join(sorted(imports[name] - {''}))}" for name in sorted(imports)]
    return "\n".join([*whole, *(line for line in parts if not line.endswith("import "))])


def _final_names(modules: list[SourceModule]) -> dict[tuple[str, str], str]:
    """(module, name) to the name in the one file: the same, unless several modules or Python itself have it."""
    counts = Counter(name for module in modules for name in module.defined)
    counts.update(name for name in counts if hasattr(builtins, name))
    counts.update({module.short for module in modules})
    result = {}
    for module in modules:
        for name in module.defined:
            clash = counts[name] > 1
            plain = name.lstrip("_")
            result[module.name, name] = f"{'_' * (len(name) - len(plain))}{module.short}_{plain}" if clash else name
    if len(set(result.values())) != len(result):
        raise ValueError("two names of the modules are still the same after their modules' names were put in front")
    return result


def _used_as_objects(modules: dict[str, SourceModule]) -> set[str]:
    """Modules that another one imports whole, as in ``from . import method``."""
    return {
        target
        for module in modules.values()
        for node in module.tree.body
        if isinstance(node, ast.ImportFrom) and (origin := module.origin(node)) is not None
        for alias in node.names
        if (target := f"{origin}.{alias.name}".lstrip(".")) in modules
    }


def _section(
    module: SourceModule,
    modules: dict[str, SourceModule],
    final: dict[tuple[str, str], str],
    apart: dict[str, str],
    used_apart: dict[str, set[str]],
    imports: dict[str, set[str]],
) -> str:
    """The module's text without imports, its docstring as a comment; adds to ``used_apart`` and ``imports``."""
    renamed = {name: final[module.name, name] for name in module.defined}
    gone: set[int] = set()
    for place, node in enumerate(module.tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            gone |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        if isinstance(node, ast.Import):
            for alias in node.names:
                imports.setdefault(ast.unparse(alias), set()).add("")
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            origin = module.origin(node)
            if origin is None:
                imports.setdefault(node.module or "", set()).update(ast.unparse(alias) for alias in node.names)
            elif any(alias.asname for alias in node.names):
                raise ValueError(f"{module.name} imports a name of the package under another one")
            elif origin in apart:
                used_apart.setdefault(apart[origin], set()).update(alias.name for alias in node.names)
            else:
                found = {a.name: _resolved(modules, final, origin, a.name) for a in node.names}
                renamed |= {name: where for name, where in found.items() if where != name}
        elif (place == 0 and ast.get_docstring(module.tree)) or _names_all(node):
            gone |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = _renamed(module, {old: new for old, new in renamed.items() if old != new})
    body = "\n".join(line for number, line in enumerate(lines, start=1) if number not in gone).strip("\n")
    docstring = (ast.get_docstring(module.tree) or "").splitlines()
    comment = "\n".join(f"# {line}".rstrip() for line in docstring)
    return f"{comment}\n\n\n{body}".rstrip()


def _names_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def _resolved(modules: dict[str, SourceModule], final: dict[tuple[str, str], str], origin: str, name: str) -> str:
    """The final name of what ``from origin import name`` gives, through packages that pass it on."""
    whole = f"{origin}.{name}".lstrip(".")
    if whole in modules:
        return modules[whole].short
    if (origin, name) in final:
        return final[origin, name]
    module = modules.get(origin)
    for node in module.tree.body if module else []:
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            next_origin = module.origin(node) if module else None
            if next_origin is not None:
                return _resolved(modules, final, next_origin, name)
    raise ValueError(f"{name} of {PACKAGE}.{origin} is not among the modules {', '.join(modules)}")


def _renamed(module: SourceModule, names: dict[str, str]) -> list[str]:
    """The lines of the module with ``names`` replaced wherever they stand as names."""
    lines = module.text.splitlines()
    places: list[tuple[int, int, str]] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.level and node not in module.tree.body:
            raise ValueError(f"{module.name}, line {node.lineno}: an import of the package inside a block")
        if isinstance(node, ast.Name) and node.id in names:
            places.append((node.lineno, node.col_offset, node.id))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
            offset = len(lines[node.lineno - 1][: node.col_offset].encode()) + len(
                "def " if isinstance(node, ast.FunctionDef) else "class "
            )
            if module.defined.get(node.name) is node:
                places.append((node.lineno, offset, node.name))
        elif isinstance(node, ast.arg) and node.arg in names:
            raise ValueError(f"{module.name} has an argument {node.arg}, which is also a name that has to change")
    for number, offset, old in sorted(places, reverse=True):
        line = lines[number - 1].encode()
        end = offset + len(old.encode())
        assert line[offset:end] == old.encode(), f"{module.name}, line {number}"
        lines[number - 1] = (line[:offset] + names[old].encode() + line[end:]).decode()
    return lines


def _namespace(module: SourceModule, final: dict[tuple[str, str], str]) -> str:
    """``short = SimpleNamespace(name=name, …)`` of what the module defines."""
    fields = "".join(f"    {name}={final[module.name, name]},\n" for name in module.defined)
    return f"{module.short} = SimpleNamespace(\n{fields})"
