"""A model folder that carries its own code and loads where this package is not installed."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from ..configuration import BudgetFormerConfig
from ..inference import Classifier
from ..model_folder import CURVE_PICTURE, check_folder, move_into
from .own_code import AUTO_MAP, CONFIGURATION, MODELING, code_files
from .verification import random_batches

EXPECTED = (
    "model_type",
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "max_position_embeddings",
    "type_vocab_size",
    "pad_token_id",
    "id2label",
    "label2id",
)
"""Fields that programs of others read from ``config.json``; each is written even where it has its default."""
EXTRA = ("README.md", "training.json", CURVE_PICTURE)
HOW_TO_LOAD = """
## Loading without the package

This folder carries its own code: `{configuration}.py` and `{modeling}.py`. With torch and transformers alone:

```python
from transformers import pipeline

classify = pipeline("text-classification", model="this folder", trust_remote_code=True)
print(classify("Shares rose.", truncation=True))  # longer texts are cut, not refused
```

`trust_remote_code=True` runs these two files: read them first if you do not trust where the folder is from.
"""


@dataclass(frozen=True, kw_only=True)
class HubExport:
    """``folder`` that was written, its ``files`` by name, and on how many ``inputs`` its logits were compared."""

    folder: Path
    files: tuple[str, ...]
    inputs: int


def export_hub(folder: str | Path, output: str | Path) -> HubExport:
    """Write the model of ``folder`` to the new or empty folder ``output``, with its own code and a full configuration.

    Weights and tokenizer are copied byte for byte. The folder is written aside; the code in it is loaded and must give
    the logits of the model, and then it gets its place. ValueError when ``output`` is in use or the logits differ.
    """
    folder, output = check_folder(folder), Path(output)
    check_hub_output(output)
    classifier = Classifier.from_pretrained(folder, device="cpu")
    target = output.resolve()  # "." and "x/.." have no name of their own
    place = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target if target.is_dir() else target.parent))
    aside = place / target.name
    try:
        aside.mkdir()
        for file in [*folder.glob("*.safetensors*"), *folder.glob("*token*.json"), *folder.glob("vocab.txt")]:
            shutil.copyfile(file, aside / file.name)
        for name in EXTRA:
            if (folder / name).is_file():
                shutil.copyfile(folder / name, aside / name)
        _describe(aside / "README.md")
        for name, text in code_files().items():
            (aside / name).write_text(text, encoding="utf-8")
        config = json.dumps(hub_config(folder, classifier.config), indent=2, ensure_ascii=False)
        (aside / "config.json").write_text(config + "\n", encoding="utf-8")
        inputs = _verify(aside, classifier)
        if target.is_dir():
            move_into(aside, target)
        else:
            os.rename(aside, target)
    except OSError as problem:
        raise OSError(f"cannot write {output} ({problem.strerror or problem})") from problem
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return HubExport(folder=output, files=tuple(sorted(file.name for file in output.iterdir())), inputs=inputs)


def check_hub_output(output: Path) -> None:
    """Refuse a place that is in use or cannot be written, before any work."""
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file; give a folder")
    if output.is_dir() and any(output.iterdir()):
        raise ValueError(f"{output} holds something already; give a new or empty folder")
    there = output if output.is_dir() else output.absolute().parent
    if not there.is_dir():
        raise ValueError(f"{output}: there is no folder {there}; make it first")
    if not os.access(there, os.W_OK):
        raise ValueError(f"{output}: no permission to write in {there}")


def hub_config(folder: Path, config: BudgetFormerConfig) -> dict[str, Any]:
    """``config.json`` of ``folder`` with every field that others expect, and with the way to the code."""
    found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    found |= {name: getattr(config, name) for name in EXPECTED}
    found["id2label"] = {str(i): config.id2label[i] for i in range(config.num_labels)}
    found["architectures"] = [AUTO_MAP["AutoModelForSequenceClassification"].rpartition(".")[2]]
    found["problem_type"] = "single_label_classification"
    found["auto_map"] = AUTO_MAP
    return dict(sorted(found.items()))


def _describe(card: Path) -> None:
    """Add how to load the folder to its card."""
    text = card.read_text(encoding="utf-8") if card.is_file() else "# A BudgetFormer text classifier\n"
    text = text.replace("library_name: budgetformer\n", "library_name: transformers\n", 1)
    text = text.replace("\ntags:\n", "\ntags:\n- custom_code\n", 1)
    said = HOW_TO_LOAD.format(configuration=CONFIGURATION, modeling=MODELING)
    card.write_text(text.rstrip("\n") + "\n" + said, encoding="utf-8")


@torch.inference_mode()
def _verify(folder: Path, classifier: Classifier) -> int:
    """Run the folder's own code on its own weights beside the model; the number of inputs that agreed."""
    code = _load_code(folder)
    config = code[CONFIGURATION].BudgetFormerConfig.from_pretrained(folder, local_files_only=True)
    model = code[MODELING].BudgetFormerForSequenceClassification.from_pretrained(
        folder, config=config, local_files_only=True
    )
    inputs = 0
    for batch in random_batches(classifier.config):
        theirs, ours = model.eval()(**batch).logits, classifier.model(**batch).logits
        if not torch.equal(theirs, ours):
            raise ValueError(
                f"{folder}: the folder's own code gives other logits (largest difference "
                f"{float((theirs - ours).abs().max())}); nothing was written"
            )
        inputs += len(theirs)
    return inputs


def _load_code(folder: Path) -> dict[str, ModuleType]:
    """The two files as modules of a package that exists for this call alone; no byte code is left in the folder."""
    package = ModuleType("_budgetformer_export")
    package.__path__ = [str(folder)]
    names = [package.__name__, *(f"{package.__name__}.{name}" for name in (CONFIGURATION, MODELING))]
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        sys.modules[package.__name__] = package
        for name in names[1:]:
            spec = importlib.util.spec_from_file_location(name, folder / f"{name.rpartition('.')[2]}.py")
            assert spec is not None
            assert spec.loader is not None
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        return {name.rpartition(".")[2]: sys.modules[name] for name in names[1:]}
    finally:
        sys.dont_write_bytecode = bytecode
        for name in names:
            sys.modules.pop(name, None)
