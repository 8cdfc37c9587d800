"""What a BudgetFormer is compared with: TF-IDF with logistic regression, and the other ways to choose heads.

The head policies (dense, fixed, random, static) are functions of ``method`` and are named here beside it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import datasets
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from .configuration import IGNORED
from .data.errors import DataError
from .metering.scores import scores
from .method import Policy, dense_policy, fixed_policy, random_policy, static_policy

__all__ = ["Policy", "dense_policy", "evaluate_tfidf", "fixed_policy", "random_policy", "static_policy", "tfidf"]


def tfidf(*, seed: int = 0) -> Pipeline:
    """TF-IDF of words and word pairs (sublinear, of at least 2 texts) with logistic regression, C = 10."""
    return make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2),
        LogisticRegression(C=10.0, max_iter=1000, random_state=seed),
    )


def evaluate_tfidf(train: datasets.Dataset, test: datasets.Dataset, *, seed: int = 0) -> dict[str, Any]:
    """Fit on ``train`` and measure on ``test``; labels are indices, rows without label are left out.

    Returns accuracy, macro_f1, rows, texts_per_second (vectorising and predicting, as for the models).
    Raises DataError for training texts that share no word.
    """
    texts, labels = _known(train)
    if not _shared_words(texts):
        raise DataError(
            f"TF-IDF counts words that at least 2 training texts have, and these {len(texts):,} texts share none"
        )
    model = tfidf(seed=seed).fit(texts, labels)
    test_texts, truth = _known(test)
    started = time.perf_counter()
    guesses = model.predict(test_texts)
    seconds = time.perf_counter() - started
    return scores(truth, guesses) | {"rows": len(truth), "texts_per_second": len(truth) / seconds}


def _shared_words(texts: Sequence[str]) -> bool:
    """Whether any word stands in two of the texts."""
    words, seen = TfidfVectorizer().build_analyzer(), set[str]()
    for text in texts:
        here = set(words(text))
        if here & seen:
            return True
        seen |= here
    return False


def _known(dataset: datasets.Dataset) -> tuple[Sequence[str], np.ndarray]:
    labels = np.asarray(dataset.with_format("numpy")["label"])
    known = np.flatnonzero(labels != IGNORED)
    rows = dataset.select(known)
    texts = list(rows["text"])
    if "pair" in rows.features:
        texts = [f"{a}\n{b}" for a, b in zip(texts, rows["pair"], strict=True)]
    return texts, labels[known]
