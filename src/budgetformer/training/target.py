"""After training: the smallest budget that keeps the accuracy on the validation rows, and the curve for the card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..curve import BudgetChoice, BudgetCurve, default_sentence, measure_curve, smallest_budget
from ..inference import Classifier
from ..reporting.curve_card import curve_section, with_section
from ..reporting.gallery import measured_curve_picture
from ..reporting.picture import png
from .prepare import PreparedData

MOST_ROWS = 5000
"""Validation rows that the curve is measured on, taken evenly from all."""


@dataclass(frozen=True, kw_only=True)
class MeasuredTarget:
    """The curve on validation rows, and what was chosen on it."""

    curve: BudgetCurve
    choice: BudgetChoice

    def record(self) -> dict[str, Any]:
        """For ``training.json``."""
        return {"curve": self.curve.rows(), "default_budget": self.choice.row()}

    def add_to(self, card: str) -> tuple[str, bytes]:
        """The card with the section of the curve, and the picture that it shows."""
        rows, heads = self.curve.rows(), self.choice.point.all_heads
        picture = measured_curve_picture(rows, heads=heads)
        notes = [*self.choice.sentences(), default_sentence(self.choice)]
        section = curve_section(rows, heads=heads, data="the validation part", picture=picture, notes=notes)
        return with_section(card, section), png(picture.figure)


def measure_target(model: Any, data: PreparedData, *, target: float, progress: bool) -> MeasuredTarget:
    """Measure the curve of a trained model and make the chosen budget its default.

    Only validation rows are used, at most ``MOST_ROWS``; heads are never drawn.
    """
    rows = data.validation_texts
    if len(rows) > MOST_ROWS:
        rows = rows.select([place * len(rows) // MOST_ROWS for place in range(MOST_ROWS)])
    classifier = Classifier(model=model, tokenizer=data.tokenizer)
    curve = measure_curve(classifier, rows, random=False, progress=progress)
    choice = smallest_budget(curve, target=target)
    model.config.default_budget = choice.budget
    return MeasuredTarget(curve=curve, choice=choice)
