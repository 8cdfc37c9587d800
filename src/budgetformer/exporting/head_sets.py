"""One set of heads per layer for all texts, chosen by what the model itself chose on texts at hand.

Legend: R texts, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .. import method
from ..answers import Pair
from ..inference import Classifier


@dataclass(frozen=True, kw_only=True)
class HeadSets:
    """The same heads for every text.

    ``budget``: the share of heads asked for. ``rankings``: the heads of every layer, most used first; the first
    ``heads`` of them are kept, or all where there are fewer: heads that a layer lost for good are in no ranking.
    ``texts``: how many texts they were measured on. ``same_labels``: on what share of these texts the model with fixed
    heads gives the label that the same model gives with its own choice and budgets.
    """

    budget: float
    heads: int
    rankings: tuple[tuple[int, ...], ...]
    texts: int
    same_labels: float

    @property
    def kept(self) -> tuple[tuple[int, ...], ...]:
        """The heads that are computed, per layer, in rising order."""
        return tuple(tuple(sorted(ranking[: self.heads])) for ranking in self.rankings)

    def policies(self) -> tuple[method.Policy, ...]:
        """The same choice for the model or a ``Classifier``: call it with ``budget=sets.budget, policy=…`` of these."""
        return tuple(method.static_policy(places(ranking)) for ranking in self.rankings)


def places(ranking: Sequence[int]) -> list[int]:
    """A ranking of the heads that a layer has, with each one's place among them for its number."""
    own = sorted(ranking)
    return [own.index(head) for head in ranking]


def measure_head_sets(classifier: Classifier, inputs: Sequence[str | Pair], *, budget: float) -> HeadSets:
    """Rank the heads of every layer by how many of ``inputs`` keep them at ``budget``, then by mean relevance.

    ``k = clamp(⌊budget · H⌋, min_heads, H)`` as in ``method.heads_kept``; of equal heads the lower index comes first.
    Raises ValueError for full attention, for no inputs and for a budget outside (0, 1].
    """
    config = classifier.config
    if not config.budgeted:
        raise ValueError("budget has no effect: this model has full attention and always uses all heads")
    if not inputs:
        raise ValueError("a fixed set of heads is chosen from relevance measured on texts: give at least one")
    own = classifier(list(inputs))
    asked = classifier(list(inputs), budget=budget, details=True)
    use_LH = np.mean(np.stack([answer.kept for answer in asked if answer.kept is not None]), axis=0)
    relevance_LH = np.mean(np.stack([a.relevance for a in asked if a.relevance is not None]), axis=0)
    rankings = [np.lexsort((-relevance_H, -use_H)) for use_H, relevance_H in zip(use_LH, relevance_LH, strict=True)]
    share_B = torch.tensor([budget], dtype=torch.float64)
    sets = HeadSets(
        budget=budget,
        heads=int(method.heads_kept(share_B, config.num_attention_heads, config.min_heads)),
        rankings=tuple(
            tuple(int(h) for h in ranking if h in config.heads_of(layer)) for layer, ranking in enumerate(rankings)
        ),
        texts=len(inputs),
        same_labels=0.0,
    )
    fixed = classifier(list(inputs), budget=budget, policy=sets.policies())
    same = np.mean([a.label == b.label for a, b in zip(own, fixed, strict=True)])
    return HeadSets(**(vars(sets) | {"same_labels": float(same)}))
