"""What ``benchmarks/pretrained.py`` found, kept on disk, and the rows that it becomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgetformer.reporting.results import append_row, environment, read_rows
from pretrained_models import write

Finder = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Answers in ``folder``, rows in ``results``; ``common`` stands in every row.

    ``digests`` tell for every variant what it was told, so that what was found before is found again only for the same.
    """

    folder: Path
    results: Path
    digests: Mapping[str, str]
    common: Mapping[str, Any]

    def kept(self, variant: str, heads: int | None = None) -> dict[str, Any]:
        """What was found before."""
        return json.loads(self._file(variant, heads).read_text(encoding="utf-8"))

    def row(self, variant: str, find: Finder, more: Mapping[str, Any], *, heads: int | None = None) -> dict[str, Any]:
        """Find the answer unless it is there, and append the row unless it is there."""
        file = self._file(variant, heads)
        if not file.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            write(file, {**find(), "measured_in": environment()})
        found = self.kept(variant, heads)
        identity = {"variant": variant, "heads_asked": heads, "digest": self.digests[variant]}
        there = read_rows(self.results) if self.results.is_file() else []
        if not any(all(row.get(name) == value for name, value in identity.items()) for row in there):
            shown = {name: value for name, value in found.items() if name not in ("mistakes", "measured_in")}
            append_row(self.results, {**identity, **self.common, **shown, **more, **found["measured_in"]})
        return found

    def _file(self, variant: str, heads: int | None) -> Path:
        name = variant if heads is None else f"{variant}-{heads}"
        return self.folder / f"{name}-{self.digests[variant]}.json"
