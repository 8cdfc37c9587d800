"""Speed of a model folder side by side with what else could answer the same texts."""

from __future__ import annotations

from .measure import BenchResult, BenchSettings, bench
from .progress import StageBar

__all__ = ["BenchResult", "BenchSettings", "StageBar", "bench"]
