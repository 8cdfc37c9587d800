"""What a model trained on the controlled task does with its heads, as figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression

from budgetformer import method
from budgetformer.attention import budgeted_layers
from budgetformer.data.controlled import RELATIONS, ControlledData
from budgetformer.modeling import BudgetFormerForSequenceClassification


@torch.no_grad()
def answer(
    model: BudgetFormerForSequenceClassification, data: ControlledData, policy: method.Policy | None = None
) -> dict[str, np.ndarray]:
    """Predictions and, for a budgeted model, what it decided for every input."""
    parts: dict[str, list[torch.Tensor]] = {}
    for ids in torch.from_numpy(data.input_ids).split(500):
        output = model(ids, policy=policy, output_budgets=True)
        fields = {"predicted": output.logits.argmax(dim=-1)}
        fields |= {name: output[name] for name in ("budgets", "heads", "relevance", "kept") if name in output}
        for name, value in fields.items():
            parts.setdefault(name, []).append(value)
    return {name: torch.cat(values).numpy() for name, values in parts.items()}


def by_difficulty(values: np.ndarray, data: ControlledData) -> list[float]:
    """Mean for every difficulty 0..R."""
    return [round(float(values[data.difficulty == d].mean()), 4) for d in range(len(RELATIONS) + 1)]


def rank_correlation(values: np.ndarray, data: ControlledData) -> float | None:
    """Spearman's rank correlation with the difficulty; None when all values are the same."""
    return None if np.ptp(values) < 1e-9 else round(float(spearmanr(values, data.difficulty).statistic), 4)


def correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    """Pearson's correlation of all entries; None when one side is constant."""
    return None if min(np.ptp(a), np.ptp(b)) < 1e-9 else round(float(np.corrcoef(a.ravel(), b.ravel())[0, 1]), 4)


def effect_of_naming(use_named_minus_unnamed: np.ndarray) -> np.ndarray:
    """(R, L, H): how much more a head is used when relation r is named and the other relations stay as they are.

    The plain difference ``use_named_minus_unnamed`` mixes relations, since an input that names r names every other
    relation in 2/3 of the cases and one that does not in 1/3. So it is ``M · effect`` with ``M_rr = 1, M_rs = 1/3``.
    """
    mixing = np.full((len(RELATIONS), len(RELATIONS)), 1 / 3)
    np.fill_diagonal(mixing, 1.0)
    flat = use_named_minus_unnamed.reshape(len(RELATIONS), -1)
    return np.linalg.solve(mixing, flat).reshape(use_named_minus_unnamed.shape)


def readable(features: np.ndarray, data: ControlledData) -> float:
    """How well a logistic regression reads the named relations from ``features`` (rows, F): mean accuracy of R bits.

    Fitted on the first half of the rows, measured on the second.
    """
    half = len(features) // 2
    scores = []
    for r in range(len(RELATIONS)):
        fitted = LogisticRegression(C=100.0, max_iter=2000).fit(features[:half], data.named[:half, r])
        scores.append(fitted.score(features[half:], data.named[half:, r]))
    return round(float(np.mean(scores)), 4)


def right_by_relation(predicted: np.ndarray, data: ControlledData) -> list[float]:
    """For every relation: how often its bit of the label is right among the inputs that name it."""
    return [
        round(float(((predicted >> r & 1) == data.answers[:, r])[data.named[:, r]].mean()), 4)
        for r in range(len(RELATIONS))
    ]


@torch.no_grad()
def harm_without_head(model: BudgetFormerForSequenceClassification, data: ControlledData) -> np.ndarray:
    """(R, L, H): what every relation loses in ``right_by_relation`` when one head gives nothing, for all inputs."""
    config = model.config
    base = np.array(right_by_relation(answer(model, data)["predicted"], data))
    harm = np.zeros((len(RELATIONS), config.num_hidden_layers, config.num_attention_heads))
    for layer, attention in enumerate(budgeted_layers(model)):
        weight = attention.output.weight
        for head in range(config.num_attention_heads):
            columns = slice(head * config.head_size, (head + 1) * config.head_size)
            saved = weight[:, columns].clone()
            weight[:, columns] = 0.0
            harm[:, layer, head] = base - right_by_relation(answer(model, data)["predicted"], data)
            weight[:, columns] = saved
    return harm


def measure(model: BudgetFormerForSequenceClassification, data: ControlledData) -> dict[str, Any]:
    """All figures of one trained model; see docs/controlled.md."""
    learned = answer(model, data)
    right = learned["predicted"] == data.labels
    metrics: dict[str, Any] = {
        "accuracy": round(float(right.mean()), 4),
        "accuracy_by_difficulty": by_difficulty(right, data),
    }
    metrics["accuracy_by_relation"] = right_by_relation(learned["predicted"], data)
    if "heads" not in learned:
        layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
        return metrics | {"mean_heads": float(heads), "heads_per_layer": [float(heads)] * layers}
    heads, kept = learned["heads"].astype(float), learned["kept"].astype(float)
    metrics["mean_heads"] = round(float(heads.mean()), 4)
    metrics["heads_per_layer"] = heads.mean(axis=0).round(4).tolist()
    metrics["heads_by_difficulty"] = by_difficulty(heads.mean(axis=1), data)
    if model.config.fixed_budget is not None:
        return metrics
    rng = np.random.default_rng(0)
    within = np.arange(len(heads))
    for d in range(len(RELATIONS) + 1):
        within[data.difficulty == d] = rng.permutation(within[data.difficulty == d])
    random = answer(model, data, method.random_policy(seed=0))["predicted"] == data.labels
    relevance, use = learned["relevance"].reshape(len(heads), -1), kept.reshape(len(heads), -1)
    follows = np.stack(
        [kept[data.named[:, r]].mean(axis=0) - kept[~data.named[:, r]].mean(axis=0) for r in range(len(RELATIONS))]
    )
    harm = harm_without_head(model, data.first(1000))
    return metrics | {
        "mean_budget": round(float(learned["budgets"].mean()), 4),
        "budget_per_layer": learned["budgets"].mean(axis=0).round(4).tolist(),
        "budget_by_difficulty": by_difficulty(learned["budgets"].mean(axis=1), data),
        "rank_correlation_budget": rank_correlation(learned["budgets"].mean(axis=1), data),
        "rank_correlation_budget_per_layer": [rank_correlation(s, data) for s in learned["budgets"].T],
        "rank_correlation_heads": rank_correlation(heads.mean(axis=1), data),
        "accuracy_random_heads": round(float(random.mean()), 4),
        "accuracy_random_heads_by_difficulty": by_difficulty(random, data),
        "named_from_relevance": readable(relevance, data),
        "named_from_relevance_shuffled": readable(relevance[rng.permutation(len(heads))], data),
        "named_from_relevance_shuffled_within_difficulty": readable(relevance[within], data),
        "named_from_heads": readable(use, data),
        "named_from_heads_shuffled_within_difficulty": readable(use[within], data),
        "distinct_heads_per_layer": (kept.mean(axis=0) > 0.01).sum(axis=-1).tolist(),
        "use_named_minus_unnamed": follows.round(3).tolist(),
        "harm_without_head": harm.round(3).tolist(),
    }
