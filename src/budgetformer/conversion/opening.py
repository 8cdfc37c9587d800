"""Where a source model lies: a folder or a name of the hub, looked at before anything is loaded.

Only safetensors are read. A folder of sentence-transformers is opened at its encoder, with its pooling and length.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig
from transformers.utils.hub import cached_file

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
OTHER_FORMATS = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".pkl")
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model")
READ_MODULES = ("Transformer", "Pooling", "Normalize")
"""Of sentence-transformers: the first two are taken along, and the third has no weights and turns no vector."""
POOLINGS = {"mean": "mean", "cls": "first"}
LONGEST = 1_000_000
"""A tokenizer's limit above this means that it has none."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A source that was found: its name, the folder within it that holds the encoder, and its ``config.json``.

    ``pooling`` and ``max_length`` are those of sentence-transformers, None elsewhere; ``left_out`` names its modules
    that have no place in a BudgetFormer, such as a Dense layer behind the pooling.
    """

    name: str
    folder: str
    config: dict[str, Any]
    pooling: str | None = None
    max_length: int | None = None
    left_out: tuple[str, ...] = ()

    @property
    def is_folder(self) -> bool:
        """A local folder, not a name of the hub."""
        return Path(self.name).is_dir()

    @property
    def title(self) -> str:
        """What to call it in a card: the hub's name, or the last part of the folder's."""
        return Path(self.name).resolve().name if self.is_folder else self.name

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments that lead every ``from_pretrained`` to the encoder, and never to foreign code."""
        return {"subfolder": self.folder, "trust_remote_code": False}

    def file(self, name: str, *, top: bool = False) -> Path | None:
        """A file beside the encoder, or at the ``top``; None when there is none."""
        return _file(self.name, name, "" if top else self.folder)

    def licence(self) -> str | None:
        """The licence that the source's card names."""
        card = self.file("README.md", top=True)
        if card is None:
            return None
        head = card.read_text(encoding="utf-8", errors="replace").split("\n---", 1)[0]
        found = re.search(r"^license:[ \t]*['\"]?([\w.+-]+)", head, re.MULTILINE) if head.startswith("---") else None
        return found[1] if found else None


def open_source(model: str | Path) -> Place:
    """Find a source. Raises ValueError in one line when there is no model, or none in safetensors."""
    name = str(model)
    if Path(name).exists() and not Path(name).is_dir():
        raise ValueError(f"{name} is a file; give the folder of a model or its name on the hub")
    modules = _json(name, "modules.json") if _there(name) else None
    folder, extra = _sentence_transformer(name, modules) if isinstance(modules, list) else ("", {})
    place = Place(name=name, folder=folder, config=_config(name, folder), **extra)
    check_weights(place)
    return place


def check_weights(place: Place) -> None:
    """Refuse a source without safetensors, naming what it has."""
    if any(place.file(file) for file in WEIGHTS):
        return
    if place.is_folder:
        there = sorted(p.name for p in (Path(place.name) / place.folder).iterdir() if p.suffix in OTHER_FORMATS)
    else:
        there = [file for file in PICKLED if place.file(file)]
    if there:
        raise ValueError(
            f"{place.name} has its weights in {', '.join(there[:3])} only, a format that can run code when it is read; "
            "only safetensors are read: load it in transformers where you trust it, and write it with save_pretrained"
        )
    raise ValueError(f"{place.name} has no model.safetensors, so there are no weights to convert")


def check_vocabulary_files(place: Place) -> None:
    """Refuse a source without a tokenizer: ``transformers`` would make up an empty one."""
    if not any(place.file(name) for name in VOCABULARIES):
        raise ValueError(
            f"{place.name} has no tokenizer ({', '.join(VOCABULARIES)}); put the files of the tokenizer that the model "
            "was trained with beside its weights"
        )


def _there(name: str) -> bool:
    return not Path(name).is_dir() or (Path(name) / "modules.json").is_file()


def _config(name: str, folder: str) -> dict[str, Any]:
    if Path(name).is_dir() and not (Path(name) / folder / "config.json").is_file():
        raise ValueError(f"{name} holds no model: it has no config.json")
    try:
        config, _ = PreTrainedConfig.get_config_dict(name, subfolder=folder)
    except Exception as problem:  # the hub and its cache fail in many ways, and a file can hold anything
        if Path(name).is_dir():
            raise ValueError(f"{Path(name) / folder / 'config.json'} is not readable as a configuration") from problem
        if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
            raise ValueError(
                f"there is no folder {name}; give the folder of a model, or its name on the hub"
            ) from problem
        why = str(problem).strip().split("\n")[0]
        raise ValueError(
            f"{name} is neither a folder nor a model that the hub or its local cache gave ({why}); "
            "without network, give the folder of a model that was saved with save_pretrained"
        ) from problem
    if not isinstance(config, dict):
        raise ValueError(f"{Path(name) / folder / 'config.json'} holds no JSON object, so it is no configuration")
    return config


def _file(name: str, file: str, folder: str) -> Path | None:
    if Path(name).is_dir():
        path = Path(name) / folder / file
        return path if path.is_file() else None
    found = cached_file(
        name,
        file,
        subfolder=folder,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if found is None else Path(found)


def _json(name: str, file: str, folder: str = "") -> Any:
    try:
        path = _file(name, file, folder)
        return None if path is None else json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no such model, which the reading of config.json says better; or a broken file
        return None


def _object(name: str, file: str, folder: str) -> dict[str, Any]:
    """The JSON object in a file; empty without the file, or when it holds something else."""
    value = _json(name, file, folder)
    return value if isinstance(value, dict) else {}


def _sentence_transformer(name: str, modules: list[Any]) -> tuple[str, dict[str, Any]]:
    """The encoder's folder, and the other fields of its Place. Raises ValueError for another pooling."""
    named = [m for m in modules if isinstance(m, dict)]
    kinds = [(str(m.get("type", "")).rsplit(".", 1)[-1], str(m.get("path", ""))) for m in named]
    paths = dict(kinds)
    if "Transformer" not in paths:
        raise ValueError(f"{name} is a model of sentence-transformers without an encoder (modules.json)")
    folder = paths["Transformer"]
    settings = _object(name, "sentence_bert_config.json", folder)
    others = tuple(f"{kind} ({path})" for kind, path in kinds if kind not in READ_MODULES)
    found: dict[str, Any] = {"max_length": settings.get("max_seq_length"), "left_out": others}
    if "Pooling" not in paths:
        return folder, found
    pooling = _object(name, "config.json", paths["Pooling"])
    modes = {key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token") for key in pooling}
    modes = {m for m in modes if any(pooling.get(f"pooling_mode_{m}{end}") for end in ("", "_token", "_tokens"))}
    if isinstance(pooling.get("pooling_mode"), str):
        modes = {pooling["pooling_mode"]}
    if len(modes) != 1 or not modes <= set(POOLINGS):
        raise ValueError(
            f"{name} pools its tokens by {', '.join(sorted(modes)) or 'nothing known'}; "
            f"what works: {', '.join(POOLINGS)}"
        )
    return folder, found | {"pooling": POOLINGS[modes.pop()]}
