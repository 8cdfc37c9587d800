"""One way from text to token ids, within the limit, with nothing typed acting as structure."""

import functools
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from budgetformer.data.encoding import Encoded, TextEncoder, collate
from budgetformer.data.errors import DataError

from .tokenizers_at_hand import FAMILIES


@functools.cache
def tokenizer(family):
    return FAMILIES[family]()


def encoder(family="wordpiece", max_length=16, segments=True) -> TextEncoder:
    return TextEncoder(tokenizer=tokenizer(family), max_length=max_length, uses_segments=segments)


@functools.cache
def bare(family) -> Tokenizer:
    backend = Tokenizer.from_str(tokenizer(family).backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    return backend


each_family = pytest.mark.parametrize("family", FAMILIES)


class TestLimit:
    @each_family
    def test_texts_around_the_limit_in_one_batch(self, family):
        limit = 32
        counts = [limit - 3, limit - 2, limit - 1, limit, limit + 1, 10 * limit]
        one = encoder(family, limit)
        word = "a " if family != "byte_level" else "aa"
        full = [len(bare(family).encode((word * n).strip()).ids) for n in counts]
        encoded = one.encode([(word * n).strip() for n in counts])
        assert [len(ids) for ids in encoded.input_ids] == [min(n, limit) for n in full]
        assert list(encoded.truncated) == [n > limit for n in full]

    @each_family
    def test_a_long_text_is_encoded_like_the_same_text_cut_by_hand(self, family):
        one = encoder(family, 16)
        long = one.encode(["dog " * 500])
        by_hand = one.encode(["dog " * next(n for n in range(1, 99) if one.encode(["dog " * n]).truncated[0])])
        assert long.input_ids == by_hand.input_ids
        assert long.truncated == (True,)
        special = {one._single.before[0], one._single.after[0]}
        assert long.input_ids[0][-1] in special

    @each_family
    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def test_looking_at_a_part_gives_the_ids_of_the_whole(self, family, data):
        pieces = st.sampled_from(
            ["word", " ", "  \n", "x" * 130, ",", "é", "e\u0301", "北京", "\u200b", "a1b2", "Σ", "[SEP]"]
        )
        fragments = data.draw(st.lists(pieces, min_size=1, max_size=20))
        text = "".join(fragment * data.draw(st.integers(1, 90)) for fragment in fragments)
        limit = data.draw(st.integers(6, 40))
        one = encoder(family, limit)
        whole = bare(family).encode(text, add_special_tokens=False).ids
        room = limit - len(one._single)
        [ids] = one.encode([text]).input_ids
        reserved = set(tokenizer(family).all_special_ids)
        kept = [i if i not in reserved else tokenizer(family).unk_token_id for i in whole[:room]]
        assert ids == [*one._single.before, *kept, *one._single.after]
        assert one.encode([text]).truncated == (len(whole) > room,)

    @pytest.mark.parametrize(
        ("first", "second", "kept"),
        [(3, 3, (3, 3)), (50, 3, (10, 3)), (3, 50, (3, 10)), (50, 50, (7, 6)), (7, 7, (7, 6))],
    )
    def test_of_a_pair_the_longer_text_is_cut(self, first, second, kept):
        encoded = encoder(max_length=16).encode(["a " * first], ["b " * second])
        [ids], [types] = encoded.input_ids, encoded.token_type_ids
        assert len(ids) <= 16
        assert types == [0] * (kept[0] + 2) + [1] * (kept[1] + 1)
        assert encoded.truncated == (kept != (first, second),)

    @pytest.mark.parametrize(
        "text", ["a" * 5_000_000, " " * 5_000_000, "a," * 2_000_000, "word " * 1_000_000, "好" * 2_000_000]
    )
    @each_family
    def test_absurdly_long_texts_cost_little(self, family, text):
        one = encoder(family, 64)
        start = time.perf_counter()
        encoded = one.encode([text])
        assert time.perf_counter() - start < 5
        assert len(encoded.input_ids[0]) <= 64
        assert encoded.truncated == (True,)

    def test_a_limit_without_room_for_text_is_refused(self):
        for limit in (0, 3, -5):
            with pytest.raises(DataError, match="max_length must be above 3"):
                encoder(max_length=limit)
        assert len(encoder(max_length=4).encode(["a b c"], ["d"]).input_ids[0]) == 4


class TestStructure:
    @each_family
    def test_typed_special_tokens_are_text(self, family):
        unknown = tokenizer(family).unk_token_id
        reserved = set(tokenizer(family).all_special_ids) - {unknown}
        names = tokenizer(family).all_special_tokens
        texts = [f"a {name} b{name}" for name in names] + names
        one = encoder(family, 64)
        for encoded, frame in ((one.encode(texts), one._single), (one.encode(texts, texts[::-1]), one._double)):
            for ids in encoded.input_ids:
                assert [i for i in ids if i in reserved] == [*frame.before, *frame.between, *frame.after]

    def test_a_pair_is_not_two_texts_and_has_its_segments(self):
        one = encoder()
        pair, singles = one.encode(["a"], ["b"]), one.encode(["a", "b"])
        assert (len(pair.input_ids), len(singles.input_ids)) == (1, 2)
        assert pair.token_type_ids == [[0, 0, 0, 1, 1]]
        assert singles.token_type_ids == [[0, 0, 0]] * 2
        assert pair.input_ids != one.encode(["b"], ["a"]).input_ids != one.encode(["b"], ["c"]).input_ids

    @each_family
    def test_models_without_segments_get_none(self, family):
        encoded = encoder(family, segments=False).encode(["a"], ["b"])
        assert encoded.token_type_ids is None
        assert "token_type_ids" not in collate(encoded, 0)

    @each_family
    def test_the_tokenizer_that_was_given_is_left_alone(self, family):
        before = tokenizer(family).backend_tokenizer.to_str()
        encoder(family).encode(["a b c"], ["d"])
        assert tokenizer(family).backend_tokenizer.to_str() == before

    @each_family
    def test_short_texts_are_encoded_as_transformers_does(self, family):
        texts = ["The quick brown fox.", "Größe 12, naïve (café)!"]
        expected = tokenizer(family)(texts, padding=False, truncation=False)["input_ids"]
        assert encoder(family, 200).encode(texts).input_ids == expected
        pairs = tokenizer(family)(texts, texts[::-1], padding=False, truncation=False)["input_ids"]
        assert encoder(family, 200).encode(texts, texts[::-1]).input_ids == pairs

    def test_a_tokenizer_without_separator_takes_no_pairs(self):
        plain = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0, "u": 1}, unk_token="u")))
        one = TextEncoder(tokenizer=plain, max_length=8, uses_segments=False)
        with pytest.raises(DataError, match="nothing between the texts of a pair"):
            one.encode(["a"], ["a"])


