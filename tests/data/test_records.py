"""Text, pair and label of a row, whatever its cells hold."""

import math

import pytest

from budgetformer.data.columns import Columns
from budgetformer.data.errors import DataError
from budgetformer.data.records import iter_records, label_text


def test_several_text_columns_are_joined_with_a_line_break(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('title,body,label\nA,"b\nc",pos\n')
    [record] = iter_records(path, Columns(text=("title", "body"), label="label"))
    assert (record.text, record.pair, record.label, record.problem) == ("A\nb\nc", None, "pos", None)


def test_every_record_answers_in_order_whatever_it_contains(tmp_path):
    texts = ["good", "", "   ", "\u200b\u200b", "😀", "\0x", "bad"]
    path = tmp_path / "a.csv"
    path.write_text("text,more\n" + "".join(f"{text},1\n" for text in texts), encoding="utf-8")
    records = list(iter_records(path, Columns(text=("text",)), keep_columns=True))
    assert [record.text for record in records] == texts
    assert [record.row.number for record in records] == list(range(7))
    assert all(record.row.cells["more"] == "1" and record.problem is None for record in records)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("null", None),
        ("5", "must hold text, got the number 5"),
        ("[1]", "got a list"),
        ('{"a": 1}', "got an object"),
        ("true", "got the truth value True"),
    ],
)
def test_a_cell_that_is_not_text_is_a_stated_problem_and_null_is_empty(tmp_path, value, problem):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": {value}, "label": "x"}}\n')
    [record] = iter_records(path, Columns(text=("text",), label="label"))
    assert record.text == ""
    assert record.problem is None if problem is None else problem in record.problem


def test_a_missing_field_is_a_stated_problem(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"other": "b"}\n')
    assert [r.problem for r in iter_records(path, Columns(text=("text",), label="label"))] == [
        None,
        "column 'text' is missing in this record",
    ]


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (" pos\t", "pos"),
        ("1.0", "1.0"),
        (1, "1"),
        (1.0, "1"),
        (-1.0, "-1"),
        (1.5, "1.5"),
        (True, "true"),
        (None, None),
        (math.nan, None),
        ("", ""),
    ],
)
def test_labels_are_spelled_in_one_way(value, label):
    assert label_text(value) == label


def test_a_list_is_no_label(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": ["x"]}\n')
    with pytest.raises(DataError, match=r"line 1 .*column 'label'.*got a list"):
        list(iter_records(path, Columns(text=("text",), label="label")))
