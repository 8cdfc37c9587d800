"""What rows must have to be drawn as Figures 1 to 4: points, groups and maps that fit together."""

from __future__ import annotations

from typing import Any

from .groups import QUANTILES, THIRDS
from .shapes import (
    COUNT,
    FLAG,
    NUMBER,
    NUMBER_OR_NULL,
    POSITIVE,
    TEXT,
    Shape,
    also,
    each,
    every,
    fields,
    is_count,
    is_number,
    leaf,
    lengths,
    said,
)

_TRAINED = dict.fromkeys(("epoch", "mean_budget", "accuracy"), NUMBER)
_VALIDATED = dict.fromkeys(("epoch", "eval_mean_budget", "eval_accuracy"), NUMBER)
CURVES = fields(
    {
        "training": each(fields({}, _TRAINED), should="a list of objects"),
        "validation": each(fields({}, _VALIDATED), should="a list of objects"),
    },
    should="an object with two lists",
)
"""Of every training: numbers where there are any."""


def _points(curves: Any, name: str) -> str | None:
    """Lines are drawn of points, so that there must be some, and each has its epoch."""
    for part, drawn in (("training", ("mean_budget",)), ("validation", ("eval_mean_budget", "eval_accuracy"))):
        here = f"{name}.{part}"
        for place, entry in enumerate(curves[part]):
            if "epoch" not in entry:
                return f"there is no field {f'{here}[{place}].epoch'!r}"
        for field in drawn:
            if not any(field in entry for entry in curves[part]):
                return said(curves[part], here, f"a list with a {field} to draw")
    return None


def _spread(group: Any, name: str) -> str | None:
    """Numbers and the quantiles of a box; null without rows."""
    if not group["rows"]:
        return None
    for field in ("mean", "std"):
        if not is_number(group[field]):
            return said(group[field], f"{name}.{field}", "a number")
    if lengths(group["quantiles"]) != (len(QUANTILES),):
        return said(group["quantiles"], f"{name}.quantiles", f"a list of {len(QUANTILES)} numbers")
    return None


_QUANTILES = leaf(lambda value: not value or lengths(value) is not None, "a list of numbers or null")
_GROUP = also(fields({"rows": COUNT, "mean": NUMBER_OR_NULL, "std": NUMBER_OR_NULL, "quantiles": _QUANTILES}), _spread)


def _groups_of_loss(criteria: Any, name: str) -> str | None:
    """The groups that the claim is about, and a box for each criterion."""
    wanted = fields({"loss of the Transformer": fields(dict.fromkeys(THIRDS, _GROUP))})
    return wanted(criteria, name) or next(
        (
            said(groups, f"{name}.{criterion}", "an object with a group that has rows")
            for criterion, groups in criteria.items()
            if not any(group["rows"] for group in groups.values())
        ),
        None,
    )


_CRITERION = every(_GROUP, should="an object with a group for each name")
_DIFFICULTY = also(every(_CRITERION, least=1, should="an object with the groups of each criterion"), _groups_of_loss)


def _classes_fit(row: Any, name: str) -> str | None:
    """Budgets and entropies of every class are of the same layers."""
    layers = None
    for field in ("budget_by_class", "entropy_by_class"):
        for label, group in row[field].items():
            for figure in ("mean", "std"):
                layers = len(group[figure]) if layers is None else layers
                if len(group[figure]) != layers:
                    return said(group[figure], f"{field}.{label}.{figure}", f"a list of {layers} numbers, one a layer")
    return None


def _is_list_of_numbers(value: Any) -> bool:
    found = lengths(value)
    return found is not None and len(found) == 1 and found[0] > 0


_LAYERS = leaf(_is_list_of_numbers, "a list of numbers, one a layer")
_CLASS = fields({"rows": COUNT, "mean": _LAYERS, "std": _LAYERS})
_BY_CLASS: dict[str, Shape] = {
    "budget_by_class": every(_CLASS, least=1, should="an object with the figures of each class"),
    "entropy_by_class": every(_CLASS, should="an object with the figures of each class"),
}


def _is_table(value: Any) -> bool:
    found = lengths(value)
    return found is not None and len(found) == 2 and min(found) > 0


def _maps_fit(pair: Any, name: str) -> str | None:
    """Maps of L layers, K heads and N tokens, and for all heads of a layer what is said of them."""
    found, tokens = lengths(pair["maps"]), len(pair["tokens"])
    if found is None or len(found) != 4 or min(found) < 1 or found[2:] != (tokens, tokens):
        return said(pair["maps"], f"{name}.maps", f"a list of layers of maps of {tokens} by {tokens} numbers")
    layers, shown = found[:2]
    heads = len(pair["relevance"][0])
    for field in ("relevance", "entropy"):
        if lengths(pair[field]) != (layers, heads):
            return said(pair[field], f"{name}.{field}", f"a list of {layers} lists of {heads} numbers")
    if lengths(pair["kept"], lambda value: isinstance(value, bool)) != (layers, heads):
        return said(pair["kept"], f"{name}.kept", f"a list of {layers} lists of {heads} times true or false")
    if lengths(pair["heads"], lambda value: is_count(value) and value < heads) != (layers, shown):
        return said(pair["heads"], f"{name}.heads", f"a list of {layers} lists of {shown} numbers below {heads}")
    return None


_TABLE = leaf(_is_table, "a list of lists of numbers, one for each layer")
_MAPS = fields(
    {
        "text": TEXT,
        "pair": TEXT,
        "tokens": each(TEXT, should="a list of texts"),
        "highest_entropy": NUMBER,
        "entropy_by_rank": _TABLE,
        "entropy": _TABLE,
        "relevance": _TABLE,
        "kept": each(each(FLAG, should="a list"), should="a list of lists"),
        "heads": each(each(COUNT, should="a list"), should="a list of lists"),
        "maps": leaf(lambda value: isinstance(value, list), "a list of layers"),
    }
)
_ENTROPY = fields(
    {"rows": POSITIVE, "by_rank": _TABLE, "shown": COUNT, "lead": fields({"mean": NUMBER, "std": NUMBER})}
)
_OF_MAPS: dict[str, Shape] = {"attention_maps": also(_MAPS, _maps_fit), "attention_entropy": _ENTROPY}

DRAWN: dict[str, Shape] = {
    "figure1": fields(
        {
            "curves": also(CURVES, _points),
            "rows": fields({"validated_on": TEXT}),
            "config": fields({"training": fields({"config": fields({}, {"s_min": NUMBER, "s_max": NUMBER})})}),
        }
    ),
    "figure2": fields({"budget_by_difficulty": _DIFFICULTY}),
    "figure3": also(fields(_BY_CLASS), _classes_fit),
    "figure4": fields(_OF_MAPS),
}
"""By experiment, what the whole row must have."""
