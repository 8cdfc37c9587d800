"""A result row as tables and claims read it: which fields it has, and what stands in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from budgetformer.reporting.results import read_rows

from .controlled_table import is_controlled
from .figure_checks import CURVES, DRAWN
from .shapes import (
    COUNT,
    COUNT_OR_NULL,
    NUMBER,
    NUMBER_OR_NULL,
    POSITIVE,
    TEXT,
    TEXT_OR_NULL,
    Shape,
    each,
    fields,
    is_number,
    leaf,
    lengths,
    or_null,
    said,
)


def read_checked(path: Path) -> list[dict[str, Any]]:
    """All rows of a file; those of other commands as they are. Raises ValueError that names file, line, field and
    value for a row of ``reproduce`` or of the controlled task that no table, claim or figure could show."""
    return read_rows(path, check=complaint)


def complaint(row: Mapping[str, Any]) -> str | None:
    """What is wrong with a row of ``reproduce`` or of the controlled task; None for a good one and for rows of other
    commands."""
    if is_controlled(dict(row)):
        return CONTROLLED(row, "")
    if not {"recipe", "digest"} <= set(row):
        return None
    if wrong := EVERY(row, ""):
        return wrong
    experiment, recipe = row["experiment"], row["recipe"]
    if not recipe.startswith(f"{experiment}/"):
        return said(experiment, "experiment", f"what field 'recipe' begins with, {recipe!r}")
    shapes = [COST if experiment == "cost" else MEASURED, DRAWN.get(experiment)]
    shapes += [fields({other: shape}) for name, (other, shape) in BESIDE.items() if row.get(name)]
    if (experiment, recipe.split("/")[-1]) == WITH_CURVES:
        shapes.append(fields({"curves": CURVES}))
    return next((wrong for shape in shapes if shape and (wrong := shape(row, ""))), None)


_ENERGY = {"joules_per_1000_texts": NUMBER_OR_NULL, "grams_per_1000_texts": NUMBER_OR_NULL}
_TRAINING = fields(
    {
        "config": fields({}, dict.fromkeys(("num_hidden_layers", "num_attention_heads", "hidden_size"), COUNT)),
        "start": TEXT_OR_NULL,
        "preset": TEXT,
        "max_length": COUNT,
        "epochs": NUMBER_OR_NULL,
        "batch_size": COUNT,
        "learning_rate": NUMBER,
    },
    should="an object with the settings, or null",
)
_ROWS = fields({}, {"rows": fields(dict.fromkeys(("train", "validation", "test"), COUNT))})
_FIGURES = ("mean_budget", "mean_heads", "macs", "macs_dense", "paper_macs", "paper_grams")

EVERY = fields(
    {
        **dict.fromkeys(("experiment", "recipe", "what", "scale", "digest", "data"), TEXT),
        "seed": COUNT,
        "printed": fields(
            dict.fromkeys(("accuracy", "mean_budget", "macs", "grams"), NUMBER_OR_NULL),
            should="an object with the paper's figures, numbers or null",
        ),
    },
    {
        **dict.fromkeys((*_FIGURES, "seconds", "training_seconds", "evaluation_seconds"), NUMBER_OR_NULL),
        **dict.fromkeys(("commit", "cpu", "gpu", "torch", "transformers"), TEXT_OR_NULL),
        "cores": COUNT_OR_NULL,
        "config": fields({"training": or_null(_TRAINING)}, should="an object with the training"),
        "rows": _ROWS,
        "curves": CURVES,
        "energy": or_null(
            fields({"kind": TEXT}, _ENERGY, should="an object with kind, joules and grams per 1,000 texts, or null")
        ),
        "training_energy": or_null(
            fields({"kind": TEXT, "joules": NUMBER_OR_NULL}, should="an object with kind and joules, or null")
        ),
    },
)
"""Of every row: fields that it must have, and fields that are read where they stand."""
MEASURED = fields(
    {
        "accuracy": leaf(lambda value: is_number(value) and 0 <= value <= 1, "a number from 0 to 1"),
        "test_rows": POSITIVE,
        "rows": fields({"classes": POSITIVE}),
    }
)
"""Of all rows but those of the experiment cost."""
_TWO = ("transformer", "budgetformer")
_BYTES = leaf(lambda value: value is None or (is_number(value) and value > 0), "a number above 0, or null")
COST = fields(
    {
        "step_seconds": fields(dict.fromkeys(_TWO, NUMBER)),
        "step_memory": fields(dict.fromkeys(_TWO, _BYTES)),
        "step_ratio": fields(
            {"median": NUMBER, "interval": leaf(lambda value: lengths(value) == (2,), "a list of two numbers")}
        ),
        "batch": each(COUNT, should="a list of texts and tokens"),
        "attention_memory": each(
            fields({"heads": COUNT, "allocated": NUMBER_OR_NULL, "closed_form": NUMBER_OR_NULL}),
            should="a list of objects, one for each number of heads",
        ),
    }
)
"""Of rows of the experiment cost."""
BESIDE: dict[str, tuple[str, Shape]] = {"cpu": ("cores", COUNT_OR_NULL), "torch": ("transformers", TEXT_OR_NULL)}
"""What is said together with a field, where that is given."""
WITH_CURVES = ("table2", "budgetformer")
"""Experiment and variant whose curves a claim is about."""
_NAMED = ("accuracy", "accuracy_random_heads", "mean_heads", "mean_budget", "rank_correlation_budget")
CONTROLLED = fields(
    {"variant": TEXT, "seed": COUNT},
    {
        **dict.fromkeys(_NAMED, NUMBER_OR_NULL),
        "heads_by_difficulty": or_null(each(NUMBER, should="a list of numbers, or null")),
    },
)
"""Of rows of the controlled task."""
