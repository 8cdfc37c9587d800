"""Columns are taken by name; where the name is not clear the user is asked, with what is there."""

import pytest

from budgetformer.data.columns import Columns, resolve_columns
from budgetformer.data.errors import DataError


def resolve(found, asked=None, remembered=None, *, need_label=True, header=True):
    return resolve_columns(found, asked or Columns(), remembered, need_label=need_label, path="news.csv", header=header)


def complaint(*arguments, **options) -> str:
    with pytest.raises(DataError) as caught:
        resolve(*arguments, **options)
    assert str(caught.value).startswith("news.csv: ")
    return str(caught.value)


@pytest.mark.parametrize(
    ("found", "text", "pair", "label"),
    [
        (["label", "text"], ("text",), None, "label"),
        (["Review", "other", "Sentiment"], ("Review",), None, "Sentiment"),
        (["label", "hypothesis", "premise"], ("premise",), "hypothesis", "label"),
        (["sentence1", "sentence2", "gold_label"], ("sentence1",), "sentence2", "gold_label"),
    ],
)
def test_usual_names_are_found_in_any_order(found, text, pair, label):
    assert resolve(found) == Columns(text=text, pair=pair, label=label)


def test_asked_names_win_over_remembered_and_usual_ones():
    asked = Columns(text=("title", "body"), label="kind", id="key")
    found = ["key", "kind", "text", "label", "body", "title"]
    assert resolve(found, asked, Columns(text=("text",), label="label")) == asked


def test_remembered_names_win_over_usual_ones():
    remembered = Columns(text=("body",), label="kind")
    assert resolve(["text", "label", "kind", "body"], None, remembered) == remembered


def test_a_label_is_optional_where_it_is_not_needed():
    assert resolve(["review"], need_label=False) == Columns(text=("review",))
    assert resolve(["review", "kind"], None, Columns(text=("review",), label="kind"), need_label=False).label == "kind"


def test_missing_columns_are_listed_with_those_found_and_the_way_out():
    message = complaint(["stars", "review"])
    assert "label" in message
    assert "stars, review" in message
    assert "--label-column" in message
    message = complaint(["great phone", "pos"])
    assert "great phone, pos" in message
    assert "--no-header" in message
    assert "'body'" in complaint(["text", "label"], Columns(text=("body",)))
    assert r"'\ufefftext', '', label" in complaint(["\ufefftext", "", "label"])


def test_an_asked_label_that_is_not_there_is_an_error_also_when_not_needed():
    assert "'kind'" in complaint(["text"], Columns(label="kind"), need_label=False)


def test_several_candidates_are_not_guessed_among():
    assert "text, review" in complaint(["text", "review", "label"])
    assert "label, class" in complaint(["text", "label", "class"])
    assert resolve(["text", "label", "class"], need_label=False).label is None


def test_one_column_cannot_play_two_parts():
    assert "'text' is given twice" in complaint(["text", "label"], Columns(text=("text",), label="text"))
    assert "given twice" in complaint(["text", "label"], Columns(text=("text", "text"), label="label"))
    assert "given twice" in complaint(["text", "label"], Columns(text=("text",), pair="text", label="label"))


def test_another_delimiter_is_suggested():
    assert "--delimiter ';'" in complaint(["text;label"])


def test_without_header_the_text_comes_first_and_the_label_last():
    assert resolve(["0", "1"], header=False) == Columns(text=("0",), label="1")
    assert resolve(["0"], header=False, need_label=False) == Columns(text=("0",))
    assert "0, 1, 2" in complaint(["0", "1", "2"], header=False)
    assert resolve(["0", "1", "2"], Columns(text=("2",), label="0"), header=False).text == ("2",)


def test_a_model_of_named_columns_reads_a_file_without_header():
    assert resolve(["0", "1"], None, Columns(text=("text",), label="label"), header=False) == Columns(
        text=("0",), label="1"
    )
    pair = Columns(text=("premise",), pair="hypothesis", label="label")
    assert resolve(["0", "1", "2"], None, pair, header=False) == Columns(text=("0",), pair="1", label="2")


def test_the_model_says_whether_it_takes_pairs():
    single, pair = Columns(text=("text",)), Columns(text=("premise",), pair="hypothesis")
    assert "single texts" in complaint(["text", "more"], Columns(pair="more"), single, need_label=False)
    assert "--pair-column" in complaint(["premise", "label"], None, pair)
    assert "--pair-column" in complaint(["a", "label"], Columns(text=("a",)), pair)
    assert resolve(["a", "b", "label"], Columns(text=("a",), pair="b"), pair).pair == "b"
    assert resolve(["sentence1", "sentence2"], None, pair, need_label=False) == Columns(
        text=("sentence1",), pair="sentence2"
    )
