"""Pretrained encoders and classifiers as BudgetFormers, and back: exact conversion, ranking of heads, budgets."""

from ..data.sources import RowSource
from .budgeting import budget_classifier, train_from
from .converting import Conversion, ZeroShot, convert
from .export import to_transformers
from .pruning import PrunedFolder, prune_unused

__all__ = [
    "Conversion",
    "PrunedFolder",
    "RowSource",
    "ZeroShot",
    "budget_classifier",
    "convert",
    "prune_unused",
    "to_transformers",
    "train_from",
]
