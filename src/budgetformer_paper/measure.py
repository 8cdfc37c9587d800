"""A trained model is asked what the recipe asks, and the answers become the figures of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np

from budgetformer.attention import budgeted_layers
from budgetformer.baselines import evaluate_tfidf, random_policy, static_policy
from budgetformer.configuration import BudgetFormerConfig
from budgetformer.data.labels import encode_labels
from budgetformer.evaluation import Evaluation, Mistake, evaluate, inputs_of
from budgetformer.inference import Classifier
from budgetformer.metering.carbon import EnergyMeter, paper_grams
from budgetformer.metering.macs import paper_macs
from budgetformer.reporting.intervals import wilson

from .attention_maps import of_maps
from .groups import by_class, by_difficulty
from .recipe import Ask, Recipe
from .rows import Drawn

SAMPLE = 1024
"""Test rows, taken evenly, on which the entropy of the relevance is measured."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """``figures`` of the row as JSON values; ``budgets_RL`` the learned budgets of the test rows, None without any.

    ``answers``: for every test row its number in the file of test rows (from 0), its label and the predicted one, when
    they were asked for.
    """

    figures: dict[str, Any]
    budgets_RL: np.ndarray | None
    answers: Sequence[tuple[int, str, str]] = ()


def measure(
    recipe: Recipe,
    models: Sequence[Path],
    drawn: Drawn,
    *,
    seed: int,
    device: str,
    quiet: bool,
    answers: bool = False,
) -> Measured:
    """Ask the model in the first of the folders ``models`` on the test rows; the second is that of its twin.

    ``answers``: keep what was predicted for every row.
    """
    classifier = Classifier.from_pretrained(models[0], device=device)
    test = labelled(drawn, "test", classifier.labels)
    ask = recipe.ask
    if ask.min_heads is not None:
        set_min_heads(classifier, ask.min_heads)
    question: dict[str, Any] = {"budget": ask.budget, "rescale_gates": ask.rescale_gates}
    if ask.heads == "random":
        question["policy"] = random_policy(seed)
    elif ask.heads == "static":
        question["policy"] = static_pruning(classifier, labelled(drawn, "validation", classifier.labels))
    mistakes: list[Mistake] = []
    noted = mistakes.append if answers else None
    with EnergyMeter(device=classifier.model.device) as meter:
        found = evaluate(
            classifier, test, details=True, progress=not quiet, title=recipe.label, on_mistake=noted, **question
        )
    figures = shares(found, ask)
    rows = figures["rows"]
    return Measured(
        figures={
            **scored(figures["accuracy"], figures["macro_f1"], rows),
            **{name: figures[name] for name in ("mean_budget", "mean_heads", "heads_per_layer", "macs", "macs_dense")},
            **{name: figures[name] for name in ("truncated", "texts_per_second", "execution", "precision")},
            **in_the_papers_accounting(classifier.config, rows, figures["mean_budget"]),
            **of_heads(classifier, test, None if found.heads is None else found.heads.budget_RL, question),
            **(of_difficulty(found, models[1], test, device=device) if ask.difficulty else {}),
            **(of_maps(classifier, test) if ask.maps else {}),
            "evaluation_seconds": round(figures["seconds"], 3),
            "energy": meter.energy.row(rows),
        },
        budgets_RL=None if found.heads is None else found.heads.budget_RL,
        answers=answers_of(found, test, classifier.labels, mistakes) if answers else (),
    )


def answers_of(
    found: Evaluation, test: datasets.Dataset, names: Sequence[str], mistakes: Sequence[Mistake]
) -> list[tuple[int, str, str]]:
    """Number, label and predicted label of every test row; ``mistakes`` in order. All drawn rows have a label."""
    wrong = iter(mistakes)
    truth = [names[label] for label in test["label"]]
    guesses = zip(truth, found.correct, strict=True)
    predicted = [label if correct else next(wrong).prediction.label for label, correct in guesses]
    return list(zip(range(len(truth)), truth, predicted, strict=True))


def measure_tfidf(drawn: Drawn, *, seed: int) -> Measured:
    """TF-IDF with logistic regression, fitted on the training rows."""
    names = sorted(set(drawn.read("train")["label"]))
    found = evaluate_tfidf(labelled(drawn, "train", names), labelled(drawn, "test", names), seed=seed)
    figures = scored(found["accuracy"], found["macro_f1"], found["rows"])
    return Measured(figures=figures | {"texts_per_second": found["texts_per_second"]}, budgets_RL=None)


def labelled(drawn: Drawn, split: str, names: list[str]) -> datasets.Dataset:
    """The rows of a split with labels as places in ``names``."""
    return encode_labels(drawn.read(split), names, source=getattr(drawn, split))


def scored(accuracy: float, macro_f1: float, rows: int) -> dict[str, Any]:
    """Accuracy with its 95 % interval."""
    reach = wilson(accuracy, rows)
    return {"accuracy": accuracy, "interval": [reach.low, reach.high], "macro_f1": macro_f1, "test_rows": rows}


def shares(found: Evaluation, ask: Ask) -> dict[str, Any]:
    """The figures of an evaluation, with the budget that decided: static pruning has none but its heads."""
    figures = dict(found.figures)
    if ask.heads == "static":
        figures["mean_budget"] = None
    return figures


def in_the_papers_accounting(config: BudgetFormerConfig, rows: int, budget: float | None) -> dict[str, Any]:
    """Multiply-adds and grams over all test rows as the paper counts them: attention only, padded, no skipping.

    None where its formula does not apply.
    """
    if config.budgeted and budget is None:
        return {"paper_macs": None, "paper_grams": None}
    length = config.text_limit
    macs = paper_macs(config, length=length, rows=rows, budget=budget if config.budgeted else None)
    return {"paper_macs": macs, "paper_grams": paper_grams(macs)}


def set_min_heads(classifier: Classifier, heads: int) -> None:
    """Change the least number of heads of a loaded model."""
    classifier.config.min_heads = heads
    for layer in budgeted_layers(classifier.model):
        layer.min_heads = heads


def static_pruning(classifier: Classifier, validation: datasets.Dataset) -> list[Any]:
    """A policy for each layer: one ranking, one number of heads, both from the means over the validation rows."""
    use = evaluate(classifier, validation, details=True).heads
    assert use is not None, "static pruning is asked of a model with budgets"
    policies = []
    for relevance_H, kept_H in zip(use.relevance_LH, use.use_LH, strict=True):
        ranking = np.argsort(-relevance_H, kind="stable").tolist()
        budget = max(1, round(float(kept_H.sum()))) / len(kept_H)
        policies.append(_with_budget(static_policy(ranking), budget))
    return policies


def _with_budget(policy: Any, budget: float) -> Any:
    def apply(share_B: Any, scores_BH: Any, keys_B: Any) -> Any:
        return policy(share_B.new_full(share_B.shape, budget), scores_BH, keys_B)

    return apply


def of_heads(
    classifier: Classifier, test: datasets.Dataset, budget_RL: np.ndarray | None, question: dict[str, Any]
) -> dict[str, Any]:
    """Effective heads by layer (exp of the entropy of the relevance, mean over rows taken evenly), and by class the
    learned budgets and the entropy; None with full attention.

    The rows are asked the ``question`` of the evaluation, since what a layer sees depends on the heads of those below.
    """
    if budget_RL is None:
        return {"effective_heads_per_layer": None}
    truth_R = np.asarray(test.with_format("numpy")["label"])
    places = np.unique(np.linspace(0, len(test) - 1, min(SAMPLE, len(test))).astype(int))
    answers = classifier.stream(inputs_of(test, places), details=True, **question)
    relevance_BLH = np.stack([answer.relevance for answer in answers if answer.relevance is not None])
    entropy_BL = -(relevance_BLH * np.log(np.clip(relevance_BLH, 1e-30, None))).sum(axis=-1)
    return {
        "effective_heads_per_layer": np.exp(entropy_BL).mean(axis=0).tolist(),
        "budget_by_class": by_class(budget_RL, truth_R, classifier.labels),
        "entropy_by_class": by_class(entropy_BL, truth_R[places], classifier.labels),
    }


def of_difficulty(found: Evaluation, twin: Path, test: datasets.Dataset, *, device: str) -> dict[str, Any]:
    """Budgets of simple and hard rows, by the loss of the twin and by what can be seen of the text."""
    assert found.heads is not None, "difficulty is asked of a model with budgets"
    dense = Classifier.from_pretrained(twin, device=device)
    names = [dense.labels[label] for label in test["label"]]
    answers = dense.stream(inputs_of(test, np.arange(len(test))))
    loss_R = -np.log([max(answer.scores[name], 1e-30) for answer, name in zip(answers, names, strict=True)])
    texts = list(test["text"])
    if "pair" in test.features:
        texts = [f"{a} {b}" for a, b in zip(texts, test["pair"], strict=True)]
    return {"budget_by_difficulty": by_difficulty(found.heads.budget_RL.mean(axis=1), loss_R, texts)}


def curves(history: list[dict[str, Any]], *, most: int = 60) -> dict[str, Any]:
    """The log of a training for a row: every evaluation, and at most ``most`` of the updates between, evenly taken."""
    evaluations = [_finite(entry) for entry in history if "eval_accuracy" in entry]
    updates = [_finite(entry) for entry in history if "loss" in entry]
    step = max(1, -(-len(updates) // most))
    return {"training": updates[::step], "validation": evaluations}


def _finite(entry: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in entry.items() if not isinstance(v, float) or np.isfinite(v)}


def with_seed(recipe: Recipe, seed: int) -> Recipe:
    """The recipe with the seed of a run."""
    if recipe.training is None:
        return recipe
    return replace(recipe, training=replace(recipe.training, seed=seed))
