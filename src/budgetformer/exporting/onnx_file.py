"""A model folder as one ONNX file with its tokenizer beside it, checked before it gets its name."""

from __future__ import annotations

import filecmp
import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..answers import Pair
from ..inference import Classifier
from .fixed_heads import with_fixed_heads
from .graph import require_onnx, write_graph
from .head_sets import HeadSets, measure_head_sets
from .metadata import metadata
from .verification import Verification, verify

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "added_tokens.json",
)


@dataclass(frozen=True, kw_only=True)
class OnnxExport:
    """``file`` and its ``bytes``, the ``tokenizer`` files beside it, what was ``checked``; ``sets`` of fixed heads."""

    file: Path
    tokenizer: tuple[Path, ...]
    bytes: int
    checked: Verification
    sets: HeadSets | None


def export_onnx(
    folder: str | Path,
    output: str | Path,
    *,
    budget: float | None = None,
    texts: Sequence[str | Pair] = (),
    overwrite: bool = False,
) -> OnnxExport:
    """Write the model of ``folder`` to ``output`` (.onnx), with the tokenizer's files into the same folder.

    Without ``budget`` the graph chooses heads for each input as the model does, and computes all of them. With it, one
    set of heads per layer is chosen from ``texts`` (``measure_head_sets``) and the others are cut out of the graph.
    The file is written aside, compared with the model in ONNX Runtime (``verify``; on ``texts`` too), and renamed.

    Raises ValueError when the extra is missing, a budget comes without texts or with full attention, the output is
    there or its folder holds another tokenizer, and when the file does not answer as the model does.
    """
    require_onnx()
    import onnx

    folder, output = Path(folder), Path(output)
    check_onnx_output(folder, output, overwrite=overwrite)
    if budget is not None and not texts:
        raise ValueError(
            f"budget {budget} needs texts, from which the fixed set of heads is chosen: give some of yours"
        )
    classifier = Classifier.from_pretrained(folder, device="cpu")
    sets = None if budget is None else measure_head_sets(classifier, texts, budget=budget)
    model = classifier.model if sets is None else with_fixed_heads(classifier.model, sets)
    aside = _aside(output)
    try:
        write_graph(model, aside, fixed=sets is not None)
        checked = verify(aside, classifier, texts, sets=sets)
        graph = onnx.load(str(aside))
        onnx.helper.set_model_props(graph, metadata(classifier, folder=folder, sets=sets, checked=checked))
        onnx.save(graph, str(aside))
        onnx.checker.check_model(str(aside))
        tokenizer = _copy_tokenizer(folder, output.parent)
        os.replace(aside, output)
    except OSError as problem:
        raise OSError(f"cannot write {output} ({problem.strerror or problem})") from problem
    finally:
        aside.unlink(missing_ok=True)
    return OnnxExport(file=output, tokenizer=tokenizer, bytes=output.stat().st_size, checked=checked, sets=sets)


def check_onnx_output(folder: Path, output: Path, *, overwrite: bool) -> None:
    """Refuse a place where the file cannot go, or where the tokenizer's files would replace others; before any work."""
    if output.suffix.lower() != ".onnx":
        raise ValueError(f"{output}: give the file a name that ends in .onnx")
    if output.is_dir():
        raise ValueError(f"{output} is a folder; give a file name")
    if not output.parent.is_dir():
        raise ValueError(f"{output}: there is no folder {output.parent}; make it first")
    if not os.access(output.parent, os.W_OK):
        raise ValueError(f"{output}: no permission to write in {output.parent}")
    if output.exists() and not overwrite:
        raise ValueError(f"{output} is there already; give --overwrite to replace it, or another name")
    for name in TOKENIZER_FILES:
        here, there = folder / name, output.parent / name
        if here.is_file() and there.exists() and not overwrite and not filecmp.cmp(here, there, shallow=False):
            raise ValueError(
                f"{there} belongs to another model, and the tokenizer of this one goes there; give a folder of its own "
                "(or --overwrite to replace it)"
            )


def _aside(file: Path) -> Path:
    """A name beside ``file`` that nobody else uses."""
    return file.with_name(f"{file.name}.{secrets.token_hex(4)}.partial")


def _copy_tokenizer(folder: Path, target: Path) -> tuple[Path, ...]:
    """The tokenizer's files, byte for byte, each whole under its name."""
    copied = []
    for name in TOKENIZER_FILES:
        if not (folder / name).is_file():
            continue
        there = target / name
        if not (there.exists() and filecmp.cmp(folder / name, there, shallow=False)):
            aside = _aside(there)
            try:
                shutil.copyfile(folder / name, aside)
                os.replace(aside, there)
            finally:
                aside.unlink(missing_ok=True)
        copied.append(there)
    return tuple(copied)
