"""Figure 4: where the heads look in the paper's pair, and whether relevant heads have sharper maps.

Legend: L layers, H heads, R rows.
"""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np

from budgetformer.answers import Pair
from budgetformer.evaluation import inputs_of
from budgetformer.explaining import HEADS_SHOWN, explain
from budgetformer.explanation import Explanation
from budgetformer.inference import Classifier

PAPERS_PAIR = Pair("A man is playing guitar on a stage.", "A man is sleeping in a bed.")
SAMPLE = 64
"""Test rows, taken evenly, whose maps are measured: one pair shows one pair."""


def of_maps(classifier: Classifier, test: datasets.Dataset) -> dict[str, Any]:
    """Maps of the paper's pair, and over test rows the attention entropy by relevance rank.

    ``by_rank`` (L, H) are means in nats. ``lead``: entropy of the heads that are not among the ``shown`` most relevant
    less that of those, mean over layers, of each row; positive where relevant heads have sharper maps.
    """
    explained = explain(classifier, PAPERS_PAIR)
    places = np.unique(np.linspace(0, len(test) - 1, min(SAMPLE, len(test))).astype(int))
    found = [explain(classifier, text, heads=1) for text in inputs_of(test, places)]
    by_rank_RLH = np.stack([one.entropy_by_rank_LH for one in found])
    shown = min(HEADS_SHOWN, by_rank_RLH.shape[2] // 2)
    lead_R = (by_rank_RLH[:, :, shown:].mean(axis=2) - by_rank_RLH[:, :, :shown].mean(axis=2)).mean(axis=1)
    return {
        "attention_maps": _of_pair(explained),
        "attention_entropy": {
            "rows": len(found),
            "by_rank": by_rank_RLH.mean(axis=0).tolist(),
            "shown": shown,
            "lead": {"mean": float(lead_R.mean()), "std": float(lead_R.std(ddof=1)) if len(found) > 1 else 0.0},
        },
    }


def _of_pair(explained: Explanation) -> dict[str, Any]:
    """As JSON values; maps rounded to thousandths."""
    assert explained.relevance_LH is not None, "Figure 4 is of a model with budgets"
    return {
        "text": explained.text,
        "pair": explained.pair,
        "label": explained.prediction.label,
        "tokens": list(explained.tokens),
        "highest_entropy": explained.highest_entropy,
        "entropy_by_rank": explained.entropy_by_rank_LH.round(4).tolist(),
        "entropy": explained.entropy_LH.round(4).tolist(),
        "relevance": explained.relevance_LH.round(4).tolist(),
        "kept": explained.kept_LH.tolist(),
        "heads": explained.shown_LK.tolist(),
        "maps": explained.maps_LKNN.astype(float).round(3).tolist(),
    }
