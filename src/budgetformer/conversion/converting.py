"""``convert()``: a pretrained encoder or classifier becomes a BudgetFormer folder that answers as it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..configuration import BudgetFormerConfig
from ..data.encoding import TextEncoder
from ..data.sources import RowSource
from ..inference import pick_device
from ..modeling import BudgetFormerForSequenceClassification
from .architecture import build
from .card import conversion_card, heads_per_layer
from .folder import check_output, write_folder
from .gates import rank_heads
from .head_use import drop_unused
from .importance import head_importance
from .rows import labelled_rows
from .source import Source, load_source

RANKING_ROWS = 256
"""Labelled rows that heads are ranked on."""
RANKING_TOKENS = 256
"""Tokens of a row that are read for it, so that long texts do not take minutes."""
ZERO_SHOT_BUDGET = 0.75
"""Share of the heads without training. One row of `results/pretrained.jsonl` stands behind it (commit 810f2b6,
MiniLM on AG News, 2,000 test texts): .9015 with 9 of 12 heads; rows beside it have .9005 with 6 and .8875 with 3."""


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """What a conversion wrote.

    ``classifier``: it has labels. ``notes``: what was left out and what to know. ``importance``: with a zero-shot
    budget, the measured importance of every head (L, H). ``rows``: the labelled rows that it was measured on.
    """

    output: Path
    config: BudgetFormerConfig
    family: str
    classifier: bool
    notes: tuple[str, ...] = ()
    importance: Tensor | None = None
    rows: int = 0

    @property
    def heads_kept(self) -> int:
        """Heads that every layer keeps for every input."""
        return heads_per_layer(self.config)


@dataclass(frozen=True, kw_only=True)
class ZeroShot:
    """Rank the heads on labelled rows and keep a fixed share of them, without training.

    ``budget`` is the share of heads in (0, 1], ``most`` the number of rows at most. ``prune``: the other heads, which
    no input ever uses then, are dropped for good.
    """

    source: RowSource
    budget: float = ZERO_SHOT_BUDGET
    most: int = RANKING_ROWS
    prune: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.budget <= 1:
            raise ValueError(f"budget must lie in (0, 1], got {self.budget}")
        if self.most < 1:
            raise ValueError(f"rows must be at least 1, got {self.most}")


def convert(
    model: str | Path,
    *,
    output: str | Path,
    zero_shot: ZeroShot | str | Path | None = None,
    device: str = "auto",
    progress: Callable[[int], None] | None = None,
) -> Conversion:
    """Convert a model of ``transformers`` or sentence-transformers and write a BudgetFormer folder.

    All heads are kept with weight 1, so the answers are the source's within rounding; labels, tokenizer and maximum
    length come along. What works: BERT, RoBERTa, XLM-RoBERTa, DistilBERT, ELECTRA and ModernBERT, encoders and
    sequence classifiers, in safetensors.

    Args:
        model: a folder or a name of the hub.
        output: the folder to write; new or empty.
        zero_shot: labelled rows to rank the heads on, as a file or with more settings as ``ZeroShot``; then every
            layer keeps a fixed share of its heads. Classifiers only.
        device: where the heads are ranked: "auto" (a GPU when there is one), "cpu", "cuda", "cuda:1", …
        progress: called with the number of rows that were done, while heads are ranked.

    Raises ValueError in one line that says what is wrong; nothing is written then.
    """
    folder, place = check_output(output), pick_device(device)
    if isinstance(zero_shot, str | Path):
        zero_shot = ZeroShot(source=RowSource(data=str(zero_shot)))
    source = load_source(str(model))
    if zero_shot is not None and not source.classifier:
        raise ValueError(
            f"{source.place.name} is an encoder without labels, so its heads cannot be ranked: zero-shot takes a "
            "classifier"
        )
    made, unread = build(source)
    result = Conversion(
        output=Path(output),
        config=made.config,
        family=source.family.name,
        classifier=source.classifier,
        notes=tuple(_notes(source, unread)),
    )
    if zero_shot is not None:
        assert isinstance(made, BudgetFormerForSequenceClassification)
        made, result = _ranked(source, made.to(torch.device(place)), zero_shot, result, progress)
    card = conversion_card(source, made.config, ranked_rows=result.rows or None)
    source.tokenizer.model_max_length = made.config.text_limit
    write_folder(folder, model=made, tokenizer=source.tokenizer, card=card, unread=unread)
    return result


def _ranked(
    source: Source,
    model: BudgetFormerForSequenceClassification,
    asked: ZeroShot,
    result: Conversion,
    progress: Callable[[int], None] | None,
) -> tuple[BudgetFormerForSequenceClassification, Conversion]:
    """The classifier with a fixed budget and one ranking of the heads of every layer."""
    encoder = TextEncoder(
        tokenizer=source.tokenizer,
        max_length=min(model.config.text_limit, RANKING_TOKENS),
        uses_segments=model.config.type_vocab_size > 1,
    )
    names = [model.config.id2label[i] for i in range(model.config.num_labels)]
    rows = labelled_rows(asked.source, names=names, encoder=encoder, most=asked.most)
    importance_LH = head_importance(model, rows.encoded, rows.labels, progress=progress)
    changes: dict[str, Any] = {
        "fixed_budget": asked.budget,
        "text_columns": list(rows.columns.text),
        "pair_column": rows.columns.pair,
        "label_column": rows.columns.label,
    }
    ranked, _ = build(source, changes)
    assert isinstance(ranked, BudgetFormerForSequenceClassification)
    rank_heads(ranked, importance_LH)
    if asked.prune:
        drop_unused(ranked, lambda: [rows.encoded])
    return ranked, replace(result, config=ranked.config, importance=importance_LH, rows=len(rows.labels))


def _notes(source: Source, unread: dict[str, Tensor]) -> list[str]:
    notes = source.notes
    if unread:
        notes.append(f"not read here, kept for the way back: {', '.join(sorted(unread)[:3])}")
    if not source.classifier:
        notes.append("an encoder without labels: train it before it can classify")
    return notes
