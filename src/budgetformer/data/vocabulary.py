"""Trains a lower-cased WordPiece vocabulary on the user's own texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import decoders as token_decoders
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from .errors import DataError
from .unicode import well_formed

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUING = "##"
LONGEST_WORD = 100
"""Characters above which a word is [UNK] whatever the vocabulary; learning from it takes quadratic time."""
_LONG = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


def train_tokenizer(
    texts: Iterable[str],
    *,
    vocab_size: int = 30522,
    min_frequency: int = 2,
    max_length: int | None = None,
    segments: bool = False,
    progress: bool = False,
) -> PreTrainedTokenizerBase:
    """A tokenizer like BERT's uncased one with at most ``vocab_size`` tokens learned from ``texts``.

    Ids 0 to 4 are [PAD], [UNK], [CLS], [SEP] and [MASK]. The same texts give the same vocabulary, in any order.
    ``texts`` is read twice, so a list or ``loading.Texts`` but no generator. ``min_frequency``: how often two
    pieces must meet to become one. ``max_length`` is saved as the tokenizer's limit, ``segments`` that it gives
    token_type_ids. Special tokens typed in a text stay text, also where transformers alone loads the tokenizer.

    Raises:
        DataError: for a generator and for a ``vocab_size`` that does not hold the special tokens and an alphabet.
    """
    if iter(texts) is texts:
        raise DataError("texts is read twice: give a list or loading.Texts(dataset), not a generator")
    if vocab_size < 100:
        raise DataError(f"vocab_size must be at least 100, got {vocab_size}")
    tokenizer = _untrained({})
    first, continuing = _alphabet(texts, tokenizer, most=vocab_size // 4)
    # The trainer numbers the pieces of one character in the order of a hash table, and ties between pairs are
    # decided by these numbers: fixing them first, as special tokens, makes training repeatable.
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=[*SPECIAL_TOKENS, *first, *(CONTINUING + character for character in continuing)],
        initial_alphabet=first,
        limit_alphabet=len(first),
        continuing_subword_prefix=CONTINUING,
        show_progress=progress,
    )
    tokenizer.train_from_iterator(_without_long_words(texts), trainer)
    trained = _untrained(tokenizer.get_vocab(with_added_tokens=False))
    trained.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, SPECIAL_TOKENS.index(token)) for token in ("[CLS]", "[SEP]")],
    )
    limit: dict[str, Any] = {} if max_length is None else {"model_max_length": max_length}
    inputs = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=trained,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        split_special_tokens=True,
        model_input_names=inputs,
        **limit,
    )


def _untrained(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(
        models.WordPiece(
            vocab=vocabulary,
            unk_token="[UNK]",
            continuing_subword_prefix=CONTINUING,
            max_input_chars_per_word=LONGEST_WORD,
        )
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = token_decoders.WordPiece(prefix=CONTINUING)
    return tokenizer


def _without_long_words(texts: Iterable[str]) -> Iterator[str]:
    tokenizer = _untrained({})  # another one than that in training, which is locked meanwhile

    def shortened(run: re.Match[str]) -> str:
        words = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(run[0]))
        return " ".join(word for word, _ in words if len(word) <= LONGEST_WORD)

    return (_LONG.sub(shortened, well_formed(text)) for text in texts)


def _alphabet(texts: Iterable[str], tokenizer: Tokenizer, *, most: int) -> tuple[list[str], list[str]]:
    """The characters that occur after normalisation, and those of them that can stand inside a word.

    Of very many the most frequent ones, both lists together at most ``most`` tokens; in the order of code points.
    """
    raw: Counter[str] = Counter()
    for text in texts:
        raw.update(text)
    counts: Counter[str] = Counter()
    for character, n in raw.items():
        for normal in set(tokenizer.normalizer.normalize_str(well_formed(character))):
            if not normal.isspace():
                counts[normal] += n
    first: list[str] = []
    inside: list[str] = []
    for character, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        joins = len(tokenizer.pre_tokenizer.pre_tokenize_str("a" + character)) == 1
        if len(first) + len(inside) + 1 + joins > most:
            break
        first.append(character)
        if joins:
            inside.append(character)
    return sorted(first), sorted(inside)
