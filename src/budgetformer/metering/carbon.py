"""Carbon of a number of multiply-adds, as arXiv 2604.22583 reports it."""

from __future__ import annotations

GRAMS_PER_MAC = 3.3333e-15
"""Grams of CO2 per multiply-add: a fit to the paper's printed figures.

It is what 10 TFLOP/s at 300 W and 400 g/kWh give when a multiply-add is counted as one operation:
``300 W / 1e13 per second = 3e-11 J``, and ``3e-11 J · 400 g / 3.6e6 J = 3.3333e-15 g``.
"""


def paper_grams(macs: float) -> float:
    """Grams of CO2 for ``macs`` multiply-adds by the paper's accounting: ``macs · 3.3333e-15``, not a measurement."""
    return macs * GRAMS_PER_MAC
