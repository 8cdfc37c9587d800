"""Files become data sets on disk: complete or not at all, and without filling the memory."""

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from budgetformer.data import storage
from budgetformer.data.columns import Columns
from budgetformer.data.errors import DataError
from budgetformer.data.loading import Texts, load

COLUMNS = Columns(text=("text",), label="label")
VALUE = datasets.Features({"n": datasets.Value("int64")})


def test_rows_of_several_files_are_numbered_on_in_order(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na,x\nb,\n")
    (tmp_path / "b.jsonl").write_text('{"label": 1, "text": "c"}\n{"label": null, "text": null}\n')
    loaded = load([tmp_path / "a.csv", str(tmp_path / "b.jsonl")], COLUMNS)
    assert loaded[:] == {"text": ["a", "b", "c", ""], "label": ["x", "", "1", None], "row": [0, 1, 2, 3]}


def test_pairs_have_a_column_of_their_own(tmp_path):
    (tmp_path / "a.tsv").write_text("b\ta\nhypothesis\tpremise\n")
    assert load(tmp_path / "a.tsv", Columns(text=("a",), pair="b"))[:] == {
        "text": ["premise"],
        "pair": ["hypothesis"],
        "label": [None],
        "row": [0],
    }


def test_all_texts_of_a_data_set_are_read_as_often_as_wanted(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\n1\t2\n3\t4\n")
    texts = Texts(load(tmp_path / "a.tsv", Columns(text=("a",), pair="b")).select([1, 0]))
    assert list(texts) == list(texts) == ["3", "1", "4", "2"]


def test_a_cell_that_is_not_text_is_named_by_file_and_row(tmp_path):
    pq.write_table(pa.table({"text": [1, 2], "label": ["a", "b"]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet: record 0: column 'text' must hold text, got the number 1"):
        load(tmp_path / "a.parquet", COLUMNS, folder=tmp_path / "store")
    assert list((tmp_path / "store").iterdir()) == []


def test_the_rows_lie_on_disk_and_not_in_memory(tmp_path):
    path = tmp_path / "a.csv"
    with open(path, "w", encoding="utf-8") as file:
        file.write("text,label\n")
        file.writelines(f"row {i} {'word ' * 60},{i % 3}\n" for i in range(60_000))
    before = pa.total_allocated_bytes()
    loaded = load(path, COLUMNS, folder=tmp_path / "store")
    [stored] = (tmp_path / "store").iterdir()
    assert loaded.cache_files == [{"filename": str(stored)}]
    assert stored.stat().st_size > 18e6
    assert pa.total_allocated_bytes() - before < 2e6
    assert loaded[59_999]["text"].startswith("row 59999 ")


def test_a_text_of_many_megabytes_passes(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\n" + "a" * 20_000_000 + ",x\nb,y\n")
    assert [len(text) for text in load(tmp_path / "a.csv", COLUMNS)["text"]] == [20_000_000, 1]


def test_a_failure_while_writing_is_named_and_leaves_nothing(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(DataError, match=r"cannot write the data there: .*set TMPDIR") as caught:
            storage.write_dataset(({"n": list(range(1000))} for _ in range(1000)), VALUE, folder=tmp_path / "store")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(tmp_path) in str(caught.value)
    assert list((tmp_path / "store").iterdir()) == []


def test_a_full_disk_is_called_by_its_name(tmp_path):
    def batches():
        yield {"n": [1]}
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(DataError, match="the disk is full"):
        storage.write_dataset(batches(), VALUE, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_temporary_folder_goes_with_the_process(tmp_path):
    program = (
        "import budgetformer_command\nfrom budgetformer.data import storage\nimport datasets, os\n"
        "d = storage.write_dataset([{'n': [1]}], datasets.Features({'n': datasets.Value('int64')}))\n"
        "assert len(d) == 1\n"
        "if os.fork() == 0: raise SystemExit\n"
        "os.wait(); print(storage.scratch_folder(), storage.scratch_folder().is_dir())"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    folder, there = done.stdout.split()
    assert Path(folder).parent == tmp_path
    assert there == "True"
    assert not Path(folder).exists()


def test_no_progress_bar_where_there_is_no_terminal(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("text,label\na,x\n")
    load(tmp_path / "a.csv", COLUMNS, progress=True)
    assert capsys.readouterr() == ("", "")
