"""The report: one page from rows alone, in Markdown and as a self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgetformer.reporting.html import write_report
from budgetformer.reporting.picture import DOTS_PER_INCH
from budgetformer.reporting.results import read_rows
from budgetformer.reporting.tables import Table, markdown_escaped

from .claims import claims_table, verdicts
from .controlled_table import controlled_tables, is_controlled
from .cost_tables import cost_tables
from .figures import figure_tables, pictures
from .summary import summaries
from .tables import of_scale, tables

CONTROLLED = "controlled.jsonl"
TITLE = "arXiv 2604.22583, reproduced"
INTRO = (
    "The paper's figures beside the measured ones. Every measured figure comes from a result row with its "
    "configuration, seed, commit and machine; figures of different scales never share a column.",
    "Two accountings of cost: multiply-adds executed (projections of the heads that were kept, attention, "
    "feed-forward, both nets, classifier; no padding), and the paper's (attention block only, padded, projections of "
    "all heads). Grams of CO2 of either are multiply-adds times the paper's 3.3333e-15 g, which is no measurement; "
    "beside them stand energy and grams of the evaluation as this machine measured or estimated them.",
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The two files that were written."""

    markdown: Path
    html: Path


def rows_to_report(results: Path, scale: str | None) -> list[dict[str, Any]]:
    """The rows of a file, of one scale or all, and those of the controlled task in it or in ``controlled.jsonl`` beside
    it; empty when the file has none of the scale."""
    read = read_rows(results)
    rows = [row for row in read if scale is None or row.get("scale") == scale]
    if not rows:
        return []
    beside = results.with_name(CONTROLLED)
    more = [] if scale is None else list(read)
    more += read_rows(beside) if beside.is_file() and beside != results else []
    return rows + [row for row in more if is_controlled(row)]


def report_tables(rows: Sequence[dict[str, Any]], *, whole: bool = True) -> list[Table]:
    """All tables, and for every scale the verdicts; ``whole`` lists claims without rows too.

    Rows of the controlled task are a table of their own, which belongs to no scale.
    """
    found = summaries(rows)
    scales = dict.fromkeys(one.scale for one in found)
    claims = [claims_table(verdicts(of_scale(found, scale), whole=whole), scale) for scale in scales]
    shown = [*tables(found), *figure_tables(found), *cost_tables(found), *controlled_tables(rows)]
    return [*shown, *(one for one in claims if one.rows)]


def write(rows: Sequence[dict[str, Any]], output: Path) -> Report:
    """Write report.md with its pictures and report.html to the folder ``output``.

    Raises ValueError when there is no row to report.
    """
    made = report_tables(rows)
    if not made:
        raise ValueError("there are no rows of reproduced experiments: run budgetformer reproduce table2 first")
    drawn = pictures(summaries(rows))
    output.mkdir(parents=True, exist_ok=True)
    images = []
    for number, picture in enumerate(drawn, start=1):
        file = output / f"picture-{number}.png"
        picture.figure.savefig(file, dpi=DOTS_PER_INCH)
        images.append(f"![{markdown_escaped(picture.alt)}]({file.name})\n\n{markdown_escaped(picture.caption)}")
    parts = [f"# {TITLE}", *INTRO, *(table.to_markdown() for table in made), *images]
    text = "\n\n".join(parts) + "\n"
    markdown = output / "report.md"
    aside = markdown.with_suffix(".partial")
    aside.write_text(text, encoding="utf-8")
    aside.replace(markdown)
    html = write_report(output / "report.html", title=TITLE, intro=list(INTRO), tables=made, figures=drawn)
    return Report(markdown=markdown, html=html)
