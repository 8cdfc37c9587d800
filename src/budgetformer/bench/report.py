"""A bench as a table and as a picture."""

from __future__ import annotations

import re
from typing import Any

from ..reporting.figures import speed_figure
from ..reporting.tables import NONE, Table
from .measure import BenchResult, BenchRow


def short_table(result: BenchResult) -> Table:
    """What fits a terminal of 80 columns: one row per candidate; speed is against the first peer."""
    peer = next((_short(row.name) for row in result.rows if row.kind == "peer"), None)
    against = "" if peer is None else f"; speed is against {peer}"
    return Table(
        caption=f"{result.texts} texts of {result.tokens:.0f} tokens on average, {result.threads} threads{against}",
        columns=["", "texts/s", "speed", "heads", "labels"],
        rows=[
            [_short(row.name), f"{row.texts_per_second:,.1f}", _speed(row), _heads(row), _labels(row)]
            for row in result.rows
        ],
    )


def bench_table(result: BenchResult) -> Table:
    """All figures, one row per candidate; speed is against the first peer, from paired rounds."""
    columns = [
        "",
        "texts/s",
        "quartiles",
        "speed",
        "heads",
        "multiply-adds/text",
        "of the peak",
        "same labels",
        "memory MiB",
    ]
    alone = any(row.p50 is not None for row in result.rows)
    columns += ["alone p50 ms", "p95 ms"] if alone else []
    device = any(row.device_memory is not None for row in result.rows)
    columns += ["device MiB"] if device else []
    return Table(
        caption=(
            f"{result.texts} texts of {result.tokens:.0f} tokens on average, {result.threads} threads; peak: "
            + ", ".join(f"{name} {2 * macs / 1e9:.0f} GFLOP/s" for name, macs in sorted(result.peaks.items()))
        ),
        columns=columns,
        rows=[_cells(row, alone, device) for row in result.rows],
    )


def _cells(row: BenchRow, alone: bool, device: bool) -> list[str]:
    low, high = row.quartiles
    cells = [
        row.name,
        f"{row.texts_per_second:,.1f}",
        f"{low:,.1f} to {high:,.1f}",
        _speed(row),
        _heads(row),
        f"{row.macs / 1e6:,.1f}M",
        NONE if row.peak_share is None else f"{row.peak_share:.0%}",
        _labels(row),
        _mebibytes(row.memory),
    ]
    if alone:
        cells += [NONE if t is None else f"{1000 * t:.1f}" for t in (row.p50, row.p95)]
    return cells + ([_mebibytes(row.device_memory)] if device else [])


def _mebibytes(size: int | None) -> str:
    return NONE if size is None else f"{size / 2**20:,.0f}"


def _short(name: str) -> str:
    """Without the batch size, which is the same for all that have one, and shorter names of the peers."""
    name = re.sub(r", batch \d+", "", name).replace("dense BERT, ", "BERT, ").replace("ONNX Runtime", "ONNX")
    return name.replace(" (reference)", "")


def _speed(row: BenchRow) -> str:
    return NONE if row.speed is None else f"{row.speed[0]:.2f}x"


def _heads(row: BenchRow) -> str:
    """The reference computes all heads, however many it keeps."""
    if row.kind == "reference":
        return "all"
    return NONE if row.heads is None else f"{row.heads:.2f}"


def _labels(row: BenchRow) -> str:
    return NONE if row.labels_equal is None else f"{row.labels_equal:.1%}"


def bench_figure(result: BenchResult) -> Any:
    """Texts per second by number of heads, one line per format, the peers as horizontal lines."""
    lines: dict[str, list[tuple[float, float]]] = {}
    peers: dict[str, float] = {}
    for row in result.rows:
        if row.asked is not None and row.heads is not None:
            lines.setdefault(row.precision, []).append((row.heads, row.texts_per_second))
        elif row.kind == "peer":
            peers[row.name] = row.texts_per_second
    return speed_figure(lines, peers, texts=result.texts)
