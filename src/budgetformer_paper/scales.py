"""The scales of a recipe. A scale changes sizes and nothing of the method, and is part of every row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from budgetformer.metering.macs import dense_macs

from .printed import DATA
from .recipe import DataPart, Recipe

TRAINING_FACTOR = 3
"""Forward and backward pass in units of the forward pass."""
PRETRAINED_MACS_PER_SECOND = 4e10
"""Of the wide matrix products of a pretrained model on a core; a guess, for the expected time only."""
COST_STEPS = 70
"""Steps of training that a row of the experiment cost takes, of both models together."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What a small scale uses. ``macs_per_second`` is a guess, for the expected time only."""

    name: str
    width: int
    layers: int
    vocabulary: int
    lengths: Mapping[int, int]
    train_rows: Mapping[str, int]
    validation_rows: int
    test_rows: int
    least_train: int
    least_test: int
    epochs: float
    batch_size: int
    learning_rate: float
    macs_per_second: float
    start_seconds: float


CPU = Sizes(
    name="cpu",
    width=128,
    layers=12,
    vocabulary=8000,
    lengths={64: 64, 512: 256, 256: 256},
    train_rows={"dbpedia14": 20_000, "ag_news": 20_000, "imdb": 10_000, "snli": 22_000, "yelp_full": 10_000},
    validation_rows=1000,
    test_rows=5000,
    least_train=2000,
    least_test=1000,
    epochs=5,
    batch_size=16,
    learning_rate=7e-4,
    macs_per_second=2e10,
    start_seconds=20,
)
CPU_SMALL = Sizes(
    name="cpu-small",
    width=128,
    layers=12,
    vocabulary=8000,
    lengths={64: 64, 512: 128, 256: 128},
    train_rows={"dbpedia14": 4000, "ag_news": 4000, "imdb": 4000, "snli": 8000, "yelp_full": 3500},
    validation_rows=500,
    test_rows=2000,
    least_train=2000,
    least_test=1000,
    epochs=4,
    batch_size=16,
    learning_rate=1e-3,
    macs_per_second=1.5e10,
    start_seconds=15,
)
SMOKE = Sizes(
    name="smoke",
    width=48,
    layers=2,
    vocabulary=300,
    lengths={64: 24, 512: 32, 256: 32},
    train_rows=dict.fromkeys(DATA, 64),
    validation_rows=16,
    test_rows=32,
    least_train=8,
    least_test=4,
    epochs=1,
    batch_size=16,
    learning_rate=1e-3,
    macs_per_second=1e9,
    start_seconds=1,
)
GPU_MACS_PER_SECOND, GPU_START_SECONDS, GPU_SECONDS_PER_UPDATE = 1e13, 120.0, 0.02


def paper(recipe: Recipe) -> Recipe:
    """As printed: the recipe itself. L 4, H 8, D 768, 10 epochs, learning rate 2e-5, batch 16, all rows.

    The training and test rows must be as many as in the official splits; other counts are refused. Where a set has no
    validation split the curves are measured on the test rows, as in the paper; the state that is kept is the last one,
    so nothing is chosen by them.
    """
    data = DATA[recipe.data.name]
    full = replace(recipe.data, least_train=data.train_rows, least_test=data.test_rows, whole=True)
    return replace(recipe, scale="paper", data=full)


def paper_shape(recipe: Recipe) -> Recipe:
    """The paper's model and training on the rows that there are: for data that are only partly at hand."""
    return replace(recipe, scale="paper-shape", data=replace(recipe.data, least_train=1000, least_test=500))


def cpu(recipe: Recipe) -> Recipe:
    """For 2 cores: width 128 (or just below, where heads ask for it), heads and layers as in the paper, 5 epochs of at
    most 10,000 to 22,000 rows, 64 or 256 tokens, a vocabulary of 8,000, 5,000 test rows, learning rate 7e-4."""
    return _scaled(recipe, CPU)


