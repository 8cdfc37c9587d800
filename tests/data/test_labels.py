"""Classes are what stands in the file; no label is no class; what is unknown is named."""

import datasets
import pytest

from budgetformer.data.errors import DataError
from budgetformer.data.labels import (
    IGNORED,
    encode_labels,
    find_classes,
    is_unlabelled,
    model_markers,
    unlabelled_markers,
)
from budgetformer.data.loading import features


def rows(*labels) -> datasets.Dataset:
    columns = {"text": [f"text {i}" for i in range(len(labels))], "label": list(labels), "row": range(len(labels))}
    return datasets.Dataset.from_dict(columns, features=features(pairs=False))


@pytest.mark.parametrize("label", [None, "", "  ", "\u200b", "\ufeff \t", "-"])
def test_nothing_to_be_seen_and_a_dash_are_no_label(label):
    assert is_unlabelled(label)


@pytest.mark.parametrize("label", ["-1", "0", "none", "nan", "--", "é", "😀"])
def test_everything_else_is_a_label(label):
    assert not is_unlabelled(label)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["3", "1", "5", "2", "4"], ["1", "2", "3", "4", "5"]),
        (["40", "10", "20"], ["10", "20", "40"]),
        (["2", "10", "1"], ["1", "2", "10"]),
        (["b", "a10", "a2", "B"], ["B", "a10", "a2", "b"]),
        (["2", "10", "x"], ["10", "2", "x"]),
        (["0.5", "-2", "1e1"], ["-2", "0.5", "1e1"]),
    ],
)
def test_classes_are_the_values_found_in_a_stable_order(labels, names):
    for order in (labels, labels[::-1], labels * 2):
        assert list(find_classes(rows(*order)).names) == names


def test_unlabelled_rows_are_counted_and_no_class():
    classes = find_classes(rows("entailment", "neutral", "contradiction", "entailment", "-", "", None))
    assert classes.names == ("contradiction", "entailment", "neutral")
    assert classes.counts == {"contradiction": 1, "entailment": 2, "neutral": 1}
    assert classes.unlabelled == 3


class TestMinusOne:
    def test_beside_whole_numbers_it_means_no_label_and_is_reported(self):
        classes = find_classes(rows("0", "1", "2", "-1"))
        assert classes.names == ("0", "1", "2")
        assert classes.unlabelled == 1
        assert any("1 row with the label -1" in note and "--unlabelled keep" in note for note in classes.notes)

    def test_spelled_as_a_decimal_number_too(self):
        assert find_classes(rows("0.0", "1.0", "-1.0")).names == ("0.0", "1.0")

    @pytest.mark.parametrize("others", [["pos", "neg"], ["-2", "0", "1"], ["0.5", "1"]])
    def test_beside_other_labels_it_is_a_class(self, others):
        assert "-1" in find_classes(rows("-1", *others)).names

    def test_kept_when_asked(self):
        assert find_classes(rows("-1", "0", "1"), unlabelled="keep").names == ("-1", "0", "1")
        assert find_classes(rows("-", "a", ""), unlabelled="keep").names == ("-", "a")

    def test_for_a_trained_model_its_classes_decide(self):
        assert model_markers(["0", "1", "2"]) == {"-", "-1", "-1.0"}
        assert model_markers(["-1", "0", "1"]) == {"-"}
        assert model_markers(["-", "a"]) == frozenset()
        assert model_markers(["neg", "pos"]) == {"-"}
        assert model_markers(["0", "1"], "keep") == frozenset()
        assert model_markers(["0", "1"], ["n/a"]) == {"n/a"}
        with pytest.raises(DataError, match="'1' is a class of the model"):
            model_markers(["0", "1"], ["n/a", "1"])


def test_own_markers_replace_the_rule():
    classes = find_classes(rows("a", "b", "?", "-", ""), unlabelled=["?"])
    assert classes.names == ("-", "a", "b")
    assert classes.unlabelled == 2
    with pytest.raises(DataError, match="unlabelled"):
        unlabelled_markers(["a"], "drop")


def test_own_markers_that_no_row_has_are_pointed_out():
    assert find_classes(rows(*["a", "b", "n/a"] * 5), unlabelled=["n/a"]).notes == ()
    [note] = find_classes(rows(*["a", "b", "n/a"] * 5), unlabelled=["N/A"]).notes
    assert "no training row has the label 'N/A'" in note


def test_one_class_or_none_is_refused():
    with pytest.raises(DataError, match="all 10 labelled training rows have the label 'pos'"):
        find_classes(rows(*["pos"] * 10, "-"))
    with pytest.raises(DataError, match="no row of the training data has a label"):
        find_classes(rows("", None, "-"))
    with pytest.raises(DataError, match="'-1' was taken as without label, --unlabelled keep"):
        find_classes(rows(*["1", "-1"] * 5))


def test_a_column_of_very_many_values_is_no_label_column():
    with pytest.raises(DataError, match="--label-column"):
        find_classes(rows(*(str(i) for i in range(10_002))))


def test_labels_that_look_alike_and_rare_classes_are_pointed_out():
    classes = find_classes(rows(*["Pos", "pos\u200b", "1", "1.0"] * 5, "rare"))
    assert any(r"'Pos', 'pos\u200b'" in note for note in classes.notes)
    assert any("'1', '1.0'" in note for note in classes.notes)
    assert any("'rare' (1)" in note for note in classes.notes)
    assert find_classes(rows(*["a", "b"] * 5)).notes == ()


def test_known_classes_keep_their_order_and_may_be_absent():
    classes = find_classes(rows("World", "Sports"), order=["World", "Sports", "Business"])
    assert classes.names == ("World", "Sports", "Business")
    assert classes.counts["Business"] == 0


def test_labels_become_indices_and_no_label_the_ignored_one():
    encoded = encode_labels(rows("b", "-", "a", "", None), ["a", "b"], source="x.csv")
    assert encoded["label"][:] == [1, IGNORED, 0, IGNORED, IGNORED]
    assert encoded["row"][:] == [0, 1, 2, 3, 4]


def test_a_selection_of_rows_is_encoded_without_noise(capfd):
    chosen = rows("b", "-", "a", "b").select([3, 0, 2])
    encoded = encode_labels(chosen, ["a", "b"], source="x.csv")
    assert encoded[:] == {"text": ["text 3", "text 0", "text 2"], "label": [1, 1, 0], "row": [3, 0, 2]}
    assert capfd.readouterr() == ("", "")


def test_an_unknown_label_is_named_with_rows_and_file():
    test = rows("pos", "pos", "pos", "neg", "neg", "neg", "mixed")
    with pytest.raises(DataError, match=r"test\.csv: label 'mixed' \(1 row\) is none of the classes 'neg', 'pos'"):
        encode_labels(test, ["neg", "pos"], source="test.csv")
    odd = rows("Pos", "mixed", "neg")
    with pytest.raises(DataError, match=r"labels 'Pos' \(1 row\), 'mixed' \(1 row\) are none .* did you mean 'pos'"):
        encode_labels(odd, ["neg", "pos"], source="test.csv")


def test_a_part_without_some_classes_is_fine():
    assert encode_labels(rows("c", "c"), ["a", "b", "c"], source="x")["label"][:] == [2, 2]
    assert encode_labels(rows("-"), ["a", "b"], source="x")["label"][:] == [IGNORED]
