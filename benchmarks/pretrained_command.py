"""The command that makes the rows of one table of ``pretrained.py``, from what stands in these rows."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from budgetformer.conversion.budgeting import OPTIMISATION
from pretrained_options import HEADS, MINILM, VALIDATION_ROWS, ZERO_SHOT

Row = dict[str, Any]


def command(rows: Sequence[Row]) -> str:
    """All options that are not the defaults; rows of several seeds are made by one command for each.

    ``rows`` are those of one data set with equal settings, every variant once at least.
    """
    parts = ["python benchmarks/pretrained.py", *(" ".join(map(shlex.quote, part)) for part in _options(rows))]
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) > 110:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {part}"
    return "\n".join(lines)


def precision(row: Row) -> str:
    """Number format of the trainings; older rows do not say it, since there was one."""
    return row.get("training_precision") or "float32"


def _options(rows: Sequence[Row]) -> Iterator[list[str]]:
    one, by_name = rows[0], {row["variant"]: row for row in rows}
    work = f"runs/{one['data']}"
    yield ["--data", one["data"]]
    yield ["--work", work]
    if one["encoder"]["name"] != MINILM:
        yield ["--encoder", "MODEL"]
        yield ["--encoder-name", one["encoder"]["name"]]
    yield ["--train-rows", str(one["train_rows"])]
    if one["validation_rows"] != VALIDATION_ROWS:
        yield ["--validation-rows", str(one["validation_rows"])]
    tested = max(row["test_rows"] for row in rows)
    if tested != one["test_rows_there"]:
        yield ["--eval-rows", str(tested)]
    if one.get("curve_rows") is not None:
        yield ["--curve-rows", str(one["curve_rows"])]
    yield ["--max-length", str(one["max_length"])]
    yield ["--epochs", f"{one['epochs']:.15g}"]
    yield ["--dense-epochs", f"{one['dense_epochs']:.15g}"]
    yield from [["--share-dense"]] if one["share_dense"] else []
    yield from _static(by_name)
    seeds = sorted({row["seed"] for row in rows})
    yield from [["--seed", "|".join(map(str, seeds))]] if seeds != [0] else []
    yield from _optimisation(by_name)
    if precision(one) != "float32":
        yield ["--precision", precision(one)]
    if one["attention_dropout"]:
        yield ["--attention-dropout", f"{one['attention_dropout']:g}"]
    for option, variant, default in (("--heads", "fixed", HEADS), ("--zero-shot", "zero-shot", ZERO_SHOT)):
        asked = sorted({row["heads_asked"] for row in rows if row["variant"] == variant})
        if asked != list(default):
            yield [option, *map(str, asked)]
    for name, value in one["warm_start_asked"].items():
        yield ["--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    if "static" not in by_name:
        yield ["--stop-after", "budgeted"]


def _optimisation(by_name: dict[str, Row]) -> Iterator[list[str]]:
    """What all trainings share: of dense, since ``--set`` may change them for budgeted."""
    settings = by_name.get("dense", {}).get("training", {}).get("settings", {})
    for name, default in (OPTIMISATION | {"eval_steps": None}).items():
        value = settings.get(name, default)
        if value != default:
            yield ["--" + name.replace("_", "-"), f"{value:.15g}"]


def _static(by_name: dict[str, Row]) -> Iterator[list[str]]:
    if "static" not in by_name:
        return
    row = by_name["static"]
    settings = row["training"]["settings"]
    if abs(settings["epochs"] - (row["epochs"] - row["dense_epochs"])) > 1e-9:
        yield ["--static-epochs", f"{settings['epochs']:.15g}"]
    weight = settings["config"].get("distillation")
    budgeted = by_name.get("budgeted", {}).get("training", {}).get("settings", {}).get("config", {})
    if weight != budgeted.get("distillation", weight):
        yield ["--static-distillation", f"{weight:g}"]
