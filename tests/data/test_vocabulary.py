"""A vocabulary of the user's own texts, the same whenever it is trained again."""

import os
import subprocess
import sys

import pytest
from transformers import AutoTokenizer

from budgetformer.data.encoding import TextEncoder
from budgetformer.data.errors import DataError
from budgetformer.data.vocabulary import SPECIAL_TOKENS, train_tokenizer

from .tokenizers_at_hand import TEXTS

PROGRAM = (
    "import sys, hashlib; from data.tokenizers_at_hand import wordpiece\n"
    "vocabulary = sorted(wordpiece().get_vocab().items(), key=lambda item: item[1])\n"
    "print(hashlib.sha256(ascii(vocabulary).encode()).hexdigest())"
)


def test_special_tokens_come_first_and_ids_have_no_gaps():
    vocabulary = train_tokenizer(TEXTS, vocab_size=300).get_vocab()
    assert [vocabulary[token] for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    assert sorted(vocabulary.values()) == list(range(len(vocabulary)))
    assert len(vocabulary) <= 300
    assert "fox" in vocabulary


def test_the_same_texts_give_the_same_vocabulary():
    first = train_tokenizer(TEXTS, vocab_size=200).get_vocab()
    assert train_tokenizer(TEXTS, vocab_size=200).get_vocab() == first
    assert train_tokenizer(TEXTS[::-1], vocab_size=200).get_vocab() == first


@pytest.mark.slow
def test_the_same_in_another_process_with_several_threads():
    tests = os.path.dirname(os.path.dirname(__file__))
    seen = set()
    for parallel in ("true", "false"):
        environment = os.environ | {"TOKENIZERS_PARALLELISM": parallel, "PYTHONPATH": ":".join([tests, *sys.path])}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        seen.add(done.stdout)
    assert len(seen) == 1


def test_texts_are_lower_cased_and_unknown_characters_are_marked():
    tokenizer = train_tokenizer(TEXTS, vocab_size=300)
    assert tokenizer.tokenize("Quick FOX größe") == tokenizer.tokenize("quick fox grosse".replace("ss", "ß"))
    assert tokenizer.tokenize("ж") == ["[UNK]"]


def test_of_very_many_characters_the_frequent_ones_are_kept():
    characters = [chr(0x4E00 + i) for i in range(3000)]
    tokenizer = train_tokenizer([" ".join(characters), " ".join(characters[:10]) * 3], vocab_size=120)
    vocabulary = tokenizer.get_vocab()
    assert len(vocabulary) <= 120
    assert all(character in vocabulary for character in characters[:10])


def test_it_is_saved_and_loaded_as_an_ordinary_tokenizer(tmp_path):
    tokenizer = train_tokenizer(TEXTS, vocab_size=300, max_length=24, segments=True)
    tokenizer.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert loaded.model_max_length == 24
    texts = ["The [SEP] fox [CLS]", "again"]
    ours = TextEncoder(tokenizer=loaded, max_length=24, uses_segments=True).encode(texts, texts[::-1])
    theirs = loaded(texts, texts[::-1], truncation=True)
    assert ours.input_ids == theirs["input_ids"]
    assert ours.token_type_ids == theirs["token_type_ids"]


def test_odd_texts_do_not_stop_training():
    tokenizer = train_tokenizer(["", "\0", "\ud800", "a" * 5000, "fine text"] * 2, vocab_size=100)
    assert "fine" in tokenizer.get_vocab()


def test_an_endless_word_is_not_learned_from_and_takes_no_time():
    endless = "x" * 3_000_000
    tokenizer = train_tokenizer([*TEXTS, f"fine-{endless}, fine", endless], vocab_size=400)
    assert tokenizer.get_vocab() == train_tokenizer([*TEXTS, "fine-, fine"], vocab_size=400).get_vocab()
    assert tokenizer.tokenize("x" * 101) == ["[UNK]"]


def test_generators_and_tiny_sizes_are_refused():
    with pytest.raises(DataError, match="not a generator"):
        train_tokenizer(text for text in TEXTS)
    with pytest.raises(DataError, match="vocab_size"):
        train_tokenizer(TEXTS, vocab_size=20)
