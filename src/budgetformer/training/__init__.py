"""Training over ``transformers.Trainer``."""

from .guards import Interrupted, TimeOver
from .runner import TrainingResult, run, train
from .schedule import BudgetSchedule, NonFiniteError
from .settings import TrainingSettings
from .trainer import CheckpointError

__all__ = [
    "BudgetSchedule",
    "CheckpointError",
    "Interrupted",
    "NonFiniteError",
    "TimeOver",
    "TrainingResult",
    "TrainingSettings",
    "run",
    "train",
]
