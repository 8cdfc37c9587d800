"""A generated task in which the attention that an input needs is known.

An input is a row of token ids in four parts, all lengths fixed::

    markers   relation r is named (its own token) or not (one blank token), in R places, ``marker_repeats`` times
    store     every letter twice and every bracket twice, once with bit 0 and once with bit 1, shuffled
    places    K groups of (digit, coin, gap); half of the digits are 1, half of the coins are heads
    query     one token that stands in one of the K gaps and carries a number k in 0..K-1

The query has R = 4 relations to other tokens, each with an answer of one bit:

    back      the digit two places before the query                  relative position
    place     the coin of group k                                    position, asked by the query's content
    letter    the bit of the FIRST copy of letter k                  content and order
    bracket   the bit of the LAST copy of bracket k                  other content, other order

The label is the set of named relations whose answer is 1, as a number: ``Σ_r named_r · answer_r · 2^r``. All four are
asked at one token, where a head has one attention distribution: four relations want four heads, of whatever layer.

What cannot be had without attention: the bag of tokens is the same for all inputs but for the markers and k, and
half of the digits, coins, letters and brackets answer 1, so that the answers are fair coins, independent of each
other and of the bag: who only counts tokens is right ``2^-difficulty`` of the time at best. Nor does any one token in
any one place say something about an answer. So a model whose logits are a sum over tokens, such as an encoder with
zero heads, mean pooling and one linear layer, cannot bring its cross-entropy below that of chance.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray

RELATIONS = ("back", "place", "letter", "bracket")
"""The relation types, in the order of the bits of the label."""


@dataclass(frozen=True, kw_only=True)
class ControlledTask:
    """Settings of the task; the data of a task and a seed are always the same.

    Args:
        groups: K, even: groups of (digit, coin, gap), kinds of letter, kinds of bracket.
        marker_repeats: how often the markers are written. The nets that choose heads see the mean over all
            tokens, in which a marker's share is ``marker_repeats / length``.

    Raises:
        ValueError: for a setting that cannot be balanced.
    """

    groups: int = 2
    marker_repeats: int = 2

    def __post_init__(self) -> None:
        if self.groups < 2 or self.groups % 2:
            raise ValueError(f"groups must be an even number, at least 2, got {self.groups}")
        if self.marker_repeats < 1:
            raise ValueError(f"marker_repeats must be at least 1, got {self.marker_repeats}")

    @property
    def num_labels(self) -> int:
        """``2^R`` sets of relations."""
        return 2 ** len(RELATIONS)

    @property
    def length(self) -> int:
        """Tokens per input."""
        return self.places_start + 3 * self.groups

    @property
    def store_start(self) -> int:
        """Position of the first letter or bracket."""
        return len(RELATIONS) * self.marker_repeats

    @property
    def places_start(self) -> int:
        """Position of the first digit."""
        return self.store_start + 4 * self.groups

    # Token ids: 0 padding, 1 blank marker, 2 empty gap, then the kinds below one after the other.

    @property
    def name_token(self) -> int:
        """Marker of relation 0; relation r is this + r."""
        return 3

    @property
    def digit_token(self) -> int:
        """Digit 0; digit 1 is this + 1."""
        return self.name_token + len(RELATIONS)

    @property
    def coin_token(self) -> int:
        """Coin with answer 0; heads, answer 1, is this + 1."""
        return self.digit_token + 2

    @property
    def letter_token(self) -> int:
        """Letter 0 with bit 0; letter k with bit v is this + 2k + v."""
        return self.coin_token + 2

    @property
    def bracket_token(self) -> int:
        """Bracket 0 with bit 0; bracket j with bit v is this + 2j + v."""
        return self.letter_token + 2 * self.groups

    @property
    def query_token(self) -> int:
        """The query with k = 0; k is added."""
        return self.bracket_token + 2 * self.groups

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""
        return self.query_token + self.groups

    def generate(self, rows: int, *, seed: int) -> ControlledData:
        """``rows`` inputs with the difficulties 0..R as evenly as can be, in random order."""
        if rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        rng = np.random.default_rng(seed)
        every = np.arange(rows)
        difficulty = rng.permutation(every % (len(RELATIONS) + 1))
        named = _shuffled_places(rng, rows, len(RELATIONS)) < difficulty[:, None]
        ids = np.full((rows, self.length), 2, dtype=np.int64)

        markers = np.where(named, self.name_token + np.arange(len(RELATIONS)), 1)
        ids[:, : self.store_start] = np.tile(markers, self.marker_repeats)

        letters, brackets, digits, coins = (_balanced_bits(rng, rows, self.groups) for _ in range(4))
        ids[:, self.store_start : self.places_start] = self._store(rng, letters, brackets)
        ids[:, self.places_start :: 3] = self.digit_token + digits
        ids[:, self.places_start + 1 :: 3] = self.coin_token + coins

        gap, k = rng.integers(self.groups, size=(2, rows))
        ids[every, self.places_start + 3 * gap + 2] = self.query_token + k

        answers = np.stack([digits[every, gap], coins[every, k], letters[every, k], brackets[every, k]], axis=1)
        return ControlledData(
            input_ids=ids,
            attention_mask=np.ones_like(ids),
            labels=(named * answers) @ (1 << np.arange(len(RELATIONS))),
            difficulty=difficulty,
            named=named,
            answers=answers.astype(bool),
        )

    def _store(
        self, rng: np.random.Generator, letters: NDArray[np.int64], brackets: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Both copies of every letter and bracket in random places; the bits say what each answers."""
        rows, kinds = len(letters), 2 * self.groups
        copies = _shuffled_places(rng, rows, 2 * kinds).reshape(rows, kinds, 2)
        copies.sort(axis=-1)
        bit_of_first = np.concatenate([letters, 1 - brackets], axis=1)
        bits = np.stack([bit_of_first, 1 - bit_of_first], axis=-1)
        tokens = self.letter_token + 2 * np.arange(kinds)[:, None] + bits
        store = np.empty((rows, 2 * kinds), dtype=np.int64)
        np.put_along_axis(store, copies.reshape(rows, -1), tokens.reshape(rows, -1), axis=1)
        return store


@dataclass(frozen=True, kw_only=True)
class ControlledData:
    """``input_ids`` and ``attention_mask`` (rows, length), ``labels`` and ``difficulty`` (rows,),
    ``named`` and ``answers`` (rows, R) bool: which relations count, and what every relation answers, named or not."""

    input_ids: NDArray[np.int64]
    attention_mask: NDArray[np.int64]
    labels: NDArray[np.int64]
    difficulty: NDArray[np.int64]
    named: NDArray[np.bool_]
    answers: NDArray[np.bool_]

    def first(self, rows: int) -> ControlledData:
        """The first ``rows`` inputs."""
        return ControlledData(**{field.name: getattr(self, field.name)[:rows] for field in fields(self)})

    def dataset(self) -> Dataset:
        """The columns that a ``Trainer`` takes, as a data set."""
        columns = {"input_ids": self.input_ids, "attention_mask": self.attention_mask, "labels": self.labels}
        return Dataset.from_dict(columns).with_format("torch")


def _shuffled_places(rng: np.random.Generator, rows: int, count: int) -> NDArray[np.int64]:
    """A random permutation of 0..count-1 in every row."""
    return rng.random((rows, count)).argsort(axis=1)


def _balanced_bits(rng: np.random.Generator, rows: int, count: int) -> NDArray[np.int64]:
    """``count`` bits in every row, exactly half of them 1, in random order."""
    return (_shuffled_places(rng, rows, count) < count // 2).astype(np.int64)
