"""Stretches read on their own are together the file: same numbers, lines and cells."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetformer.data.errors import DataError
from budgetformer.data.files import Reading, Row, iter_rows
from budgetformer.data.stretches import stretch_rows, stretches


def pieced(path: Path, size: int, *, only: Sequence[str] | None = None, reading: Reading | None = None) -> list[Row]:
    reading = reading or Reading()
    parts = list(stretches(path, reading, size=size))
    assert all(part.records == size for part in parts[:-1])
    return list(itertools.chain.from_iterable(stretch_rows(part, reading, only=only) for part in reversed(parts)))


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row.number)


BLANKS = st.sampled_from(["", " ", "\t"])
LINES = st.one_of(
    st.sampled_from(["", "   ", "\t", " ", "\x1c", "\r", "\xa0"]),
    st.builds(
        lambda text, pad: pad + json.dumps({"text": text}, ensure_ascii=False),
        st.text(),
        st.sampled_from(["", " ", " "]),
    ),
)


@given(
    lines=st.lists(LINES, max_size=12),
    size=st.integers(1, 5),
    mark=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
    closed=st.booleans(),
)
def test_stretches_of_jsonl_are_the_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], size: int, mark: bool, end: str, closed: bool
) -> None:
    path = tmp_path_factory.mktemp("s") / "a.jsonl"
    whole = end.join([json.dumps({"text": "first"}), *lines, json.dumps({"text": "last"})])
    text = ("\ufeff" if mark else "") + whole + (end if closed else "")
    path.write_bytes(text.encode("utf-8"))
    assert in_order(pieced(path, size)) == list(iter_rows(path))


@pytest.mark.parametrize("size", [1, 3, 7, 1000, 2500, 9999])
def test_stretches_of_parquet_are_the_file_whatever_its_row_groups(tmp_path: Path, size: int) -> None:
    rows = 60 if size < 10 else 5000
    table = pa.table({"text": [f"t{i}" for i in range(rows)], "n": list(range(rows))})
    for group in (7, 1500, rows):
        path = tmp_path / f"{group}.parquet"
        pq.write_table(table, path, row_group_size=group)
        assert in_order(pieced(path, size)) == list(iter_rows(path))
        assert in_order(pieced(path, size, only=["text"])) == list(iter_rows(path, only=["text"]))
        assert in_order(pieced(path, size, only=["gone"])) == list(iter_rows(path, only=["gone"]))


def test_numbers_go_on_from_file_to_file(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text('{"text": "a"}\n\n{"text": "b"}\n{"text": "c"}\n')
    parts = list(stretches(path, Reading(), size=2, first=10))
    assert [(part.first, part.records, part.line) for part in parts] == [(10, 2, 1), (12, 1, 4)]
    assert [(row.number, row.line) for part in parts for row in stretch_rows(part, Reading())] == [
        (10, 1),
        (11, 3),
        (12, 4),
    ]


def test_an_error_names_the_line_of_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n' * 5 + "oops\n" + '{"text": "a"}\n')
    second = list(stretches(path, Reading(), size=4))[1]
    with pytest.raises(DataError, match="line 6 is not JSON"):
        list(stretch_rows(second, Reading()))


@pytest.mark.parametrize(
    ("name", "content", "encoding", "words"),
    [
        ("a.csv", b"text\nx\n", "utf-8", "write the file as parquet or jsonl first"),
        ("a.jsonl.gz", gzip.compress(b'{"text": "a"}\n', mtime=0), "utf-8", "gunzip it first"),
        ("a.jsonl", '{"text": "a"}\n'.encode("utf-16"), "utf-8", "save it as UTF-8"),
        ("a.jsonl", '{"text": "a"}\n'.encode("utf-16-le"), "utf-16-le", "save it as UTF-8"),
        ("a.jsonl", b'{"text": "a"}\r{"text": "b"}\r', "utf-8", "write them with LF"),
    ],
)
def test_what_cannot_be_shared_out_says_why(
    tmp_path: Path, name: str, content: bytes, encoding: str, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=words):
        list(stretches(path, Reading(encoding=encoding), size=2))


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_file_that_lost_records_is_not_read_as_if_whole(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"

    def write(rows: int) -> None:
        if kind == "jsonl":
            path.write_text('{"text": "a"}\n' * rows)
        else:
            pq.write_table(pa.table({"text": ["a"] * rows}), path)

    write(9)
    last = list(stretches(path, Reading(), size=4))[-1]
    write(3)
    with pytest.raises(DataError, match="was cut while it was read"):
        list(stretch_rows(last, Reading()))
