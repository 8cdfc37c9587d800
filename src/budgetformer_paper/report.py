"""The report: one page from rows alone, in Markdown and as a self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgetformer.reporting.html import write_report
from budgetformer.reporting.tables import Table

from .claims import claims_table, verdicts
from .summary import Summary, summaries
from .tables import of_scale, tables

TITLE = "arXiv 2604.22583, reproduced"
INTRO = (
    "The paper's figures beside the measured ones. Every measured figure comes from a result row with its "
    "configuration, seed, commit and machine; figures of different scales never share a column.",
    "Two accountings of cost: multiply-adds executed per text (projections of the heads that were kept, attention, "
    "feed-forward, both nets, classifier; no padding), and the paper's (attention block only, padded, projections of "
    "all heads) over the whole test set, with its grams.",
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The two files that were written."""

    markdown: Path
    html: Path


def report_tables(rows: Sequence[dict[str, Any]]) -> list[Table]:
    """All tables, and for every scale the verdicts."""
    found = summaries(rows)
    return [*tables(found), *(claims for scale in _scales(found) if (claims := _claims(found, scale)).rows)]


def write(rows: Sequence[dict[str, Any]], output: Path) -> Report:
    """Write report.md and report.html to the folder ``output``. Raises ValueError when there is no row to report."""
    made = report_tables(rows)
    if not made:
        raise ValueError("there are no rows of reproduced experiments: run budgetformer reproduce table2 first")
    output.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join([f"# {TITLE}", *INTRO, *(table.to_markdown() for table in made)]) + "\n"
    markdown = output / "report.md"
    aside = markdown.with_suffix(".partial")
    aside.write_text(text, encoding="utf-8")
    aside.replace(markdown)
    html = write_report(output / "report.html", title=TITLE, intro=list(INTRO), tables=made, figures=[])
    return Report(markdown=markdown, html=html)


def _scales(found: Sequence[Summary]) -> list[str]:
    return list(dict.fromkeys(s.scale for s in found))


def _claims(found: Sequence[Summary], scale: str) -> Table:
    return claims_table(verdicts(of_scale(found, scale)), scale)
