"""One function per picture; each takes numbers and returns a matplotlib Figure, with no global state."""

from .attention import HeadMap, heads_of_a_text, maps_of_a_layer
from .budget_curve import CurvePoint, budget_curve
from .heads import HeadArrays, budget_distribution, head_maps, head_maps_by_class
from .speed import speed_figure
from .training import budgets_over_training, training_curves

__all__ = [
    "CurvePoint",
    "HeadArrays",
    "HeadMap",
    "budget_curve",
    "budget_distribution",
    "budgets_over_training",
    "head_maps",
    "head_maps_by_class",
    "heads_of_a_text",
    "maps_of_a_layer",
    "speed_figure",
    "training_curves",
]
