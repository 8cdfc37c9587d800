"""The README's list of files is the list of files."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_source_file_has_its_line_in_the_readme() -> None:
    listed = set(re.findall(r"^- `(src/[^`]+\.py)` — \S", (ROOT / "README.md").read_text(encoding="utf-8"), re.M))
    files = {str(p.relative_to(ROOT)) for p in (ROOT / "src").rglob("*.py") if p.read_text(encoding="utf-8").strip()}
    assert listed == files
