"""The answer to a claim, and the list of the paper's claims."""

from __future__ import annotations

from dataclasses import dataclass

HELD, FAILED, OPEN = "held", "failed", "cannot be decided at this scale"
UNKNOWN = "no rows yet"

ACCURATE = "accuracy at least the Transformer's"
FALLS, AGREE = "the budget falls during training", "training and validation budget agree"
HARDER = "the budget rises with difficulty"
CLASS_ORDER = "neutral > contradiction > entailment"
CLASS_MEAN = f"mean budget: {CLASS_ORDER}"
CLASS_SPREAD = f"spread of the budget: {CLASS_ORDER}"
CLASS_ENTROPY = f"entropy of the relevance: {CLASS_ORDER}"
MIDDLE, DEPTH = "the spread of the budget peaks in middle layers", "entropy falls with depth"
ADAPTIVE = "adaptive beats every fixed budget"
RANDOM = "random heads collapse, at evaluation"
RANDOM_TRAINED = "random heads collapse, in training too"
LARGER, LESS_DATA = "larger models use smaller budgets", "less data, larger budget"
SHARPER = "relevant heads have sharper maps"
MEMORY, TRAINING = "attention memory falls with the heads", "training costs no more"

CLAIMS = {
    ACCURATE: "table2",
    FALLS: "table2",
    AGREE: "table2",
    HARDER: "figure2",
    CLASS_MEAN: "figure3",
    CLASS_SPREAD: "figure3",
    CLASS_ENTROPY: "figure3",
    MIDDLE: "figure3",
    DEPTH: "figure3",
    ADAPTIVE: "table3",
    RANDOM: "table4",
    RANDOM_TRAINED: "table4",
    LARGER: "table5",
    LESS_DATA: "table6",
    SHARPER: "figure4",
    MEMORY: "cost",
    TRAINING: "cost",
}
"""Every claim of the paper that is checked, and the experiment that has the rows for it."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One claim on one data set: ``answer`` is HELD, FAILED, OPEN or UNKNOWN, ``why`` has the figures."""

    claim: str
    data: str
    answer: str
    why: str
