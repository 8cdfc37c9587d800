"""``prune_unused()``: a model folder without the heads that no row of some data ever chose."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import datasets
import numpy as np

from ..configuration import IGNORED, BudgetFormerConfig
from ..data.columns import Columns
from ..data.encoding import Encoded, TextEncoder
from ..data.errors import DataError
from ..data.labels import encode_labels, model_markers
from ..data.registry import is_named
from ..data.sources import RowSource, read_rows
from ..inference import Classifier
from ..model_folder import CURVE_PICTURE, RECORD, check_folder, read_card, read_record
from ..reporting.card import pruning_lines
from .folder import check_output, write_folder
from .head_use import WINDOW, Pruning, drop_unused

MEASURED_BEFORE = "The figures that this card had until then were measured with those heads."
"""Stays true when a later measurement replaces some of them."""


@dataclass(frozen=True, kw_only=True)
class PrunedFolder:
    """``output`` that was written, what was dropped, and the bytes of the weights before and after."""

    output: Path
    config: BudgetFormerConfig
    pruning: Pruning
    bytes: tuple[int, int]


def prune_unused(
    folder: str | Path,
    *,
    data: str | Path | RowSource,
    output: str | Path,
    held_out: str | Path | None = None,
    device: str = "auto",
    progress: Callable[[int], None] | None = None,
) -> PrunedFolder:
    """Write ``folder`` anew without the heads that no row of ``data`` chooses in a call that names no budget.

    That is with its own budget, or with the folder's default one. On these rows the choice of heads and the answers
    stay as they are then; other texts and other budgets may have wanted a head that is gone and take their next best
    one. Budgets stay shares of the heads of before; a budget of 1 keeps all that are left.

    Args:
        folder: a BudgetFormer classifier.
        data: the rows to count on, such as those it was trained on: a file or data set by name, or with more settings
            as ``RowSource``. Columns are called as in training when nothing is said; labels are not needed.
        output: the folder to write; new or empty.
        held_out: a file of labelled rows that are not counted, to say what the loss of heads costs there.
        progress: called with the number of rows that were counted.

    Raises ValueError in one line, with nothing written, for a folder or data that do not fit, for full attention, and
    when every head was chosen by some row.

    Example:
        >>> prune_unused("runs/cheap", data="train.csv", output="runs/small", held_out="test.csv")
    """
    folder, target = check_folder(folder), check_output(output)
    card, record = read_card(folder), read_record(folder)
    source = data if isinstance(data, RowSource) else RowSource(data=str(data))
    classifier = Classifier.from_pretrained(folder, device=device)
    model, config = classifier.model, classifier.config
    counted, _ = read_rows(source, config, need_label=False)
    other = None if held_out is None else _labelled(str(held_out), source, config)
    encoder = classifier.encoder
    pruning = drop_unused(
        model,
        lambda: _windows(counted, encoder),
        held_out=None if other is None else lambda: _windows(other, encoder),
        labels=() if other is None else [int(label) for label in other["label"]],
        progress=progress,
    )
    before, after = pruning.heads
    if before == after:
        raise ValueError(
            f"each of the {before} heads of {folder} was chosen by some of the {pruning.rows:,} rows of {source.data}: "
            "there is nothing to drop"
        )
    texts = {"README.md": _with_pruning(card, pruning)}
    if record is not None:
        texts[RECORD] = json.dumps(record | {"pruning": pruning.describe()}, indent=1, ensure_ascii=False) + "\n"
    classifier.tokenizer.model_max_length = config.text_limit
    model.to("cpu")
    pictures = [file for file in [folder / CURVE_PICTURE] if file.is_file()]  # the card shows it
    write_folder(target, model=model, tokenizer=classifier.tokenizer, texts=texts, copies=pictures)
    sizes = (_weights(folder), _weights(target))
    return PrunedFolder(output=Path(output), config=config, pruning=pruning, bytes=sizes)


def _labelled(path: str, source: RowSource, config: BudgetFormerConfig) -> datasets.Dataset:
    """The labelled rows of another file, with labels as the model numbers them."""
    if not Path(path).exists():
        raise DataError(f"{path}: there is no such file of held-out rows")
    columns = source.columns if not is_named(source.data) else Columns()
    other = RowSource(data=path, columns=columns, reading=source.reading, unlabelled=source.unlabelled)
    names = [config.id2label[i] for i in range(config.num_labels)]
    rows, _ = read_rows(other, config, need_label=True)
    marked = encode_labels(rows, names, model_markers(names, source.unlabelled), source=path)
    known = np.flatnonzero(np.asarray(marked["label"]) != IGNORED)
    if not len(known):
        raise DataError(f"{path} has no labelled rows, so accuracy cannot be measured on it")
    return marked.select(known)


def _windows(rows: datasets.Dataset, encoder: TextEncoder) -> Iterator[Encoded]:
    for start in range(0, len(rows), WINDOW):
        some = rows[start : start + WINDOW]
        pairs = [text or "" for text in some["pair"]] if "pair" in some else None
        yield encoder.encode([text or "" for text in some["text"]], pairs)


def _with_pruning(card: str, pruning: Pruning) -> str:
    lines = [*pruning_lines(pruning.describe()), MEASURED_BEFORE, ""]
    return card.rstrip("\n") + "\n\n" + "\n".join(lines)


def _weights(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("model*.safetensors"))
