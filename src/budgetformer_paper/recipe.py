"""A recipe: everything that one row of a table needs, from the rows of data to the question that is asked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from budgetformer.configuration import BudgetFormerConfig
from budgetformer.training import TrainingSettings

FREE = (
    "train",
    "validation",
    "text_column",
    "pair_column",
    "label_column",
    "output",
    "data_folder",
    "device",
    "fsdp",
    "seed",
    "resume",
    "overwrite",
    "quiet",
    "title",
    "tensorboard",
    "examples",
)
"""Settings that the runner fills in, or that do not change what a run learns."""

MINILM = "all-MiniLM-L6-v2"
STARTS: dict[str, dict[str, Any]] = {
    MINILM: {
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "hidden_size": 384,
        "intermediate_size": 1536,
        "vocab_size": 30522,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
    },
}
"""Pretrained models that a recipe may begin with, and their shapes."""


@dataclass(frozen=True, kw_only=True)
class DataPart:
    """Which rows of a data set: None takes all. The rows are drawn once (seed 0), the same for every seed of training.

    ``train_share`` of the training rows is used, the smaller shares lie within the larger ones. Without a validation
    split of its own the set is validated on the test rows (``validation_on_test``, as the paper did) or on rows that
    are set aside from the training rows. Fewer rows than ``least_train`` or ``least_test`` are refused, and with
    ``whole`` more rows as well: the set must be the official one.
    """

    name: str
    train_rows: int | None = None
    train_share: float = 1.0
    validation_rows: int | None = None
    test_rows: int | None = None
    validation_on_test: bool = True
    least_train: int = 1
    least_test: int = 1
    whole: bool = False


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What the trained model is asked on the test rows.

    ``budget`` in place of the learned one; ``rescale_gates`` puts it into the gates of soft selection as well;
    ``min_heads`` in place of the trained one; ``heads`` says which: "learned", "random" (the relevance of the input,
    permuted) or "static" (one ranking for all inputs, by the mean relevance on the validation rows, and for all inputs
    the number of heads that the layer keeps there on average). ``difficulty``: the budgets of simple and hard rows,
    for which the full-attention twin is trained too. ``maps``: where the heads of the paper's pair look, and how sharp
    the maps of test rows are. ``cost``: nothing is trained; steps of training are timed beside those of the twin.
    """

    budget: float | None = None
    rescale_gates: bool = False
    min_heads: int | None = None
    heads: str = "learned"
    difficulty: bool = False
    maps: bool = False
    cost: bool = False

    def said(self) -> dict[str, Any]:
        """What differs from asking nothing, so that a new question does not rename the old rows."""
        plain = Ask()
        return {name: value for name, value in asdict(self).items() if value != getattr(plain, name)}


@dataclass(frozen=True, kw_only=True)
class Printed:
    """What the paper prints for a row; None where it prints nothing, or where we do not have the figure."""

    accuracy: float | None = None
    mean_budget: float | None = None
    macs: float | None = None
    grams: float | None = None


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One row of a table. ``training`` is None for TF-IDF with logistic regression.

    ``name`` is data set and variant, such as imdb/budgetformer. ``width_multiple``: smaller scales keep the width a
    multiple of it, so that all rows of a table have the same width.
    """

    experiment: str
    name: str
    what: str
    data: DataPart
    training: TrainingSettings | None
    ask: Ask = field(default_factory=Ask)
    printed: Printed = field(default_factory=Printed)
    scale: str = "paper"
    width_multiple: int = 8

    @property
    def label(self) -> str:
        """Experiment and name."""
        return f"{self.experiment}/{self.name}"

    def settings(self) -> dict[str, Any] | None:
        """The settings of the training that decide what is learned; None without a training."""
        if self.training is None:
            return None
        return {name: value for name, value in self.training.resolved().describe().items() if name not in FREE}

    def training_digest(self) -> str:
        """Names the training: recipes with the same one share a model, but for the seed."""
        return digest({"data": asdict(self.data), "training": self.settings()})

    def row_digest(self) -> str:
        """Names the row: training and question, without the seed."""
        said = {"data": asdict(self.data), "training": self.settings(), "ask": self.ask.said()}
        return digest(said)

    def trainings(self) -> list[Recipe]:
        """What has to be trained for the row: nothing, the model, or its full-attention twin as well."""
        if self.training is None or self.ask.cost:
            return []
        if not self.ask.difficulty:
            return [self]
        twin = replace(self.training, config=self.training.config | {"budgeted": False})
        return [self, replace(self, training=twin)]

    def model_config(self) -> BudgetFormerConfig:
        """The model's configuration before the data are known (vocabulary and classes are those of the settings)."""
        assert self.training is not None
        changes = {"vocab_size": self.training.vocab_size, "max_position_embeddings": self.training.max_length}
        changes |= STARTS[self.training.start] if self.training.start else {}
        return BudgetFormerConfig.preset(self.training.preset, **(changes | self.training.config))


def digest(value: Any) -> str:
    """Twelve characters that differ when ``value`` does."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8")).hexdigest()[:12]
