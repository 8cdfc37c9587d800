"""Which column is the text, the pair's second text, the label: by name, never by guesswork."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import DataError
from .unicode import shown

TEXT_NAMES = ("text", "sentence", "review", "content")
PAIR_NAMES = (("premise", "hypothesis"), ("sentence1", "sentence2"))
LABEL_NAMES = ("label", "labels", "class", "category", "target", "sentiment", "gold_label")
"""Names that are taken without being asked for, upper and lower case alike, when exactly one of them is there."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Column names: ``text`` (several are joined with a line break), ``pair`` the second text, ``label``, ``id``."""

    text: tuple[str, ...] = ()
    pair: str | None = None
    label: str | None = None
    id: str | None = None

    def names(self) -> list[str]:
        """All names that are set, in order."""
        return [*self.text, *(name for name in (self.pair, self.label, self.id) if name is not None)]


def resolve_columns(
    found: Sequence[str],
    asked: Columns,
    remembered: Columns | None,
    *,
    need_label: bool,
    path: str | Path,
    header: bool = True,
) -> Columns:
    """The columns to use of those ``found`` in the file.

    Asked names win, then the names that the model remembers from its training file, then the usual names above.
    Without a header and without asked names, the text comes first and the label last (of at most two columns).
    A remembered ``text`` also says whether the model takes pairs. The label is None where it is not needed and
    not there. Raises DataError that lists needed and found columns.
    """
    remembered = remembered or Columns()
    for name in asked.names():
        if name not in found:
            raise _missing(f"there is no column {name!r}", found, path, header)
    text, pair = asked.text, asked.pair
    if not text:
        text, own_pair = _text(found, asked, remembered, path=path, header=header)
        pair = pair or own_pair
    if remembered.text and not remembered.pair and asked.pair:
        raise DataError(f"{path}: pair column {asked.pair!r} was given and the model takes single texts")
    if remembered.pair and not pair:
        if remembered.pair not in found:
            raise _missing(
                f"no second text of the pair was found (--pair-column), {remembered.pair!r}", found, path, header
            )
        pair = remembered.pair
    label = asked.label or _label(found, remembered, taken=[*text, pair], path=path, header=header, need=need_label)
    columns = Columns(text=tuple(text), pair=pair, label=label, id=asked.id)
    roles = [*columns.text, *(name for name in (columns.pair, columns.label) if name is not None)]
    repeated = [name for name in roles if roles.count(name) > 1]
    if repeated:
        raise DataError(f"{path}: column {repeated[0]!r} is given twice; text, pair and label are different columns")
    return columns


def _text(
    found: Sequence[str], asked: Columns, remembered: Columns, *, path: str | Path, header: bool
) -> tuple[tuple[str, ...], str | None]:
    if remembered.text and all(name in found for name in remembered.text):
        return remembered.text, None
    if not header and len(found) <= 2 and not remembered.pair and asked.pair is None:
        return (found[0],), None
    free = [name for name in found if name not in (asked.label, asked.pair, asked.id)]
    singles = _usual(TEXT_NAMES, free)
    pairs = [names for names in (_usual_pair(pair, free) for pair in PAIR_NAMES) if names]
    if remembered.text and not remembered.pair:
        pairs = []
    if remembered.pair:
        singles = []
    if asked.pair is None and len(pairs) == 1 and not singles:
        return (pairs[0][0],), pairs[0][1]
    if asked.pair is not None and not singles:
        singles = [name for names in PAIR_NAMES for name in _usual(names[:1], free)]
    if len(singles) + (len(pairs) if asked.pair is None else 0) > 1:
        candidates = ", ".join(singles + [" + ".join(pair) for pair in pairs])
        raise DataError(f"{path}: which column is the text: {candidates}? Choose it with --text-column")
    if singles:
        return (singles[0],), None
    if remembered.pair and len(remembered.text) == 1 and not header and len(found) in (2, 3):
        return (found[0],), found[1]
    needed = " and ".join(repr(name) for name in remembered.text)
    raise _missing(f"no text was found (--text-column){', ' + needed if needed else ''}", found, path, header)


def _label(
    found: Sequence[str],
    remembered: Columns,
    *,
    taken: Sequence[str | None],
    path: str | Path,
    header: bool,
    need: bool,
) -> str | None:
    free = [name for name in found if name not in taken]
    if remembered.label in free:
        return remembered.label
    if not header and len(free) == 1:
        return free[0]
    candidates = _usual(LABEL_NAMES, free)
    if len(candidates) == 1:
        return candidates[0]
    if not need:
        return None
    if candidates:
        raise DataError(f"{path}: which column is the label: {', '.join(candidates)}? Choose it with --label-column")
    needed = f", {remembered.label!r}" if remembered.label else ""
    raise _missing(f"no label was found (--label-column){needed}", found, path, header)


def _usual(names: Sequence[str], found: Sequence[str]) -> list[str]:
    return [name for name in found if name.strip().lower() in names]


def _usual_pair(pair: tuple[str, str], found: Sequence[str]) -> tuple[str, str] | None:
    first, second = _usual(pair[:1], found), _usual(pair[1:], found)
    return (first[0], second[0]) if len(first) == len(second) == 1 else None


def _missing(what: str, found: Sequence[str], path: str | Path, header: bool) -> DataError:
    names = ", ".join(shown(name if len(name) <= 60 else name[:57] + "...") for name in found[:20])
    more = f" and {len(found) - 20} more" if len(found) > 20 else ""
    advice = "name the columns"
    if header:
        advice += ", or say --no-header if the first line is a record"
    only = found[0] if len(found) == 1 else ""
    separator = next((mark for mark in (";", "\t", ",", "|") if mark in only), None)
    if separator:
        advice = f"or is it --delimiter {separator!r}? Else {advice}"
    return DataError(f"{path}: {what}; the file has: {names}{more}; {advice}")
