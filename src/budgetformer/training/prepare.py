"""From the settings to encoded data: columns, rows, classes, tokenizer, splits, with every count said aloud."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from ..configuration import IGNORED
from ..data.columns import Columns, resolve_columns
from ..data.encoded_dataset import EncodedDataset, encode_dataset
from ..data.encoding import TextEncoder
from ..data.errors import DataError
from ..data.files import column_names
from ..data.identity import file_identity
from ..data.labels import check_classes, encode_labels, find_classes
from ..data.loading import Texts, load
from ..data.registry import is_named, load_named
from ..data.splits import count_repeats, split_validation
from ..data.vocabulary import train_tokenizer
from .settings import VALIDATION_FRACTION, TrainingSettings
from .start import Start

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class PreparedData:
    """What training needs of the data; ``counts`` are the figures that were said, ``files`` what was read."""

    columns: Columns
    class_names: tuple[str, ...]
    class_counts: dict[str, int]
    tokenizer: PreTrainedTokenizerBase
    train: datasets.Dataset
    validation: datasets.Dataset
    validation_texts: datasets.Dataset
    counts: dict[str, int]
    fingerprint: str
    files: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class _Texts:
    train: datasets.Dataset
    validation: datasets.Dataset | None
    columns: Columns
    class_names: tuple[str, ...] | None
    sources: tuple[str, str]


def prepare(settings: TrainingSettings, say: Say, start: Start | None = None) -> PreparedData:
    """Read, check, split and encode. Raises DataError with the file, row and value before any training.

    With a ``start`` its tokenizer is used, and its classes where it has some.
    """
    texts = _read(settings, say)
    known = start.classes if start is not None else None
    if known is not None:
        check_classes(texts.train, known, unlabelled=settings.unlabelled, source=texts.sources[0])
    classes = find_classes(texts.train, unlabelled=settings.unlabelled, order=known or texts.class_names)
    labelled = sum(classes.counts.values())
    if labelled >= 10 and len(classes.names) == labelled:
        raise DataError(
            f"{texts.sources[0]}: {labelled:,} classes in {labelled:,} rows: is {texts.columns.label!r} the label? "
            "Choose another column with --label-column"
        )
    say(f"{len(texts.train):,} rows read for training, {len(classes.names)} classes")
    if classes.unlabelled:
        say(f"{_rows(classes.unlabelled)} without label skipped")
    for note in classes.notes:
        say(f"note: {note}")
    train = _labelled(encode_labels(texts.train, classes.names, classes.markers, source=texts.sources[0]))
    if texts.validation is None:
        split = split_validation(train, fraction=settings.validation_fraction, seed=settings.seed)
        train, validation = split.train, split.validation
        say(f"{_rows(len(validation))} set aside for validation (stratified, seed {settings.seed})")
    else:
        if settings.validation is None and settings.validation_fraction != VALIDATION_FRACTION:
            raise ValueError(
                f"validation_fraction has no effect: {settings.train} brings rows for validation; leave it out"
            )
        named = encode_labels(texts.validation, classes.names, classes.markers, source=texts.sources[1])
        validation = _labelled(named)
        say(f"{len(validation):,} rows for validation" + _skipped(len(named) - len(validation)))
        if not len(validation):
            raise DataError(f"{texts.sources[1]}: no row has a label, so nothing can be validated")
    for sentence in count_repeats({"training": train, "validation": validation}).sentences():
        say(f"note: {sentence}")
    if start is None:
        tokenizer = _tokenizer(settings, train, pairs=texts.columns.pair is not None, say=say)
        segments = texts.columns.pair is not None and settings.config.get("type_vocab_size", 2) > 1
    else:
        tokenizer, segments = start.tokenizer, start.segments
        tokenizer.model_max_length = settings.max_length
    encoder = TextEncoder(
        tokenizer=tokenizer,
        max_length=settings.max_length,
        uses_segments=segments,
    )
    encoded = encode_dataset(train, encoder, progress=not settings.quiet)
    encoded_validation = encode_dataset(validation, encoder, progress=not settings.quiet)
    _say_encoding("training", encoded, settings.max_length, say)
    _say_encoding("validation", encoded_validation, settings.max_length, say)
    labels = np.asarray(encoded.dataset.with_format("numpy")["label"])
    return PreparedData(
        columns=texts.columns,
        class_names=classes.names,
        class_counts={name: int((labels == i).sum()) for i, name in enumerate(classes.names)},
        tokenizer=tokenizer,
        train=encoded.dataset.rename_column("label", "labels"),
        validation=encoded_validation.dataset.rename_column("label", "labels"),
        validation_texts=validation,
        counts={
            "train_rows": len(train),
            "validation_rows": len(validation),
            "rows_without_label": classes.unlabelled,
            "truncated": encoded.truncated,
            "without_tokens": encoded.empty,
        },
        fingerprint=_fingerprint(encoded.dataset),
        files=_files(settings),
    )


def _files(settings: TrainingSettings) -> list[dict[str, Any]]:
    """The files that were read, so that a later measurement on the same rows can say so."""
    trained = [settings.train] if isinstance(settings.train, str | Path) else list(settings.train)
    named = len(trained) == 1 and isinstance(trained[0], str) and is_named(trained[0])
    roles = [("train", path) for path in ([] if named else trained)]
    roles += [("validation", settings.validation)] if settings.validation is not None else []
    return [{"role": role} | file_identity(path) for role, path in roles]


def _read(settings: TrainingSettings, say: Say) -> _Texts:
    asked = Columns(text=tuple(settings.text_column), pair=settings.pair_column, label=settings.label_column)
    progress = not settings.quiet
    if isinstance(settings.train, str) and is_named(settings.train):
        if asked.names():
            raise DataError(f"{settings.train} is a data set with known columns: leave the column options out")
        train = load_named(settings.train, "train", folder=settings.data_folder, progress=progress)
        assert train is not None
        say(f"{settings.train}: {train.origin}. {train.licence}")
        if settings.validation is None:
            named = load_named(settings.train, "validation", folder=settings.data_folder, progress=progress)
            validation = None if named is None else named.dataset
        else:
            validation = load_file(settings.validation, train.columns, settings, need_label=True)
        return _Texts(
            train=train.dataset,
            validation=validation,
            columns=train.columns,
            class_names=train.class_names,
            sources=(f"{settings.train} train", str(settings.validation or f"{settings.train} validation")),
        )
    files = [settings.train] if isinstance(settings.train, str | Path) else list(settings.train)
    if not files:
        raise DataError("train: give at least one file")
    columns = resolve_columns(
        column_names(files[0], settings.reading),
        asked,
        None,
        need_label=True,
        path=files[0],
        header=settings.reading.header,
    )
    data = load(files, columns, settings.reading, progress=progress)
    validation = None
    if settings.validation is not None:
        validation = load_file(settings.validation, columns, settings, need_label=True)
    return _Texts(
        train=data,
        validation=validation,
        columns=columns,
        class_names=None,
        sources=(", ".join(map(str, files)), str(settings.validation)),
    )


def load_file(path: str | Path, columns: Columns, settings: TrainingSettings, *, need_label: bool) -> datasets.Dataset:
    """A further file with the columns of the training file."""
    found = column_names(path, settings.reading)
    own = resolve_columns(found, Columns(), columns, need_label=need_label, path=path, header=settings.reading.header)
    return load(path, own, settings.reading, progress=not settings.quiet)


def _labelled(dataset: datasets.Dataset) -> datasets.Dataset:
    labels = np.asarray(dataset.with_format("numpy")["label"])
    return dataset if (labels != IGNORED).all() else dataset.select(np.flatnonzero(labels != IGNORED))


def _tokenizer(
    settings: TrainingSettings, train: datasets.Dataset, *, pairs: bool, say: Say
) -> PreTrainedTokenizerBase:
    if settings.tokenizer is not None:
        is_folder = Path(settings.tokenizer).exists()
        name, _, commit = (settings.tokenizer, "", "") if is_folder else settings.tokenizer.partition("@")
        try:
            tokenizer = AutoTokenizer.from_pretrained(name, revision=commit or "main")
        except (OSError, ValueError, KeyError) as error:
            said = " ".join(str(error).split())
            raise DataError(f"tokenizer {settings.tokenizer!r} cannot be loaded: {said[:300]}") from error
        if tokenizer.pad_token_id is None:
            raise DataError(f"tokenizer {settings.tokenizer!r} has no padding token; batches need one")
        tokenizer.model_max_length = settings.max_length
        return tokenizer
    tokenizer = train_tokenizer(
        Texts(train), vocab_size=settings.vocab_size, max_length=settings.max_length, segments=pairs
    )
    say(f"{len(tokenizer):,} word pieces learned from the training part")
    return tokenizer


def _fingerprint(dataset: datasets.Dataset) -> str:
    """A digest of all token ids and labels, in order."""
    digest = hashlib.sha256()
    for batch in dataset.with_format("arrow").iter(batch_size=10_000):
        for name in ("length", "label", "input_ids"):
            column = batch[name].combine_chunks()
            values = column.flatten() if name == "input_ids" else column
            digest.update(values.to_numpy(zero_copy_only=False).tobytes())
    return digest.hexdigest()[:16]


def _say_encoding(part: str, encoded: EncodedDataset, limit: int, say: Say) -> None:
    if encoded.truncated:
        say(f"{encoded.truncated:,} of {len(encoded.dataset):,} {part} texts cut to {limit} tokens")
    if encoded.empty:
        say(f"note: {encoded.empty:,} {part} text{'s have' if encoded.empty > 1 else ' has'} no tokens")


def _skipped(rows: int) -> str:
    return f", {_rows(rows)} without label skipped" if rows else ""


def _rows(number: int) -> str:
    return f"{number:,} row{'s' * (number != 1)}"
