"""How sure a measured share is."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Interval:
    """``low`` to ``high``, both in [0, 1]."""

    low: float
    high: float


def wilson(share: float, rows: int, *, z: float = 1.96) -> Interval:
    """Wilson's interval of a share measured on ``rows`` independent rows (95 % with z = 1.96).

    ``(p + z²/2n ± z · sqrt(p (1 − p) / n + z²/4n²)) / (1 + z²/n)``. Raises ValueError for a share outside [0, 1] or
    less than one row.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie in [0, 1], got {share}")
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    centre = share + z**2 / (2 * rows)
    reach = z * math.sqrt(share * (1 - share) / rows + z**2 / (4 * rows**2))
    scale = 1 + z**2 / rows
    return Interval(low=max(0.0, (centre - reach) / scale), high=min(1.0, (centre + reach) / scale))
