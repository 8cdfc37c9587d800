"""What is no table of text is refused with one line that says what it is."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from budgetformer.data.errors import DataError
from budgetformer.data.files import Reading, iter_rows

from .files_at_hand import complaint, write


class TestWhatIsNoTable:
    def test_missing_folder_empty(self, tmp_path):
        assert "no such file" in complaint(tmp_path / "none.csv")
        (tmp_path / "folder.csv").mkdir()
        assert "is a folder" in complaint(tmp_path / "folder.csv")
        assert "is empty" in complaint(write(tmp_path / "a.csv", ""))
        assert "is empty" in complaint(write(tmp_path / "a.csv.gz", gzip.compress(b"")))
        with pytest.raises(DataError, match=r"file name|no such file"):
            iter_rows("a\0b.csv")
        with pytest.raises(DataError, match="file name"):
            iter_rows("a" * 5000 + ".csv")

    @pytest.mark.parametrize(
        ("start", "said"),
        [
            (b"\x89PNG\r\n\x1a\n\0\0", "a PNG picture"),
            (b"PK\x03\x04aaaa", "save it as csv"),
            (b"\x1f\x8baaaa", "add .gz"),
            (b"PAR1aaaa", "parquet"),
            (b"\x80\x04\x95\x10", "0x80 cannot be read"),
        ],
    )
    def test_binary_content_is_refused(self, tmp_path, start, said):
        assert said in complaint(write(tmp_path / "a.csv", start))
        if said == "a PNG picture":
            assert said in complaint(write(tmp_path / "a.csv", start), encoding="latin-1")

    def test_header_without_records(self, tmp_path):
        assert "no record after the header" in complaint(write(tmp_path / "a.csv", "text,label\n"))
        assert "no record" in complaint(write(tmp_path / "a.jsonl", "\n\n"))
        pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "a.parquet")
        assert "no record" in complaint(tmp_path / "a.parquet")

    def test_damaged_archives_are_named(self, tmp_path):
        assert "not gzip data" in complaint(write(tmp_path / "a.csv.gz", "text,label\na,b\n"))
        packed = gzip.compress(b"text,label\n" + b"".join(b"%d,b\n" % i for i in range(50_000)))
        assert "damaged" in complaint(write(tmp_path / "b.csv.gz", packed[: len(packed) // 2]))
        assert "damaged" in complaint(write(tmp_path / "c.csv.gz", packed + b"more"))
        assert "damaged" in complaint(write(tmp_path / "d.csv.gz", packed[:-6] + bytes(6)))
        assert "damaged" in complaint(write(tmp_path / "a.parquet", b"PAR1" + b"x" * 50))
        assert "not a parquet file" in complaint(write(tmp_path / "b.parquet", "text,label\na,b\n"))

    def test_unknown_extensions_are_refused_with_the_known_ones(self, tmp_path):
        message = complaint(write(tmp_path / "a.docx", "x"))
        assert ".docx" in message
        assert ".jsonl" in message
        assert "gunzip" in complaint(write(tmp_path / "a.parquet.gz", "x"))
        assert "spreadsheet; save it as csv" in complaint(write(tmp_path / "a.xlsx", "x"))

    @pytest.mark.parametrize("option", [{"header": False}, {"quoting": "none"}, {"delimiter": ";"}])
    def test_options_without_effect_are_refused(self, tmp_path, option):
        assert next(iter(option)) in complaint(write(tmp_path / "a.jsonl", '{"a": 1}'), **option)

    @pytest.mark.parametrize("option", [{"format": "xml"}, {"quoting": "some"}, {"delimiter": ";;"}])
    def test_impossible_options_are_refused(self, option):
        with pytest.raises(DataError, match=next(iter(option))):
            Reading(**option)
