"""Accuracy and macro-F1 by hand."""

from __future__ import annotations

import numpy as np
import pytest

from budgetformer.metering.scores import scores


def test_macro_f1_is_over_the_classes_that_occur() -> None:
    measured = scores(np.array([0, 0, 1, 1]), np.array([0, 2, 1, 0]))
    assert measured["accuracy"] == 0.5
    assert measured["macro_f1"] == pytest.approx((0.5 + 2 / 3) / 2)
