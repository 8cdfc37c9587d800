"""Where and how recipes are run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .processes import Processes


@dataclass(frozen=True, kw_only=True)
class Running:
    """Where and how: ``results`` the file of rows, ``work`` the folder of drawn rows and models, which can be deleted
    when nothing more is to be measured. ``keep_budgets``: a folder for the budgets of every test row. ``time_limit``:
    seconds after which no run begins and the present training is saved. ``revisions``: commits of the hub by data set,
    in place of the pinned ones. ``processes``: those of ``torchrun``, which share every training, with ``fsdp`` the
    models too.
    """

    results: Path
    work: Path
    data_folder: Path | None = None
    device: str = "auto"
    fsdp: bool = False
    keep_budgets: Path | None = None
    quiet: bool = False
    time_limit: float | None = None
    revisions: Mapping[str, str] = field(default_factory=dict)
    processes: Processes = field(default_factory=Processes)