class TestOddTexts:
    @pytest.mark.parametrize("text", ["", "   ", "\u200b\u200b", "\n\t", "\0", "\ufeff"])
    @pytest.mark.parametrize("family", ["wordpiece", "minilm"])
    def test_a_text_without_tokens_is_flagged_and_still_has_ids(self, family, text):
        encoded = encoder(family).encode(["good", text, "bad"])
        assert encoded.empty == (False, True, False)
        assert len(encoded.input_ids[1]) == 2
        assert encoder(family).encode(["a", text], [text, "b"]).empty == (True, True)

    def test_a_tokenizer_without_special_tokens_still_gives_an_id(self):
        plain = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer(WordLevel({"a": 0, "u": 1}, unk_token="u")), unk_token="u"
        )
        encoded = TextEncoder(tokenizer=plain, max_length=8, uses_segments=True).encode(["", "a"])
        assert encoded == Encoded(
            input_ids=[[1], [0]], token_type_ids=[[0], [0]], truncated=(False, False), empty=(True, False)
        )

    @each_family
    @settings(max_examples=100, deadline=None)
    @given(texts=st.lists(st.text() | st.text("\ud800\udfff\0\u200d\ufe0fa "), max_size=4))
    def test_no_text_crashes(self, family, texts):
        encoded = encoder(family).encode(texts)
        assert len(encoded.input_ids) == len(texts)
        assert all(1 <= len(ids) <= 16 for ids in encoded.input_ids)

    @each_family
    def test_nothing_gives_nothing(self, family):
        assert encoder(family).encode([]).input_ids == []

    def test_mistakes_in_the_call_are_named(self):
        for arguments, said in [
            (("a single text",), "got a single text"),
            ((["a", None],), "got NoneType at place 1"),
            ((["a", "b"], ["c"]), "got 2 and 1"),
            ((["a"], [3]), "pairs must hold texts, got int"),
        ]:
            with pytest.raises(DataError, match=said):
                encoder().encode(*arguments)


def test_the_same_ids_alone_in_any_batch_and_from_many_threads():
    one = encoder(max_length=12)
    texts = [f"number {i} " + "word " * (i % 30) for i in range(400)]
    together = one.encode(texts).input_ids
    assert one.encode(texts[::-1]).input_ids == together[::-1]
    with ThreadPoolExecutor(16) as pool:
        alone = list(pool.map(lambda text: one.encode([text]).input_ids[0], texts * 3))
    assert alone == together * 3


class TestCollate:
    def test_padding_is_masked(self):
        batch = collate(encoder().encode(["a b c", ""], ["d", "e"]), pad_token_id=9)
        assert batch["input_ids"].shape == batch["attention_mask"].shape == batch["token_type_ids"].shape == (2, 7)
        assert batch["attention_mask"].sum(dim=1).tolist() == [7, 4]
        assert batch["input_ids"][1, 4:].tolist() == [9, 9, 9]
        assert all(tensor.dtype == torch.long for tensor in batch.values())

    def test_an_empty_batch_has_no_rows(self):
        assert collate(Encoded(input_ids=[]), 0)["input_ids"].shape == (0, 0)
