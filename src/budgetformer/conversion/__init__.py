"""Pretrained encoders and classifiers as BudgetFormers, and back: families, exact conversion, ranking of heads."""

from .converting import Conversion, ZeroShot, convert
from .export import to_transformers
from .rows import RowSource

__all__ = ["Conversion", "RowSource", "ZeroShot", "convert", "to_transformers"]
