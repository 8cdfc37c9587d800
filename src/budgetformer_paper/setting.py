"""What was run: sizes, rows and constants of every training, taken from the rows, and the machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from budgetformer.reporting.tables import NONE, Table

from .recipe import STARTS
from .summary import Summary

COLUMNS = (
    "data",
    "model",
    "layers",
    "heads",
    "tokens at most",
    "rows of training",
    "of validation",
    "of the test",
    "epochs",
    "batch",
    "learning rate",
)


def setting_table(found: Sequence[Summary], scale: str) -> Table | None:
    """A line for each data set and way of training of one scale, over all tables and figures; None without any."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for summary in found:
        for row in summary.rows:
            trained = (row.get("config") or {}).get("training")
            if trained and "rows" in row.get("rows", {}):
                groups.setdefault(_key(row, trained), []).append(row)
    if not groups:
        return None
    rows = [_cells(key, group) for key, group in sorted(groups.items(), key=lambda item: item[0][:2])]
    return Table(caption=f"What was trained at scale {scale}, all tables together.", columns=COLUMNS, rows=rows)


def origin(found: Sequence[Summary]) -> str:
    """How many rows there are, and the commits, machines and versions that made them."""
    rows = [row for summary in found for row in summary.rows]
    commits = [str(row["commit"])[:7] + ("+" if row.get("dirty") else "") for row in rows if row.get("commit")]
    machines = [f"{row.get('gpu') or row['cpu']} ({row['cores']} cores)" for row in rows if row.get("cpu")]
    versions = [f"torch {row['torch']}, transformers {row['transformers']}" for row in rows if row.get("torch")]
    said = f"{len(rows)} result {'row' if len(rows) == 1 else 'rows'}, seeds {_listed(row['seed'] for row in rows)}"
    for name, values in (("commits", commits), ("machines", machines), ("versions", versions)):
        said += f"; {name}: {_listed(values)}" if values else ""
    return said + ("; + is a tree with changes." if any(one.endswith("+") for one in commits) else ".")


def _key(row: dict[str, Any], trained: dict[str, Any]) -> tuple[str, ...]:
    """What lines of the table differ by; the width stands for the model."""
    width = trained["config"].get("hidden_size")
    model = trained.get("start") or (f"from scratch, D {width}" if width else f"from scratch, {trained['preset']}")
    counts = row["rows"]["rows"]
    return (
        row["data"],
        model,
        str(trained["max_length"]),
        f"{counts['validation']:,}",
        f"{row.get('test_rows', counts['test']):,}",
        f"{trained['epochs']:g}" if trained["epochs"] else NONE,
        str(trained["batch_size"]),
        f"{trained['learning_rate']:g}",
    )


def _cells(key: tuple[str, ...], group: Sequence[dict[str, Any]]) -> list[str]:
    data, model, tokens, validation, tested, epochs, batch, rate = key
    trainings = [row["config"]["training"] for row in group]
    shapes = [STARTS.get(trained["start"] or "", {}) | trained["config"] for trained in trainings]
    layers, heads = (
        _listed(shape[name] for shape in shapes if name in shape)
        for name in ("num_hidden_layers", "num_attention_heads")
    )
    trained = _listed((row["rows"]["rows"]["train"] for row in group), form=",")
    return [data, model, layers, heads, tokens, trained, validation, tested, epochs, batch, rate]


def _listed(values: Iterable[Any], form: str = "") -> str:
    """The values that there are, each once: numbers in order, texts as they come."""
    known = list(dict.fromkeys(values))
    ordered = known if any(isinstance(value, str) for value in known) else sorted(known)
    apart = " and " if any(", " in str(value) for value in known) else ", "
    return apart.join(format(value, form) for value in ordered) or NONE
