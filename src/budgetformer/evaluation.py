"""Measure a classifier on labelled rows: accuracy, heads, cost, speed, and which heads served which class."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import datasets
import numpy as np
from sklearn.metrics import confusion_matrix
from tqdm.auto import tqdm

from .configuration import IGNORED
from .inference import Classifier, Pair, Prediction
from .metering.macs import dense_macs
from .metering.scores import scores


@dataclass(frozen=True, kw_only=True)
class HeadUse:
    """Arrays behind the pictures of the heads; C classes (true ones), L layers, H heads.

    ``relevance_LH`` and ``use_LH`` are means over all texts, ``relevance_CLH`` and ``use_CLH`` per class (NaN for a
    class without rows), ``budget_RL`` the learned budgets of the rows in order.
    """

    relevance_LH: np.ndarray
    use_LH: np.ndarray
    relevance_CLH: np.ndarray
    use_CLH: np.ndarray
    budget_RL: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """``figures`` as in ``budgetformer evaluate --json``; ``heads`` None with full attention or when not asked for.

    ``correct`` tells for every scored row, in order, whether its label was found.
    """

    figures: dict[str, Any]
    heads: HeadUse | None
    correct: np.ndarray = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A row that the model got wrong: its number, texts, true label and the prediction."""

    row: int
    text: str
    pair: str | None
    label: str
    prediction: Prediction


def evaluate(
    classifier: Classifier,
    dataset: datasets.Dataset,
    *,
    budget: float | None = None,
    max_budget: float | None = None,
    policy: Any = None,
    rescale_gates: bool = False,
    details: bool = False,
    on_mistake: Callable[[Mistake], None] | None = None,
    progress: bool = False,
    title: str = "Evaluating",
) -> Evaluation:
    """Classify the rows that have a label and compare.

    Args:
        dataset: text, perhaps pair, ``label`` as class index with -100 for none, row (see ``data.labels``).
        budget, max_budget, policy, rescale_gates: as in ``Classifier``.
        details: gather ``HeadUse``. on_mistake: called for every wrong row, in order.

    Times tokenisation and inference, not loading. ``macs`` are the multiply-adds that were executed per text, and
    ``macs_dense`` those of the same execution with all heads; one that computes all heads and padding reports both.
    Raises ValueError when no row has a label.
    """
    labels = np.asarray(dataset.with_format("numpy")["label"], dtype=np.int64)
    scored = np.flatnonzero(labels != IGNORED)
    if not len(scored):
        raise ValueError(f"none of the {len(dataset)} rows has a label, so there is nothing to evaluate")
    tally = _Tally(classifier, details=details)
    names = classifier.labels
    started = time.perf_counter()
    answers = classifier.stream(
        inputs_of(dataset, scored),
        budget=budget,
        max_budget=max_budget,
        policy=policy,
        rescale_gates=rescale_gates,
        details=details,
    )
    bar = tqdm(answers, total=len(scored), desc=title, unit="text", disable=None if progress else True, leave=False)
    for place, answer in zip(scored, bar, strict=True):
        tally.add(answer, int(labels[place]))
        if on_mistake is not None and answer.label != names[labels[place]]:
            record = dataset[int(place)]
            on_mistake(
                Mistake(
                    row=record.get("row", int(place)),
                    text=record["text"],
                    pair=record.get("pair"),
                    label=names[labels[place]],
                    prediction=answer,
                )
            )
    seconds = time.perf_counter() - started
    truth = labels[scored]
    figures = tally.figures(truth, budget=budget, max_budget=max_budget) | {
        "rows": len(scored),
        "rows_read": len(dataset),
        "rows_without_label": len(dataset) - len(scored),
        "seconds": seconds,
        "texts_per_second": len(scored) / seconds,
    }
    return Evaluation(
        figures=figures,
        heads=tally.head_use(truth) if details else None,
        correct=np.array(tally.guesses) == truth,
    )


def inputs_of(dataset: datasets.Dataset, places: np.ndarray) -> Iterator[str | Pair]:
    """The texts or pairs at ``places``, a block at a time."""
    paired = "pair" in dataset.features
    rows = dataset.select(places) if len(places) < len(dataset) else dataset
    for batch in rows.iter(batch_size=1024):
        yield from (Pair(a, b) for a, b in zip(batch["text"], batch["pair"], strict=True)) if paired else batch["text"]


class _Tally:
    """Gathers predictions row by row."""

    def __init__(self, classifier: Classifier, *, details: bool) -> None:
        self.classifier, self.details = classifier, details
        config = classifier.config
        shape = (config.num_labels, config.num_hidden_layers, config.num_attention_heads)
        self.index = {name: i for i, name in enumerate(classifier.labels)}
        self.guesses: list[int] = []
        self.tokens: list[int] = []
        self.budgets: list[list[float]] = []
        self.heads_L = np.zeros(config.num_hidden_layers)
        self.macs = 0
        self.truncated = self.empty = 0
        self.relevance_CLH, self.use_CLH = np.zeros(shape), np.zeros(shape)

    def add(self, answer: Prediction, label: int) -> None:
        self.guesses.append(self.index[answer.label])
        self.tokens.append(answer.tokens)
        if answer.budgets:
            self.budgets.append(answer.budgets)
        self.heads_L += answer.heads
        self.macs += answer.macs
        self.truncated += answer.truncated
        self.empty += answer.reason is not None
        if self.details and answer.relevance is not None and answer.kept is not None:
            self.relevance_CLH[label] += answer.relevance
            self.use_CLH[label] += answer.kept

    def figures(self, truth: np.ndarray, *, budget: float | None, max_budget: float | None) -> dict[str, Any]:
        config, names = self.classifier.config, self.classifier.labels
        rows, guesses = len(truth), np.array(self.guesses)
        shares = np.array(self.budgets) if self.budgets else np.ones((1, max(config.num_hidden_layers, 1)))
        default = config.default_budget if budget is None and max_budget is None else None
        if config.budgeted and (budget is not None or default is not None):
            shares = np.full_like(shares, default if budget is None else budget)
        elif max_budget is not None and config.budgeted:
            shares = np.minimum(shares, max_budget)
        heads_per_layer = self.heads_L / rows
        path = self.classifier.model.execution_path
        return {
            **scores(truth, guesses),
            "truncated": self.truncated,
            "without_tokens": self.empty,
            "mean_budget": float(shares.mean()),
            "mean_heads": float(heads_per_layer.mean()) if len(heads_per_layer) else 0.0,
            "heads_per_layer": heads_per_layer.tolist(),
            "macs": self.macs / rows,
            "macs_dense": float(dense_macs(config, np.array(self.tokens)).mean()) if path.PACKED else self.macs / rows,
            "labels": names,
            "confusion": confusion_matrix(truth, guesses, labels=range(len(names))).tolist(),
            "budget": budget,
            "max_budget": max_budget,
            "default_budget": default,
            "execution": path.NAME,
            "precision": self.classifier.precision.name,
        }

    def head_use(self, truth: np.ndarray) -> HeadUse | None:
        if not self.budgets:
            return None
        with np.errstate(invalid="ignore"):
            rows_C11 = np.bincount(truth, minlength=len(self.relevance_CLH))[:, None, None]
            per_class = self.relevance_CLH / rows_C11, self.use_CLH / rows_C11
        return HeadUse(
            relevance_LH=self.relevance_CLH.sum(axis=0) / len(truth),
            use_LH=self.use_CLH.sum(axis=0) / len(truth),
            relevance_CLH=per_class[0],
            use_CLH=per_class[1],
            budget_RL=np.array(self.budgets, dtype=np.float32),
        )