def cpu_small(recipe: Recipe) -> Recipe:
    """For an hour of 2 cores: as ``cpu``, with 4 epochs of 3,500 to 8,000 rows, 64 or 128 tokens, 2,000 test rows and a
    learning rate of 1e-3. Far from the paper's scale: most differences are within chance here."""
    return _scaled(recipe, CPU_SMALL)


def smoke(recipe: Recipe) -> Recipe:
    """Seconds: two layers of width 48 on 64 rows. It shows that everything runs; its figures mean nothing."""
    return _scaled(recipe, SMOKE)


SCALES: dict[str, Callable[[Recipe], Recipe]] = {
    "smoke": smoke,
    "cpu-small": cpu_small,
    "cpu": cpu,
    "paper-shape": paper_shape,
    "paper": paper,
}


def _scaled(recipe: Recipe, sizes: Sizes) -> Recipe:
    data = DataPart(
        name=recipe.data.name,
        train_rows=sizes.train_rows[recipe.data.name],
        train_share=recipe.data.train_share,
        validation_rows=sizes.validation_rows,
        test_rows=sizes.test_rows,
        validation_on_test=False,
        least_train=sizes.least_train,
        least_test=sizes.least_test,
    )
    if recipe.training is None:
        return replace(recipe, scale=sizes.name, data=data)
    length = sizes.lengths[recipe.training.max_length]
    if recipe.training.start:
        epochs = recipe.training.epochs if sizes is not SMOKE else sizes.epochs
        return replace(
            recipe, scale=sizes.name, data=data, training=replace(recipe.training, max_length=length, epochs=epochs)
        )
    width = sizes.width // recipe.width_multiple * recipe.width_multiple
    shape: dict[str, Any] = {
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_hidden_layers": min(sizes.layers, recipe.training.config["num_hidden_layers"]),
        "vocab_size": sizes.vocabulary,
    }
    layers = shape["num_hidden_layers"]
    fewer = layers < recipe.training.config["num_hidden_layers"]
    training = replace(
        recipe.training,
        tokenizer=None,
        vocab_size=sizes.vocabulary,
        max_length=length,
        epochs=sizes.epochs,
        batch_size=sizes.batch_size,
        learning_rate=sizes.learning_rate,
        warmup=0.06,
        config={**recipe.training.config, **{k: v for k, v in shape.items() if k != "vocab_size"}},
    )
    what = f"{recipe.what} (of {layers} layers at this scale)" if fewer else recipe.what
    return replace(recipe, what=what, scale=sizes.name, data=data, training=training)


def expected_seconds(recipe: Recipe, *, train: bool = True) -> float:
    """About how long a row takes: multiply-adds in closed form over a guessed speed (of a GPU at the paper's scale,
    where small batches wait for the machine between updates).

    ``train=False``: the model is there already, or another row trains it.
    """
    full = DATA[recipe.data.name]
    sizes = {"cpu": CPU, "cpu-small": CPU_SMALL, "smoke": SMOKE}.get(recipe.scale)
    speed = sizes.macs_per_second if sizes else GPU_MACS_PER_SECOND
    start = sizes.start_seconds if sizes else GPU_START_SECONDS
    train_rows = min(recipe.data.train_rows or full.train_rows, full.train_rows) * recipe.data.train_share
    test_rows = min(recipe.data.test_rows or full.test_rows, full.test_rows)
    if recipe.training is None:
        return start + (train_rows + test_rows) / 1000
    if recipe.training.start and sizes:
        speed = PRETRAINED_MACS_PER_SECOND
    settings = recipe.training.resolved()
    per_text = float(dense_macs(recipe.model_config(), settings.max_length)[0])
    if recipe.ask.cost:
        return start + per_text * COST_STEPS * (settings.batch_size or 1) * TRAINING_FACTOR / speed
    seen = train_rows * (settings.epochs or 1) * TRAINING_FACTOR if train else 0
    updates = 0 if sizes else seen / TRAINING_FACTOR / (settings.batch_size or 1)
    waiting = (start if train else start / 10) + updates * GPU_SECONDS_PER_UPDATE
    return waiting + per_text * (seen + test_rows) / speed
