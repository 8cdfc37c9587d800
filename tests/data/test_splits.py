"""A validation part of every class, and repeated texts counted but never removed unasked."""

from collections import Counter

import datasets
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetformer.data.errors import DataError
from budgetformer.data.loading import features
from budgetformer.data.splits import count_repeats, deduplicate, split_validation, stratified_parts


def rows(labels, texts=None, pairs=None) -> datasets.Dataset:
    columns = {"text": texts or [f"text {i}" for i in range(len(labels))]}
    if pairs:
        columns["pair"] = pairs
    columns |= {"label": labels, "row": list(range(len(labels)))}
    return datasets.Dataset.from_dict(columns, features=features(pairs=bool(pairs)))


class TestValidationPart:
    def test_every_class_gives_its_share(self):
        split = split_validation(rows(["a"] * 100 + ["b"] * 30 + ["c"] * 2), fraction=0.1)
        assert Counter(split.validation["label"]) == {"a": 10, "b": 3, "c": 1}
        assert len(split.train) + len(split.validation) == 132

    def test_single_and_unlabelled_rows_stay_in_training(self):
        split = split_validation(rows(["a"] * 10 + ["once", "-", "", None]), fraction=0.5)
        assert set(split.validation["label"]) == {"a"}
        assert split.train["label"][-4:] == ["once", "-", "", None]

    def test_the_seed_decides(self):
        data = rows(["a", "b"] * 50)
        chosen = [split_validation(data, seed=seed).validation["row"][:] for seed in (0, 0, 1)]
        assert chosen[0] == chosen[1] != chosen[2]

    def test_labels_may_be_indices(self):
        data = datasets.Dataset.from_dict({"label": [0] * 10 + [1] * 10 + [-100] * 5})
        assert Counter(split_validation(data, fraction=0.2).validation["label"]) == {0: 2, 1: 2}

    def test_too_few_rows_and_impossible_fractions_are_refused(self):
        with pytest.raises(DataError, match="give a validation file"):
            split_validation(rows(["a", "b"]))
        for fraction in (0, 1, -1, float("nan")):
            with pytest.raises(DataError, match="fraction"):
                split_validation(rows(["a", "b"] * 9), fraction=fraction)

    @settings(max_examples=50, deadline=None)
    @given(
        labels=st.lists(st.sampled_from(["a", "b", "c", "-"]), min_size=2, max_size=40),
        fraction=st.floats(0.01, 0.99),
        seed=st.integers(0, 9),
    )
    def test_every_row_is_in_exactly_one_part_in_the_old_order(self, labels, fraction, seed):
        data = rows(labels)
        try:
            split = split_validation(data, fraction=fraction, seed=seed)
        except DataError:
            assert all(n == 1 for label, n in Counter(labels).items() if label != "-")
            return
        train, validation = split.train["row"][:], split.validation["row"][:]
        assert sorted(train + validation) == list(range(len(labels)))
        assert train == sorted(train)
        assert set(labels) - {"-"} <= set(split.train["label"])


def test_parts_of_exact_sizes_keep_the_shares_of_classes():
    data = rows(["a"] * 600 + ["b"] * 300 + ["c"] * 100)
    parts = stratified_parts(data, [700, 100, 200], seed=3)
    assert [len(part) for part in parts] == [700, 100, 200]
    assert [Counter(part["label"]) for part in parts] == [
        {"a": 420, "b": 210, "c": 70},
        {"a": 60, "b": 30, "c": 10},
        {"a": 120, "b": 60, "c": 20},
    ]
    assert sorted(row for part in parts for row in part["row"][:]) == list(range(1000))
    assert stratified_parts(data, [700], seed=4)[0]["row"][:] != parts[0]["row"][:]


class TestRepeats:
    def test_repeats_within_a_part_and_their_labels_are_counted(self):
        texts = [f"text {i}" for i in range(15)] + [f"text {i}" for i in range(5)]
        labels = ["a"] * 19 + ["b"]
        repeats = count_repeats({"train": rows(labels, texts)})
        assert repeats.within == {"train": 5}
        assert repeats.conflicting == 1
        assert repeats.sentences() == [
            "5 rows of train repeat an earlier row",
            "1 repeated texts have more than one label",
        ]

    def test_texts_of_one_part_found_in_another_are_counted(self):
        train, test = rows(["a"] * 3, ["x", "y", "y"]), rows(["a", "b", "a"], ["y", "x", "z"])
        repeats = count_repeats({"train": train, "test": test})
        assert repeats.within == {"train": 1, "test": 0}
        assert repeats.across == {("train", "test"): 2}
        assert repeats.conflicting == 1

    def test_a_pair_repeats_only_as_a_whole(self):
        data = rows(["a"] * 4, ["ab", "a", "a", "ab"], ["c", "bc", "b", "c"])
        assert count_repeats({"train": data}).within == {"train": 1}

    def test_nothing_is_said_where_nothing_repeats(self):
        assert count_repeats({"train": rows(["a", "b"])}).sentences() == []

    def test_removal_on_request_keeps_the_first_of_each(self):
        data = rows(["a", "b", "c", "d"], ["x", "y", "x", "Y"])
        assert deduplicate(data)["label"][:] == ["a", "b", "d"]
        assert len(data) == 4
