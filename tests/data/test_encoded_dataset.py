"""A whole data set becomes token ids on disk, row by row as the encoder gives them."""

import datasets

from budgetformer.data.encoded_dataset import encode_dataset
from budgetformer.data.encoding import TextEncoder
from budgetformer.data.loading import features

from .tokenizers_at_hand import wordpiece


def test_rows_keep_their_order_and_counts_are_given(tmp_path):
    texts = [f"fox {i} " + "again " * (i % 20) for i in range(2500)]
    texts[7] = " "
    columns = {"text": texts, "label": [str(i % 2) for i in range(2500)], "row": list(range(2500))}
    data = datasets.Dataset.from_dict(columns, features=features(pairs=False))
    encoder = TextEncoder(tokenizer=wordpiece(), max_length=12, uses_segments=False)
    result = encode_dataset(data, encoder, folder=tmp_path)
    expected = encoder.encode(texts)
    assert result.dataset["input_ids"][:] == expected.input_ids
    assert result.dataset["length"][:] == [len(ids) for ids in expected.input_ids]
    assert result.dataset["row"][:] == list(range(2500))
    assert result.dataset["label"][:] == columns["label"]
    assert (result.truncated, result.empty) == (sum(expected.truncated), 1)
    assert result.dataset.column_names == ["input_ids", "length", "label", "row"]
    assert [path.suffix for path in tmp_path.iterdir()] == [".arrow"]


def test_pairs_carry_their_segments():
    columns = {"text": ["a"], "pair": ["b"], "label": [None], "row": [0]}
    data = datasets.Dataset.from_dict(columns, features=features(pairs=True))
    encoder = TextEncoder(tokenizer=wordpiece(), max_length=12, uses_segments=True)
    assert encode_dataset(data, encoder).dataset["token_type_ids"][:] == [[0, 0, 0, 1, 1]]
