"""What a model did with one text: heads by relevance, budgets, attention maps, and how sharp the maps are.

Legend: L layers, H heads, N tokens of the text with the special ones, K heads per layer whose maps are shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .answers import Prediction

DECIMALS = 6
"""Of the numbers in ``Explanation.to_dict``."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One text (or pair), the answer to it, and every layer's heads.

    ``tokens`` (N) as the vocabulary names them, special tokens included: what the maps' rows and columns stand for.
    ``there_LH`` tells the heads that the layers have (None: all); those dropped for good have neither rank, entropy nor
    map. ``kept_LH`` tells the heads that ran; ``gates_LH`` are their weights (0 for the others). ``relevance_LH`` is p
    and ``budget_L`` the learned s; both are None with full attention, where all heads run. ``entropy_LH`` is the mean
    over the N tokens of ``-Σ_j a_ij ln a_ij``, in nats: 0 when every token attends to a single token, ln N when to all
    alike. ``shown_LK`` are the K most relevant heads of each layer, and ``maps_LKNN[l, k, i, j]`` is the share of
    token i's attention that goes to token j.

    Heads with ``kept_LH`` false were not computed for the answer. Their maps and entropies here were computed for the
    explanation alone, from the same input of the layer: what the head would have looked at.
    """

    text: str
    pair: str | None
    prediction: Prediction
    tokens: tuple[str, ...]
    budget_L: np.ndarray | None
    relevance_LH: np.ndarray | None
    kept_LH: np.ndarray
    gates_LH: np.ndarray
    entropy_LH: np.ndarray
    shown_LK: np.ndarray
    maps_LKNN: np.ndarray
    there_LH: np.ndarray | None = None

    @cached_property
    def has_LH(self) -> np.ndarray:
        """``there_LH``, true everywhere when it is None."""
        return np.ones(self.kept_LH.shape, dtype=bool) if self.there_LH is None else self.there_LH

    @cached_property
    def order_LH(self) -> np.ndarray:
        """The heads of each layer by rank: see ``by_relevance``."""
        return by_relevance(self.kept_LH, self.relevance_LH, self.has_LH)

    @cached_property
    def entropy_by_rank_LH(self) -> np.ndarray:
        """Attention entropy in nats of each layer's most relevant head, its second, and so on; NaN after its last."""
        known_LH = np.where(self.has_LH, self.entropy_LH, np.nan)
        return np.take_along_axis(known_LH, self.order_LH, axis=1)

    def entropy_by_rank(self, layer: int | None = None) -> np.ndarray:
        """The same as the mean over the layers that have such a head, or of one layer, (H,)."""
        by_rank_LH = self.entropy_by_rank_LH if layer is None else self.entropy_by_rank_LH[layer : layer + 1]
        known_LH = np.isfinite(by_rank_LH)
        counted_H = np.where(known_LH.any(axis=0), known_LH.sum(axis=0), np.nan)
        return np.where(known_LH, by_rank_LH, 0.0).sum(axis=0) / counted_H

    @property
    def highest_entropy(self) -> float:
        """``ln N`` nats: attention spread evenly over all tokens."""
        return math.log(len(self.tokens))

    def as_share(self, nats: np.ndarray | float) -> np.ndarray:
        """Entropies as a share of ``ln N``, in [0, 1]; NaN for a text of a single token, where it says nothing."""
        return np.asarray(nats) / (self.highest_entropy or math.nan)

    def mean_entropy(self, *, kept: bool, layer: int | None = None) -> float:
        """Mean entropy in nats over the heads that ran, or that did not; NaN when there is none."""
        chosen = (self.kept_LH == kept) & self.has_LH
        if layer is not None:
            chosen = chosen & (np.arange(len(chosen)) == layer)[:, None]
        return float(self.entropy_LH[chosen].mean()) if chosen.any() else math.nan

    def to_dict(self) -> dict[str, Any]:
        """Every number, for JSON: what does not exist is None. Heads are listed by rank, the shown ones with a map."""
        answer = self.prediction
        return {
            "text": self.text,
            "pair": self.pair,
            "label": answer.label,
            "score": answer.score,
            "scores": answer.scores,
            "macs": answer.macs,
            "truncated": answer.truncated,
            "reason": answer.reason,
            "tokens": list(self.tokens),
            "highest_entropy": _number(self.highest_entropy),
            "entropy": self._entropies(None),
            "layers": [self._layer(layer) for layer in range(len(self.kept_LH))],
        }

    def _entropies(self, layer: int | None) -> dict[str, Any]:
        """In nats and as shares of ln N: of the heads that ran, of the others, and by rank (mean over the layers)."""
        nats: dict[str, Any] = {
            "kept": self.mean_entropy(kept=True, layer=layer),
            "not_kept": self.mean_entropy(kept=False, layer=layer),
            "by_rank": self.entropy_by_rank(layer),
        }
        return {
            "nats": {name: _number(value) for name, value in nats.items()},
            "share": {name: _number(self.as_share(value)) for name, value in nats.items()},
        }

    def _layer(self, layer: int) -> dict[str, Any]:
        shown = {int(head): place for place, head in enumerate(self.shown_LK[layer])}
        heads = []
        for rank, head in enumerate(h for h in map(int, self.order_LH[layer]) if self.has_LH[layer, h]):
            entropy = float(self.entropy_LH[layer, head])
            row: dict[str, Any] = {
                "head": head,
                "rank": rank,
                "kept": bool(self.kept_LH[layer, head]),
                "relevance": None if self.relevance_LH is None else _number(self.relevance_LH[layer, head]),
                "gate": _number(self.gates_LH[layer, head]),
                "entropy": _number(entropy),
                "entropy_share": _number(self.as_share(entropy)),
            }
            if head in shown:
                row["map"] = _number(self.maps_LKNN[layer, shown[head]])
            heads.append(row)
        return {
            "layer": layer,
            "budget": None if self.budget_L is None else _number(self.budget_L[layer]),
            "heads_kept": int(self.kept_LH[layer].sum()),
            "entropy": self._entropies(layer),
            "heads": heads,
        }


def by_relevance(
    kept_LH: np.ndarray, relevance_LH: np.ndarray | None, there_LH: np.ndarray | None = None
) -> np.ndarray:
    """Heads of each layer by rank, (L, H): those that ran first, then by relevance, ties to the lower index.

    That is the model's own order, also where a small relevance is rounded to 0. Without relevance, by index. Heads that
    are not in ``there_LH`` come last.
    """
    relevance_LH = np.zeros(kept_LH.shape) if relevance_LH is None else relevance_LH
    gone_LH = np.zeros(kept_LH.shape, dtype=bool) if there_LH is None else ~there_LH
    return np.lexsort((-relevance_LH, ~kept_LH, gone_LH), axis=1)


def _number(value: Any) -> Any:
    """Rounded, with None for what is not a number; arrays as lists."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim:
        return [_number(part) for part in array] if not np.isfinite(array).all() else array.round(DECIMALS).tolist()
    return round(float(array), DECIMALS) if np.isfinite(array) else None
