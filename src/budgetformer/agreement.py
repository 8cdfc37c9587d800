"""How far the answers in another number format are from those in float32."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
from tqdm.auto import tqdm

from .configuration import IGNORED
from .evaluation import inputs_of
from .inference import Classifier


def agreement(
    classifier: Classifier, exact: Classifier, dataset: datasets.Dataset, *, progress: bool = False, **request: Any
) -> dict[str, float | None]:
    """Compare two formats of one model on all rows of ``dataset``; ``request`` as in ``Classifier``.

    Returns ``labels``: share of the texts with the same label; ``heads``: share of the heads (text, layer, head) that
    are kept in both or in neither, 1.0 with full attention; ``head_sets``: share of the (text, layer) with exactly
    the same heads; ``score_difference``: the largest difference of a label's score; ``accuracy_float32``: of the rows
    that have a label (a class index, -100 for none), the share that ``exact`` gets right, None without such rows.
    Raises ValueError for no rows.
    """
    if not len(dataset):
        raise ValueError("the data have no rows, so there is nothing to compare")
    everything = np.arange(len(dataset))
    truth = dataset["label"] if "label" in dataset.features else [IGNORED] * len(dataset)
    names, right, labelled = exact.labels, 0, 0
    streams = [c.stream(inputs_of(dataset, everything), **request, details=True) for c in (classifier, exact)]
    both = zip(*streams, strict=True)
    labels = heads = sets = 0.0
    furthest = 0.0
    bar = tqdm(both, total=len(dataset), desc="Against float32", disable=None if progress else True, leave=False)
    for (one, other), label in zip(bar, truth, strict=True):
        if label != IGNORED:
            labelled, right = labelled + 1, right + (other.label == names[label])
        labels += one.label == other.label
        furthest = max(furthest, *(abs(one.scores[name] - score) for name, score in other.scores.items()))
        if one.kept is None or other.kept is None:
            heads, sets = heads + 1, sets + 1
        else:
            same_LH = one.kept == other.kept
            heads += same_LH.mean() if same_LH.size else 1.0
            sets += same_LH.all(axis=1).mean() if same_LH.size else 1.0
    rows = len(dataset)
    return {
        "labels": labels / rows,
        "heads": float(heads / rows),
        "head_sets": float(sets / rows),
        "score_difference": furthest,
        "accuracy_float32": right / labelled if labelled else None,
    }
