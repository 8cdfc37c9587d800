"""Texts to try, for the page: those of the model card, or a few that fit any model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..model_folder import LONGEST_EXAMPLE, MOST_EXAMPLES

TEXTS = (
    {"text": "Shares rose after the bank raised its forecast for the year."},
    {"text": "The film takes its time, but the last half hour is a joy."},
    {"text": "A late goal decided a match that neither side deserved to lose."},
)
PAIRS = (
    {"text": "A man is asleep on a bench in the park.", "pair": "Someone is outdoors."},
    {"text": "Two children play football.", "pair": "The children are asleep."},
)


def examples(folder: Path, *, takes: str) -> list[dict[str, str]]:
    """At most six texts, or pairs for a model of pairs, each of at most 1,000 characters.

    A card names them as cards on the Hugging Face hub do: entries ``text`` (and ``pair``) under ``widget`` in its head.
    """
    found = [example for example in _of_card(folder) if _fits(example, takes)][:MOST_EXAMPLES]
    return found or [dict(example) for example in (PAIRS if takes == "pairs" else TEXTS)]


def _of_card(folder: Path) -> Iterator[dict[str, str]]:
    from huggingface_hub import metadata_load

    try:
        head: Any = metadata_load(folder / "README.md")
        entries = list(head["widget"])
    except Exception:  # a card is written by people: without one that can be read there are still examples
        return
    for entry in entries:
        if isinstance(entry, dict):
            yield {name: entry[name] for name in ("text", "pair") if isinstance(entry.get(name), str)}


def _fits(example: dict[str, str], takes: str) -> bool:
    wanted = {"texts": [{"text"}], "pairs": [{"text", "pair"}]}.get(takes, [{"text"}, {"text", "pair"}])
    return set(example) in wanted and all(0 < len(text) <= LONGEST_EXAMPLE for text in example.values())
