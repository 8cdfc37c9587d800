"""The rows that are drawn: nested shares, validation, rows without label, and sets that are too small."""

from __future__ import annotations

import shutil
import subprocess
import sys
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


PART = DataPart(name="imdb", train_rows=40, validation_rows=8, test_rows=10, validation_on_test=False)


def test_every_class_is_trained_on_however_few_rows_there_are(data_folder: Path, tmp_path: Path) -> None:
    part = DataPart(name="dbpedia14", train_rows=64, train_share=0.1, test_rows=20, validation_on_test=False)
    few = draw(part, work=tmp_path, data_folder=data_folder)
    assert len(set(few.read("train")["label"])) == 14
    assert few.summary["rows"]["train"] == few.read("train").num_rows
    whole = draw(replace(part, train_share=1.0), work=tmp_path, data_folder=data_folder)
    assert set(few.read("train")["text"]) <= set(whole.read("train")["text"])


def test_rows_that_were_changed_in_the_work_folder_are_refused(data_folder: Path, tmp_path: Path) -> None:
    drawn = draw(PART, work=tmp_path, data_folder=data_folder)
    drawn.test.write_text("".join(drawn.test.read_text().splitlines(keepends=True)[:7]))
    with pytest.raises(DataError, match=r"test\.jsonl was changed since it was drawn: delete the folder"):
        draw(PART, work=tmp_path, data_folder=data_folder)
    (drawn.test.parent / "rows.json").write_text("{}")
    with pytest.raises(ValueError, match=r"rows\.json is damaged: delete the folder"):
        draw(PART, work=tmp_path, data_folder=data_folder)


def test_a_mended_source_is_drawn_anew(data_folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "sets" / "imdb"
    shutil.copytree(data_folder / "imdb", own)
    lines = (own / "train.jsonl").read_text().splitlines()
    (own / "train.jsonl").write_text("\n".join(line for line in lines if '"label": 0' in line) + "\n")
    with pytest.raises(DataError, match=r"imdb/train\.jsonl: no row of training has the class 'pos'"):
        draw(PART, work=tmp_path / "w", data_folder=own.parent)
    (own / "train.jsonl").write_text("\n".join(lines) + "\n")
    assert draw(PART, work=tmp_path / "w", data_folder=own.parent).summary["classes"] == 2
    (own / "test.jsonl").write_text("\n".join(lines[:30]) + "\n")
    assert draw(PART, work=tmp_path / "w", data_folder=own.parent).summary["rows_there"]["test"] == 30


def test_a_set_without_labels_is_named(data_folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "sets" / "imdb"
    shutil.copytree(data_folder / "imdb", own)
    (own / "test.jsonl").write_text('{"text": "a", "label": -1}\n')
    with pytest.raises(DataError, match=r"imdb/test\.jsonl: none of 1 rows has a label \(column label\)"):
        draw(PART, work=tmp_path / "w", data_folder=own.parent)


def test_one_folder_may_be_spelt_in_two_ways(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(PART, work=tmp_path, data_folder=data_folder)
    monkeypatch.chdir(data_folder.parent)
    monkeypatch.setenv("BUDGETFORMER_DATA", f"./{data_folder.name}/../{data_folder.name}")
    assert draw(PART, work=tmp_path, data_folder=None).summary["rows"]["train"] == 40


def test_two_runs_that_begin_together_draw_the_same_whole_rows(data_folder: Path, tmp_path: Path) -> None:
    """Two real processes on one empty work folder."""
    code = (
        "import sys; from pathlib import Path; from tests.paper.test_rows import PART; from budgetformer_paper.rows "
        "import draw; print(draw(PART, work=Path(sys.argv[1]), data_folder=Path(sys.argv[2])).trained_on)"
    )
    command = [sys.executable, "-c", code, str(tmp_path), str(data_folder)]
    here = Path(__file__).parent.parent.parent
    started = [subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=120)[0].strip() for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert said[0] == said[1] == draw(PART, work=tmp_path, data_folder=data_folder).trained_on
    assert [path.name for path in (tmp_path / "rows").iterdir() if "partial" in path.name] == []
