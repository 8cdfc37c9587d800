"""Class names and gold labels: what is a class, what is no label, and in which order classes stand."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets

from ..configuration import IGNORED
from .errors import DataError
from .storage import BATCH_ROWS, write_dataset
from .unicode import is_blank

KEEP = "keep"
MOST_CLASSES = 10_000
RARE = 5
_ITERATION_ROWS = 10_000


@dataclass(frozen=True, kw_only=True)
class Classes:
    """The classes of a training set: ``names`` in their order, ``counts`` of rows, what stands for "no label".

    ``markers`` are spellings that mean "no label" here (an empty cell always does); ``unlabelled`` rows have one.
    ``notes`` are sentences for the user about things that may be mistakes.
    """

    names: tuple[str, ...]
    counts: Mapping[str, int]
    markers: frozenset[str]
    unlabelled: int
    notes: tuple[str, ...]


def is_unlabelled(label: str | None, markers: Iterable[str] = ("-",)) -> bool:
    """No label: null, nothing to be seen, or one of ``markers``."""
    return label is None or is_blank(label) or label in markers


def unlabelled_markers(values: Iterable[str], setting: str | Sequence[str] | None = None) -> frozenset[str]:
    """Which spellings mean "no label", given all label ``values`` that occur (or the classes of a trained model).

    setting None: "-", and "-1" when all other values are whole numbers of at least 0. "keep": none of them, both are
    classes. A list: these spellings and no others. Empty cells and null never are a class.
    """
    if setting == KEEP:
        return frozenset()
    if setting is not None:
        if isinstance(setting, str):
            raise DataError(f"unlabelled must be {KEEP!r} or a list of spellings, got {setting!r}")
        return frozenset(setting)
    numbers = {value: _number(value) for value in values if not is_unlabelled(value)}
    others = [number for number in numbers.values() if number != -1]
    minus_one = [value for value, number in numbers.items() if number == -1]
    if others and all(number is not None and number >= 0 and number.is_integer() for number in others):
        return frozenset(["-", "-1", "-1.0", *minus_one])
    return frozenset(["-"])


def model_markers(names: Sequence[str], setting: str | Sequence[str] | None = None) -> frozenset[str]:
    """Which spellings mean "no label" for a model with the classes ``names``: never one of these.

    Raises DataError for a ``setting`` that names one of them.
    """
    taken = [] if setting is None or setting == KEEP else sorted(unlabelled_markers(names, setting) & set(names))
    if taken:
        raise DataError(f"--unlabelled {_short(taken[0])} is a class of the model, so it cannot mean 'no label'")
    if any(_number(name) == -1 for name in names):
        return frozenset(["-"] if setting is None else unlabelled_markers(names, setting)) - frozenset(names)
    return unlabelled_markers([*names, "-1"], setting) - frozenset(names)


def label_counts(data: Iterable[datasets.Dataset]) -> Counter[str | None]:
    """How many rows have each label, as spelled in the files; None for null. Refuses a column that is no label."""
    counts: Counter[str | None] = Counter()
    for dataset in data:
        for batch in dataset.select_columns("label").iter(batch_size=_ITERATION_ROWS):
            counts.update(batch["label"])
            if len(counts) > MOST_CLASSES:
                raise DataError(
                    f"the label column has more than {MOST_CLASSES} different values, "
                    f"such as {_short(batch['label'][0])}: is it the label? Choose it with --label-column"
                )
    return counts


def find_classes(
    train: datasets.Dataset, *, unlabelled: str | Sequence[str] | None = None, order: Sequence[str] | None = None
) -> Classes:
    """The classes of a training set: its distinct labels, by value when all are numbers, else by code point.

    ``order`` gives names and order of a set whose classes are known. Raises DataError for fewer than two classes.
    """
    counts = label_counts([train])
    markers = unlabelled_markers([value for value in counts if value is not None], unlabelled)
    if order is not None:
        markers -= frozenset(order)
    present = {value: n for value, n in counts.items() if value is not None and not is_unlabelled(value, markers)}
    names = tuple(order) if order is not None else tuple(_sorted(present))
    unknown = [name for name in present if name not in names]
    assert not unknown, f"labels outside the known classes: {unknown}"
    if not present:
        raise DataError("no row of the training data has a label: check the label column (--label-column)")
    if len(present) < 2:
        left_out = sorted(value for value in counts if value is not None and value in markers)
        raise DataError(
            f"all {sum(present.values())} labelled training rows have the label {_short(next(iter(present)))}: "
            "a classifier needs at least two classes"
            + (
                f"; {', '.join(map(_short, left_out))} was taken as without label, --unlabelled keep makes it a class"
                if left_out
                else ""
            )
        )
    return Classes(
        names=names,
        counts={name: present.get(name, 0) for name in names},
        markers=markers,
        unlabelled=sum(counts.values()) - sum(present.values()),
        notes=(*_notes(names, present, markers, counts), *_unused(unlabelled, counts)),
    )


def check_classes(
    train: datasets.Dataset,
    names: Sequence[str],
    *,
    unlabelled: str | Sequence[str] | None = None,
    source: str | Path,
) -> None:
    """Refuse training rows that do not have exactly the classes ``names`` of a model.

    Raises DataError naming labels that are none of them, or classes without a row.
    """
    markers = model_markers(names, unlabelled)
    counts = label_counts([train])
    present = {value: n for value, n in counts.items() if value is not None and not is_unlabelled(value, markers)}
    unknown = Counter({value: n for value, n in present.items() if value not in names})
    if unknown:
        raise DataError(_unknown(unknown, names, source))
    absent = [_short(name) for name in names if name not in present]
    if absent and present:
        shown = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
        raise DataError(
            f"{source} has rows of {len(present)} of the classifier's {len(names)} classes, none of {shown}: it would "
            "unlearn the others; add rows of every class"
        )


def encode_labels(
    dataset: datasets.Dataset,
    names: Sequence[str],
    markers: Iterable[str] = ("-",),
    *,
    source: str | Path,
    folder: str | Path | None = None,
) -> datasets.Dataset:
    """The data set with ``label`` as the index in ``names``, ``IGNORED`` where there is no label.

    It is written anew to ``folder`` (default: a temporary one). Raises DataError naming the label, the number of
    rows and ``source`` when a label is none of the classes.
    """
    known = {name: index for index, name in enumerate(names)}
    unknown: Counter[str] = Counter()
    ignored = frozenset(markers)

    def batches() -> Iterator[dict[str, list[Any]]]:
        for batch in dataset.iter(batch_size=BATCH_ROWS):
            labels = batch["label"]
            unknown.update(label for label in labels if label not in known and not is_unlabelled(label, ignored))
            yield {**batch, "label": [known.get(label, IGNORED) for label in labels]}
        if unknown:
            raise DataError(_unknown(unknown, names, source))

    columns = datasets.Features({**dataset.features, "label": datasets.Value("int64")})
    return write_dataset(batches(), columns, folder=folder)


def _unknown(unknown: Counter[str], names: Sequence[str], source: str | Path) -> str:
    shown = ", ".join(f"{_short(label)} ({n} row{'s' * (n > 1)})" for label, n in unknown.most_common(5))
    more = f" and {len(unknown) - 5} more labels" if len(unknown) > 5 else ""
    known = ", ".join(_short(name) for name in names[:20]) + (", ..." if len(names) > 20 else "")
    folded = {name.casefold(): name for name in names}
    meant = next((folded[label.casefold()] for label in unknown if label.casefold() in folded), None)
    hint = "" if meant is None else f" (capital and small letters differ: did you mean {_short(meant)}?)"
    said = f"label {shown}{more} is" if len(unknown) == 1 else f"labels {shown}{more} are"
    return (
        f"{source}: {said} none of the classes {known}{hint}; "
        "correct or remove these rows, or give --unlabelled with the spelling that means no label"
    )


def _sorted(labels: Iterable[str]) -> list[str]:
    labels = sorted(labels)
    numbers = {label: _number(label) for label in labels}
    if all(number is not None for number in numbers.values()):
        return sorted(labels, key=lambda label: (numbers[label] or 0.0, label))
    return labels


def _number(label: str) -> float | None:
    try:
        number = float(label)
    except ValueError:
        return None
    return number if number == number and abs(number) != float("inf") else None


def _notes(
    names: Sequence[str], present: Mapping[str, int], markers: frozenset[str], counts: Counter[str | None]
) -> Iterable[str]:
    minus_one = sum(n for value, n in counts.items() if value in markers and _number(value or "") == -1)
    if minus_one:
        yield (
            f"{minus_one} row{'s' * (minus_one > 1)} with the label -1 taken as without label, since all other labels "
            "are whole numbers of at least 0; --unlabelled keep makes -1 a class"
        )
    alike: dict[object, list[str]] = {}
    for name in names:
        number = _number(name)
        key = _seen(name) if number is None else number
        alike.setdefault(key, []).append(name)
    for group in alike.values():
        if len(group) > 1:
            yield f"the labels {', '.join(_short(name) for name in group)} are different classes though they look alike"
    rare = [f"{_short(name)} ({present.get(name, 0)})" for name in names if present.get(name, 0) < RARE]
    if rare:
        shown = ", ".join(rare[:10]) + (", ..." if len(rare) > 10 else "")
        yield f"classes with fewer than {RARE} training rows can hardly be learned: {shown}"


def _unused(unlabelled: str | Sequence[str] | None, counts: Counter[str | None]) -> Iterable[str]:
    for spelling in () if unlabelled is None or unlabelled == KEEP else unlabelled:
        if spelling not in counts and not is_blank(spelling):
            yield f"no training row has the label {_short(spelling)}, which --unlabelled says means none"


def _seen(label: str) -> str:
    """What is left to the eye: without invisible characters, case and compatible forms alike."""
    visible = "".join(c for c in unicodedata.normalize("NFKC", label) if unicodedata.category(c) != "Cf")
    return " ".join(visible.casefold().split())


def _short(label: str | None) -> str:
    return repr(label if label is None or len(label) <= 60 else label[:57] + "...")
