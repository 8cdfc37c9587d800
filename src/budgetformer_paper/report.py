"""The report: one page from rows alone, in Markdown and as a self-contained HTML file."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgetformer.reporting.html import Section, write_report
from budgetformer.reporting.picture import DOTS_PER_INCH, Picture
from budgetformer.reporting.tables import Table, markdown_escaped

from .claims import claims_table, verdicts
from .controlled_table import controlled_tables, is_controlled
from .cost_tables import COST, cost_tables
from .figures import FIGURES, figure_tables, pictures
from .row_checks import read_checked
from .setting import origin, setting_table
from .summary import Summary, summaries
from .tables import TITLES, of_scale, tables

CONTROLLED, MARKDOWN = "controlled.jsonl", "report.md"
PICTURE = re.compile(r"\]\((picture-\d+\.png)\)")
"""What a page calls its pictures."""
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
    read = read_checked(results)
    rows = [row for row in read if scale is None or row.get("scale") == scale]
    if not rows:
        return []
    beside = results.with_name(CONTROLLED)
    more = [] if scale is None else list(read)
    more += read_checked(beside) if beside.is_file() and beside != results else []
    return rows + [row for row in more if is_controlled(row)]


def report_tables(rows: Sequence[dict[str, Any]]) -> list[Table]:
    """Tables and verdicts for the terminal. Claims without rows and what was trained are left out."""
    found = summaries(rows)
    return [table for section in _sections(found, rows, whole=False) for table in section.tables]


def _sections(found: Sequence[Summary], rows: Sequence[dict[str, Any]], *, whole: bool) -> list[Section]:
    """Scale by scale what was trained and the claims, then one section for each table and figure, then the controlled
    task, which belongs to no scale. For the terminal (not ``whole``) the claims come last."""
    made, claims = list[Section](), list[Section]()
    for scale in dict.fromkeys(one.scale for one in found):
        here = of_scale(found, scale)
        said = claims_table(verdicts(here, whole=whole), scale)
        if said.rows:
            claims.append(Section(title=f"The paper's claims at scale {scale}", tables=[said]))
        if whole:
            setting = setting_table(here, scale)
            was_run = Section(title=f"Scale {scale}", texts=[origin(here)], tables=[] if setting is None else [setting])
            made += [was_run, claims.pop()]
        for experiment, title in (TITLES | FIGURES | COST).items():
            of_it = [one for one in here if one.experiment == experiment]
            shown = [*tables(of_it), *figure_tables(of_it), *cost_tables(of_it)]
            drawn = pictures(of_it) if whole else []
            if shown or drawn:
                made.append(Section(title=f"{title} ({scale})", tables=shown, pictures=drawn))
    controlled = controlled_tables(rows)
    if controlled:
        made.append(Section(title="The controlled task (ours)", tables=controlled))
    return made + claims


def write(rows: Sequence[dict[str, Any]], output: Path) -> Report:
    """Write report.md with its pictures and report.html to the folder ``output``.

    Pictures that the page of an earlier call shows and this one does not are deleted.
    Raises ValueError when there is no row to report.
    """
    sections = _sections(summaries(rows), rows, whole=True)
    if not sections:
        raise ValueError("there are no rows of reproduced experiments: run budgetformer reproduce table2 first")
    markdown, page = output / MARKDOWN, output / "report.html"
    for file in (markdown, page):
        if file.is_dir():
            raise ValueError(f"{file} is a folder, and a file of that name is to be written: give another --output")
    output.mkdir(parents=True, exist_ok=True)
    before = set(PICTURE.findall(markdown.read_text("utf-8", errors="replace"))) if markdown.is_file() else set()
    with tempfile.TemporaryDirectory(dir=output, prefix=".report-") as aside:
        text = _drawn(sections, Path(aside))
        for file in sorted(Path(aside).iterdir(), key=lambda file: file.name == markdown.name):  # the page last
            file.replace(output / file.name)
    for name in before - set(PICTURE.findall(text)):
        (output / name).unlink(missing_ok=True)
    html = write_report(page, title=TITLE, intro=list(INTRO), sections=sections)
    return Report(markdown=markdown, html=html)


def _drawn(sections: Sequence[Section], folder: Path) -> str:
    """The text of report.md, once it and its pictures lie in the folder."""
    parts, number = [f"# {TITLE}", *INTRO], 0
    for section in sections:
        parts += [f"## {markdown_escaped(section.title)}", *map(markdown_escaped, section.texts)]
        parts += [table.to_markdown() for table in section.tables]
        for picture in section.pictures:
            number += 1
            parts.append(_saved(picture, folder / f"picture-{number}.png"))
    text = "\n\n".join(parts) + "\n"
    (folder / MARKDOWN).write_text(text, encoding="utf-8")
    return text


def _saved(picture: Picture, file: Path) -> str:
    """Markdown for a picture, once it is saved."""
    picture.figure.savefig(file, dpi=DOTS_PER_INCH)
    return f"![{markdown_escaped(picture.alt)}]({file.name})\n\n{markdown_escaped(picture.caption)}"
