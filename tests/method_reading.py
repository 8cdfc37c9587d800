"""The method read a second time, in plain Python, for the tests to compare with."""

from __future__ import annotations

import math
from typing import Any

import torch
from hypothesis import strategies as st

from budgetformer import method

progresses = st.floats(0, 1)
scores = st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=16)
shares = st.floats(0.001, 1)


def plain_softmax(values: list[float]) -> list[float]:
    top = max(values)
    exps = [math.exp(v - top) for v in values]
    return [e / sum(exps) for e in exps]


def plain_choice(values: list[float], k: int) -> set[int]:
    return set(sorted(range(len(values)), key=lambda h: (-values[h], h))[:k])


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def decide(budget: float | list[float], z: list[float] | list[list[float]], **changes: Any) -> method.HeadDecision:
    z_BH = torch.tensor(z if isinstance(z[0], list) else [z])
    budget_B = torch.tensor(budget if isinstance(budget, list) else [budget] * len(z_BH))
    settings = {"selection": "straight_through", "min_heads": 1, "tau": 1.0, "training": False}
    return method.decide(budget_B, z_BH, **settings | changes)
