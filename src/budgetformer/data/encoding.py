"""From texts to token ids: one way for training, evaluation, prediction and serving alike."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Encoding, Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from .errors import DataError
from .unicode import well_formed

_PROBE = "a b c 1 2 3"


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Token ids of some texts or pairs, special tokens included, without padding.

    token_type_ids: 0 and 1 for the parts of a pair, None for a model without segments.
    truncated: tokens were cut off. empty: the text (or one of a pair) has no token of its own.
    """

    input_ids: list[list[int]]
    token_type_ids: list[list[int]] | None = None
    truncated: tuple[bool, ...] = ()
    empty: tuple[bool, ...] = ()

    def select(self, rows: Sequence[int]) -> Encoded:
        """These inputs, in this order."""
        segments = self.token_type_ids
        return Encoded(
            input_ids=[self.input_ids[i] for i in rows],
            token_type_ids=None if segments is None else [segments[i] for i in rows],
            truncated=tuple(self.truncated[i] for i in rows),
            empty=tuple(self.empty[i] for i in rows),
        )


def joined(parts: Sequence[Encoded]) -> Encoded:
    """The inputs of several encodings by one encoder, in order."""
    segments = [part.token_type_ids for part in parts]
    return Encoded(
        input_ids=[ids for part in parts for ids in part.input_ids],
        token_type_ids=None if None in segments else [types for own in segments for types in own or ()],
        truncated=tuple(cut for part in parts for cut in part.truncated),
        empty=tuple(empty for part in parts for empty in part.empty),
    )


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """What stands around one text, or around and between two: token ids and the segments of all parts."""

    before: list[int]
    between: list[int]
    after: list[int]
    segments: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)


