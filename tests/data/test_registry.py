"""The five sets by name: from a folder, from the hub, or one line that says how to give a folder."""

import gzip
import json
import os
import re
import subprocess
import sys
from collections import Counter

import datasets
import pytest

from budgetformer.data import registry
from budgetformer.data.columns import Columns
from budgetformer.data.errors import DataError
from budgetformer.data.registry import SOURCES, Source, load_named


def put(folder, split, rows):
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / f"{split}.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def shelf(tmp_path):
    put(tmp_path / "snli", "train", [{"premise": "a", "hypothesis": "b", "label": n} for n in (2, 0, -1)])
    (tmp_path / "snli" / "labels.txt").write_text("entailment\nneutral\ncontradiction\n")
    put(tmp_path / "imdb", "train", [{"text": "good", "label": 1, "source": "x"}])
    (tmp_path / "imdb" / "labels.txt").write_text("neg\npos\n")
    return tmp_path


def test_a_split_from_a_folder_has_class_names_in_their_order(shelf):
    named = load_named("snli", "train", folder=shelf)
    assert named.class_names == ("entailment", "neutral", "contradiction")
    assert named.columns == Columns(text=("premise",), pair="hypothesis", label="label")
    assert named.dataset[:] == {
        "text": ["a"] * 3,
        "pair": ["b"] * 3,
        "label": ["contradiction", "entailment", None],
        "row": [0, 1, 2],
    }
    assert "CC BY-SA" in named.licence


def test_the_folder_may_come_from_the_environment(shelf, monkeypatch):
    monkeypatch.setenv("BUDGETFORMER_DATA", str(shelf))
    assert load_named("imdb", "train").dataset["label"][:] == ["pos"]


def test_a_set_without_validation_split_says_so_with_none(shelf):
    assert load_named("imdb", "validation", folder=shelf) is None


def test_what_is_missing_in_the_folder_is_named(shelf):
    with pytest.raises(DataError, match=r"imdb/test\.jsonl\.gz: there is no such file"):
        load_named("imdb", "test", folder=shelf)
    with pytest.raises(DataError, match="ag_news: there is no such folder"):
        load_named("ag_news", "test", folder=shelf)
    (shelf / "imdb" / "labels.txt").unlink()
    with pytest.raises(DataError, match=r"labels\.txt: cannot be read"):
        load_named("imdb", "train", folder=shelf)


def test_a_label_outside_the_classes_is_named(shelf):
    put(shelf / "imdb", "test", [{"text": "a", "label": 2}])
    with pytest.raises(DataError, match=r"line 1 .*label 2 is not 0\.\.1"):
        load_named("imdb", "test", folder=shelf)


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(DataError, match="ag_news, dbpedia14, imdb, snli, yelp_full"):
        load_named("agnews", "train")
    with pytest.raises(DataError, match="split"):
        load_named("imdb", "dev")


def test_a_set_in_the_form_of_the_hub_is_read_through_datasets(tmp_path, monkeypatch):
    features = datasets.Features(
        {
            "title": datasets.Value("string"),
            "content": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["no", "yes"]),
        }
    )
    rows = {"title": ["T", "U"], "content": ["c", "d"], "label": [1, 0]}
    (tmp_path / "hub").mkdir()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "hub" / "train.parquet")
    source = Source(
        hub=str(tmp_path / "hub"),
        columns=Columns(text=("title", "content"), label="label"),
        class_names=("no", "yes"),
        licence="none",
    )
    monkeypatch.setitem(registry.SOURCES, "dbpedia14", source)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.delenv("BUDGETFORMER_DATA", raising=False)
    named = load_named("dbpedia14", "train")
    assert named.dataset["text"][:] == ["T\nc", "U\nd"]
    assert named.dataset["label"][:] == ["yes", "no"]
    assert named.class_names == ("no", "yes")


def test_every_set_of_the_hub_has_its_commit():
    for source in SOURCES.values():
        assert re.fullmatch("[0-9a-f]{40}", source.revision)
    assert len({source.revision for source in SOURCES.values()}) == len(SOURCES)


def test_the_commit_that_was_asked_for_goes_to_the_hub(tmp_path):
    program = (
        "import budgetformer_command\nfrom budgetformer.data.registry import load_named\n"
        "for revision in (None, 'c0ffee'):\n"
        "    try: load_named('imdb', 'test', revision=revision)\n"
        "    except ValueError as error: print(error)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "BUDGETFORMER_DATA"}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    pinned, asked = done.stdout.splitlines()
    assert f"stanfordnlp/imdb at {SOURCES['imdb'].revision}" in pinned
    assert "stanfordnlp/imdb at c0ffee" in asked


def test_without_network_one_line_says_how_to_give_a_folder(tmp_path):
    program = (
        "import budgetformer_command\nfrom budgetformer.data.registry import load_named\n"
        "try: load_named('imdb', 'test')\n"
        "except ValueError as error: print(error)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "BUDGETFORMER_DATA"}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert "imdb/test.jsonl.gz" in done.stdout
    assert "BUDGETFORMER_DATA" in done.stdout


@pytest.mark.data
@pytest.mark.parametrize("name", list(SOURCES))
def test_the_local_copies_are_complete(name):
    folder = os.environ.get("BUDGETFORMER_DATA")
    if not folder:
        pytest.skip("BUDGETFORMER_DATA names no folder with the data sets")
    test = load_named(name, "test")
    assert test.class_names == SOURCES[name].class_names
    assert set(Counter(test.dataset["label"])) == set(test.class_names)
