"""The code that a hub folder carries: this package's model in two files that need torch and transformers alone."""

from __future__ import annotations

import hashlib
import textwrap

from ..version import __version__
from .bundle import PACKAGE, SourceModule, bundle

CONFIGURATION, MODELING = "configuration_budgetformer", "modeling_budgetformer"
AUTO_MAP = {
    "AutoConfig": f"{CONFIGURATION}.BudgetFormerConfig",
    "AutoModel": f"{MODELING}.BudgetFormerModel",
    "AutoModelForSequenceClassification": f"{MODELING}.BudgetFormerForSequenceClassification",
}
SETTINGS = ("configuration_checks", "configuration")
MODULES = (
    "method",
    "execution.layout",
    "execution.local",
    "execution.weights",
    "execution.int8",
    "execution.runs",
    "execution.pairs",
    "execution.packed",
    "execution.first_token",
    "execution.reference",
    "execution.cuda",
    "execution",
    "fewer_heads",
    "float32_nets",
    "attention",
    "head_pruning",
    "layers",
    "objective",
    "outputs",
    "pretrained",
    "modeling",
)
"""What configuration and model are made of, each after those that it imports."""

LICENCE = """\
MIT License

Copyright (c) 2026 The BudgetFormer authors

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""


def code_files() -> dict[str, str]:
    """File names and their text; the same for every model of one version of the package."""
    classes = [name.rpartition(".")[2] for name in AUTO_MAP.values()]
    return {
        f"{CONFIGURATION}.py": bundle(
            SETTINGS,
            header=_header("the configuration", SETTINGS),
            apart={},
            public=["IGNORED", "BudgetFormerConfig"],
        ),
        f"{MODELING}.py": bundle(
            MODULES,
            header=_header("the model", MODULES),
            apart={"configuration": CONFIGURATION},
            public=sorted(classes[1:]),
        ),
    }


def _header(what: str, modules: tuple[str, ...] | list[str]) -> str:
    """How the file came about, and its licence, as comments and a docstring."""
    sources = [SourceModule.read(name) for name in modules]
    digest = hashlib.sha256("\0".join(source.text for source in sources).encode()).hexdigest()
    said = [
        f"Made by {PACKAGE} {__version__} with `{PACKAGE} export DIR --format hub`. Do not edit: change the sources.",
        *textwrap.wrap(f"Sources, of the package {PACKAGE}: {', '.join(modules)}.", 116),
        f"SHA-256 of their text: {digest}",
        "",
        *LICENCE.splitlines(),
    ]
    comment = "\n".join(f"# {line}".rstrip() for line in said)
    return f'{comment}\n\n"""BudgetFormer, {what}: text classification that spends attention heads per input."""'
