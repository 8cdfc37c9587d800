"""A source model in memory: configuration, weights, labels and tokenizer, all checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoTokenizer
from transformers.utils import logging

from ..model_folder import check_vocabulary
from ..pretrained import check_finite
from ..reporting.origin import Origin
from .families import family_of, is_classifier
from .family import Family
from .opening import LONGEST, Place, check_vocabulary_files, open_source


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source model: where it lies, its family, its configuration, its weights and its tokenizer.

    ``state`` has the names of the source's class; ``other_heads`` names the tensors of the file that this class does
    not have, such as those of a language model's head.
    """

    place: Place
    family: Family
    config: Any
    classifier: bool
    state: dict[str, Tensor]
    tokenizer: Any
    other_heads: tuple[str, ...]

    @property
    def origin(self) -> Origin:
        """What a card says of it."""
        return Origin(
            title=self.place.title,
            on_hub=not self.place.is_folder,
            licence=self.place.licence(),
            family=self.family.name,
            model_type=self.family.model_type,
            classifier=self.classifier,
        )

    @property
    def notes(self) -> list[str]:
        """What of it is not taken along."""
        notes = []
        if self.place.left_out:
            named = ", ".join(self.place.left_out)
            notes.append(f"left out, of sentence-transformers: {named}; what is classified is read before it")
        if self.other_heads:
            more = ", …" if len(self.other_heads) > 3 else ""
            notes.append(f"left out, of another head: {', '.join(self.other_heads[:3])}{more}")
        return notes

    @property
    def max_length(self) -> int | None:
        """Tokens that the source cuts its texts to; None when only its positions end."""
        limits = [self.place.max_length, self.tokenizer.model_max_length]
        return min((int(n) for n in limits if n is not None and n < LONGEST), default=None)


def load_source(model: str, *, tokenizer: bool = True) -> Source:
    """Load a source whole, in float32. Raises ValueError in one line that says what is wrong and what works."""
    place = open_source(model)
    family = family_of(place.config, name=place.name)
    classifier = is_classifier(place.config)
    if classifier:
        _check_task(place)
    check_vocabulary_files(place)
    with quietly():
        state, config, other = _weights(place, family, classifier=classifier)
        found = _tokenizer(place, config)
    return Source(
        place=place,
        family=family,
        config=config,
        classifier=classifier,
        state=state,
        tokenizer=found,
        other_heads=other,
    )


def _check_task(place: Place) -> None:
    """Refuse classifiers whose scores are no choice among classes."""
    kind = place.config.get("problem_type")
    names = place.config.get("id2label")
    single = len(names) == 1 if names else place.config.get("num_labels") == 1
    if kind in ("regression", "multi_label_classification") or single:
        what = "one output, a regression" if single else f"the problem type {kind!r}"
        raise ValueError(f"{place.name} has {what}; what works are classifiers that choose one of two or more classes")


def _weights(place: Place, family: Family, *, classifier: bool) -> tuple[dict[str, Tensor], Any, tuple[str, ...]]:
    kind = getattr(transformers, family.classifier_class if classifier else family.encoder_class)
    try:
        config = CONFIG_MAPPING[family.model_type].from_dict(place.config)
        model, info = kind.from_pretrained(
            place.name,
            config=config,
            dtype=torch.float32,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **place.arguments,
        )
    except Exception as problem:  # a damaged file or configuration can fail anywhere in the reading
        line = " ".join(str(problem).split())
        raise ValueError(f"{place.name} cannot be read ({type(problem).__name__}: {line[:300]})") from problem
    state = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    children = [name for name, _ in model.base_model.named_children()]
    inside = tuple(f"{start}{name}." for start in ("", family.prefix) for name in children)
    unknown = {
        name for name in info["unexpected_keys"] if name.startswith(inside) and not name.endswith("position_ids")
    }
    missing = set(info["missing_keys"])
    pooler = {name for name in missing if name.startswith("pooler.")} if not classifier else set()
    wrong = {str(key[0] if isinstance(key, tuple) else key) for key in info["mismatched_keys"]}
    problems = [
        f"{what}: {', '.join(sorted(names)[:8])}"
        for what, names in (
            ("missing", missing - pooler),
            ("unknown", unknown),
            ("of another shape than config.json says", wrong),
        )
        if names
    ]
    if problems:
        raise ValueError(f"{place.name}: the weights do not fit the configuration; tensors {'; '.join(problems)}")
    check_finite(place.name, model)
    other = tuple(sorted(set(info["unexpected_keys"]) - unknown))
    return {name: tensor for name, tensor in state.items() if name not in pooler}, model.config, other


def _tokenizer(place: Place, config: Any) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(place.name, **place.arguments)
    except Exception as problem:  # a damaged file can fail anywhere in the reading
        line = " ".join(str(problem).split())
        raise ValueError(f"{place.name}: the tokenizer cannot be read ({line[:300]})") from problem
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise ValueError(f"{place.name}: {type(tokenizer).__name__} is no fast tokenizer: it needs a tokenizer.json")
    try:
        check_vocabulary(tokenizer, config)
    except ValueError as problem:
        raise ValueError(f"{place.name}: {problem}") from problem
    return tokenizer


@contextmanager
def quietly() -> Iterator[None]:
    """Keep the reports and progress bars of ``transformers`` back: what matters is checked and said here."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
