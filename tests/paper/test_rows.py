"""The rows that are drawn: nested shares, validation, rows without label, and sets that are too small."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from budgetformer.data.errors import DataError
from budgetformer_paper.recipe import DataPart
from budgetformer_paper.recipes import table2_budgetformer
from budgetformer_paper.rows import draw, missing_data, said_missing
from budgetformer_paper.scales import paper


def test_smaller_shares_lie_within_larger_ones_and_the_rest_stays(data_folder: Path, tmp_path: Path) -> None:
    part = DataPart(name="imdb", train_rows=40, validation_rows=8, test_rows=10, validation_on_test=False)
    drawn = {
        share: draw(replace(part, train_share=share), work=tmp_path, data_folder=data_folder) for share in (0.25, 1.0)
    }
    texts = {share: set(d.read("train")["text"]) for share, d in drawn.items()}
    assert texts[0.25] < texts[1.0]
    assert drawn[0.25].summary["rows"] == {"train": 10, "test": 10, "validation": 8}
    assert not texts[1.0] & set(drawn[1.0].read("validation")["text"])
    for split in ("validation", "test"):
        assert list(drawn[0.25].read(split)["text"]) == list(drawn[1.0].read(split)["text"])


def test_validation_is_the_sets_own_or_the_test_rows(data_folder: Path, tmp_path: Path) -> None:
    own = draw(DataPart(name="ag_news"), work=tmp_path, data_folder=data_folder)
    assert own.summary["validated_on"] == "the set's own validation rows"
    assert own.summary["rows"] == {"train": 90, "test": 40, "validation": 20}
    none = draw(DataPart(name="imdb"), work=tmp_path, data_folder=data_folder)
    assert none.summary["validated_on"] == "the test rows, as in the paper"
    assert own.summary["origin"] == f"{own.summary['name']}/train.jsonl"  # no path of this machine in a published row
    assert none.validation == none.test


def test_rows_without_label_are_left_out_and_counted(data_folder: Path, tmp_path: Path) -> None:
    drawn = draw(DataPart(name="snli"), work=tmp_path, data_folder=data_folder)
    assert drawn.summary["rows"]["train"] == 89
    assert drawn.summary["without_label"] == {"train": 1, "test": 1}
    assert drawn.read("train")[0]["pair"].startswith("so mark")


def test_the_papers_scale_refuses_a_part_of_a_set(data_folder: Path, tmp_path: Path) -> None:
    part = paper(table2_budgetformer("imdb")).data
    with pytest.raises(DataError, match="imdb train has 90 labelled rows and this scale needs 25,000"):
        draw(part, work=tmp_path, data_folder=data_folder)
    assert not (tmp_path / "rows").exists()


def test_missing_files_are_named_before_any_work(data_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "imdb").mkdir()
    (tmp_path / "imdb" / "labels.txt").write_text("neg\npos\n")
    missing = missing_data(["imdb", "imdb"], tmp_path)
    assert missing == {"imdb": [str(tmp_path / "imdb" / f"{split}.jsonl.gz") for split in ("train", "test")]}
    assert "imdb/train.jsonl.gz" in said_missing(missing)
    assert "--data-folder" in said_missing(missing)
    assert missing_data(["imdb"], data_folder) == {}


def test_a_set_that_is_larger_than_the_official_one_is_refused(data_folder: Path, tmp_path: Path) -> None:
    part = DataPart(name="imdb", least_train=90, least_test=40, whole=True)
    assert draw(part, work=tmp_path, data_folder=data_folder).summary["rows"]["train"] == 90
    with pytest.raises(DataError, match="imdb test has 40 labelled rows and the official split 39"):
        draw(replace(part, least_test=39), work=tmp_path, data_folder=data_folder)


def test_rows_of_another_folder_are_not_taken_for_these(data_folder: Path, tmp_path: Path) -> None:
    draw(DataPart(name="imdb"), work=tmp_path, data_folder=data_folder)
    with pytest.raises(DataError, match="give another --work folder"):
        draw(DataPart(name="imdb"), work=tmp_path, data_folder=tmp_path)
