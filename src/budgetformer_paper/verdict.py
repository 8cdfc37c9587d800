"""The answer to a claim."""

from __future__ import annotations

from dataclasses import dataclass

HELD, FAILED, OPEN = "held", "failed", "not decided"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One claim on one data set: ``answer`` is "held", "failed" or "not decided", ``why`` has the figures."""

    claim: str
    data: str
    answer: str
    why: str