class TextEncoder:
    """Encodes texts and pairs, cut at ``max_length`` tokens with the special ones counted.

    - The end is cut off; of a pair, the longer text loses tokens first and the second one when both are equally long.
    - What is typed in a text is text: "[SEP]" or "</s>" in it never becomes the special token of that name.
    - A text without tokens is encoded as the special tokens alone and flagged ``empty``.
    - Of a text longer than a window only as much is looked at as decides the kept tokens: their ids are those of the
      whole text. Beyond ``longest`` characters nothing is read, and the text counts as truncated.

    Safe to share between threads: nothing changes after construction.

    Args:
        tokenizer: a tokenizer of transformers with the ``tokenizers`` library behind it; it is not changed.
        max_length: most tokens of one input. uses_segments: whether to give token_type_ids.

    Raises:
        DataError: for a tokenizer or a ``max_length`` that cannot be used, a text that is no string, texts and pairs
            of different number.
    """

    def __init__(self, *, tokenizer: PreTrainedTokenizerBase, max_length: int, uses_segments: bool) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise DataError(f"{type(tokenizer).__name__} is no fast tokenizer: save it with a tokenizer.json first")
        self.max_length, self.uses_segments = max_length, uses_segments
        self.longest = max(250_000, 64 * max_length)
        self._backend: Tokenizer = Tokenizer.from_str(backend.to_str())
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = True
        self._single = _frame(self._backend, pairs=False)
        self._double = _frame(self._backend, pairs=True)
        if max_length <= len(self._double):
            raise DataError(
                f"max_length must be above {len(self._double)}, the special tokens of a pair; got {max_length}"
            )
        self._unknown = tokenizer.unk_token_id
        self._reserved = frozenset(tokenizer.all_special_ids) - {self._unknown}
        self._filler = next(
            (i for i in (tokenizer.unk_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) if i is not None), 0
        )

    def encode(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> Encoded:
        """Token ids of ``texts``, or of the pairs of ``texts`` and ``pairs``, in order."""
        _check_texts(texts, "texts")
        if pairs is None:
            return self._framed(
                [(ids,) for ids in self._tokens(texts, self.max_length - len(self._single))], self._single
            )
        _check_texts(pairs, "pairs")
        if len(texts) != len(pairs):
            raise DataError(f"texts and pairs must be equally many, got {len(texts)} and {len(pairs)}")
        if not self._double.between:
            raise DataError("this tokenizer puts nothing between the texts of a pair; use one that separates them")
        room = self.max_length - len(self._double)
        return self._framed(list(zip(self._tokens(texts, room), self._tokens(pairs, room), strict=True)), self._double)

    def _framed(self, parts: list[tuple[_Tokens, ...]], frame: _Frame) -> Encoded:
        room = self.max_length - len(frame)
        ids, types, truncated, empty = [], [], [], []
        for part in parts:
            kept = _shares([len(tokens.ids) for tokens in part], room)
            first, second = part[0].ids[: kept[0]], part[1].ids[: kept[1]] if len(part) > 1 else []
            whole = [*frame.before, *first, *frame.between, *second, *frame.after]
            sizes = (len(frame.before), len(first), len(frame.between), len(second), len(frame.after))
            ids.append(whole or [self._filler])
            types.append([s for s, n in zip(frame.segments, sizes, strict=True) for _ in range(n)] or [0])
            truncated.append(any(t.more or k < len(t.ids) for t, k in zip(part, kept, strict=True)))
            empty.append(any(not tokens.ids for tokens in part))
        return Encoded(
            input_ids=ids,
            token_type_ids=types if self.uses_segments else None,
            truncated=tuple(truncated),
            empty=tuple(empty),
        )

    def _tokens(self, texts: Sequence[str], room: int) -> list[_Tokens]:
        """At least the first ``room`` tokens of each text, as far as it has them."""
        window = min(8 * self.max_length + 512, self.longest)
        done: dict[int, _Tokens] = {}
        waiting = list(range(len(texts)))
        while waiting:
            views = [well_formed(texts[i][:window]) for i in waiting]
            again = []
            for i, encoding in zip(waiting, self._backend.encode_batch(views, add_special_tokens=False), strict=True):
                if len(texts[i]) <= window:
                    done[i] = _Tokens(ids=self._plain(encoding.ids), more=False)
                elif window == self.longest or _decided(encoding, room):
                    done[i] = _Tokens(ids=self._plain(encoding.ids[: room + 1]), more=True)
                else:
                    again.append(i)
            waiting, window = again, min(4 * window, self.longest)
        return [done[i] for i in range(len(texts))]

    def _plain(self, ids: list[int]) -> list[int]:
        """Without special tokens that the model of a tokenizer makes of typed characters."""
        if self._reserved.isdisjoint(ids):
            return ids
        if self._unknown is None:
            return [i for i in ids if i not in self._reserved]
        return [self._unknown if i in self._reserved else i for i in ids]


@dataclass(frozen=True, kw_only=True)
class _Tokens:
    ids: list[int]
    more: bool


def collate(encoded: Encoded, pad_token_id: int) -> dict[str, Tensor]:
    """Tensors padded to the longest input: input_ids, attention_mask (1 at real tokens), perhaps token_type_ids."""
    width = max(map(len, encoded.input_ids), default=0)
    batch = {
        "input_ids": _padded(encoded.input_ids, width, pad_token_id),
        "attention_mask": _padded([[1] * len(ids) for ids in encoded.input_ids], width, 0),
    }
    if encoded.token_type_ids is not None:
        batch["token_type_ids"] = _padded(encoded.token_type_ids, width, 0)
    return batch


def _padded(rows: list[list[int]], width: int, value: int) -> Tensor:
    return torch.tensor([row + [value] * (width - len(row)) for row in rows], dtype=torch.long).reshape(
        len(rows), width
    )


def _shares(lengths: list[int], room: int) -> list[int]:
    """How many tokens of each part are kept: of a pair, the longer one is cut until both are equally long."""
    if len(lengths) == 1:
        return [min(lengths[0], room)]
    first, second = lengths
    if first + second > room:
        half = room // 2
        if second <= half:
            first = room - second
        elif first <= room - half:
            second = room - first
        else:
            first, second = room - half, half
    return [first, second]


def _decided(encoding: Encoding, room: int) -> bool:
    """Whether the first ``room`` + 1 tokens of a text that goes on are final.

    Only the last word can change with what follows; a word of very many tokens is not waited for, since tokens
    do not depend on characters hundreds of tokens away.
    """
    if len(encoding.ids) >= 2 * room + 256:
        return True
    words = encoding.word_ids
    return len(words) > room + 1 and words[room] != words[-1]


def _frame(backend: Tokenizer, *, pairs: bool) -> _Frame:
    encoding = backend.encode(_PROBE, _PROBE if pairs else None)
    places = encoding.sequence_ids
    own = [i for i, place in enumerate(places) if place is not None]
    starts = [places.index(part) for part in ((0, 1) if pairs else (0,))]
    if own != sorted(own, key=lambda i: places[i] or 0) or not own:
        raise DataError("this tokenizer puts the second text before the first; it cannot be used here")
    first_end = max(i for i in own if places[i] == 0) + 1
    second_start = starts[1] if pairs else first_end
    second_end = own[-1] + 1 if pairs else first_end
    bounds = (0, starts[0], first_end, second_start, second_end, len(places))
    segments = tuple(encoding.type_ids[start] if start < end else 0 for start, end in itertools.pairwise(bounds))
    return _Frame(
        before=encoding.ids[: starts[0]],
        between=encoding.ids[first_end:second_start],
        after=encoding.ids[second_end:],
        segments=segments,
    )


def _check_texts(texts: Any, name: str) -> None:
    if isinstance(texts, str):
        raise DataError(f"{name} must be a list of texts, got a single text")
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"{name} must hold texts, got {type(text).__name__} at place {place}")
