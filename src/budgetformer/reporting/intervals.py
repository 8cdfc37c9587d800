"""How sure a measured share is."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Interval:
    """``low`` to ``high``."""

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


def paired_difference(losses: int, gains: int, rows: int, *, z: float = 1.96) -> Interval:
    """Interval of the difference of two shares measured on the same ``rows``, in [-1, 1] (95 % with z = 1.96).

    ``losses`` are rows that only the first has right, ``gains`` those that only the second has. With
    ``b = losses + ½``, ``c = gains + ½`` and ``n = rows + 2``: ``(b − c)/n ± z · sqrt(b + c − (b − c)²/n) / n``
    (Agresti and Min, Statistics in Medicine 24, 2005), so that it is no single point where the two never differ.
    Raises ValueError for counts that cannot be.
    """
    if losses < 0 or gains < 0 or rows < 1 or losses + gains > rows:
        raise ValueError(f"losses ({losses}) and gains ({gains}) must be 0 or above and together at most rows ({rows})")
    b, c, n = losses + 0.5, gains + 0.5, rows + 2
    reach = z * math.sqrt(b + c - (b - c) ** 2 / n) / n
    return Interval(low=max(-1.0, (b - c) / n - reach), high=min(1.0, (b - c) / n + reach))
