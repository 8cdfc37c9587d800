"""One HTML file that holds everything: texts, tables, pictures. It loads nothing and prints well."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from .picture import Picture, data_uri
from .tables import Table

CSS = """
:root { color-scheme: light; }
body { margin: 2rem auto; padding: 0 1rem; max-width: 50rem; background: #fff; color: #1a1a1a;
  font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin-top: 2.5rem; border-bottom: 1px solid #999; }
.scroll { overflow-x: auto; position: relative; left: 50%; transform: translateX(-50%); width: max-content;
  min-width: 100%; max-width: min(96vw, 76rem); }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .4rem; color: #444; }
td { max-width: 30rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #ccc; text-align: left; vertical-align: top;
  overflow-wrap: break-word; font-weight: normal; }
thead th { border-bottom: 2px solid #1a1a1a; font-weight: bold; overflow-wrap: normal; }
nav li { line-height: 1.4; }
.right { text-align: right; overflow-wrap: normal; }
td.right { white-space: nowrap; }
figure { margin: 2rem 0; }
img { max-width: 100%; height: auto; }
figcaption { color: #444; font-size: .95rem; }
@page { size: A4; margin: 18mm 20mm; }
@media print {
  body { margin: 0; padding: 0; max-width: none; font-size: 10pt; }
  .scroll { overflow: visible; position: static; transform: none; width: auto; max-width: none; }
  td.right { white-space: normal; }
  th, td { overflow-wrap: anywhere; }
  nav { display: none; }
  figure, tr { break-inside: avoid; }
  img { max-height: 235mm; }
  h2 { break-after: avoid; }
  thead { display: table-header-group; }
}
"""


MANY = 5
"""From so many sections on a page begins with links to them."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """What stands below a heading: paragraphs, tables, pictures, and a list of points, in this order; plain text."""

    title: str
    texts: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    notes: Sequence[str] = ()

    def to_html(self, number: int) -> list[str]:
        """Lines of the page; ``number`` makes the heading's anchor."""
        parts = [f'<h2 id="part-{number}">{escape(self.title)}</h2>']
        parts += [f"<p>{escape(text)}</p>" for text in _listed("texts", self.texts)]
        parts += [f'<div class="scroll">{table.to_html()}</div>' for table in self.tables]
        for picture in self.pictures:
            parts += [
                "<figure>",
                f'<img src="{data_uri(picture.figure)}" alt="{escape(picture.alt)}">',
                f"<figcaption>{escape(picture.caption)}</figcaption>",
                "</figure>",
            ]
        if self.notes:
            parts += ["<ul>", *(f"<li>{escape(note)}</li>" for note in _listed("notes", self.notes)), "</ul>"]
        return parts


def write_report(path: str | Path, *, title: str, intro: Sequence[str], sections: Sequence[Section]) -> Path:
    """Write the report to ``path`` and return it; the file appears complete or not at all.

    ``intro`` are paragraphs of plain text. Everything is escaped.
    Raises ValueError when ``path`` is a folder, OSError with the path when it cannot be written.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"report {path} is a folder; give the name of a file, such as {path / 'report.html'}")
    page = render(title=title, intro=intro, sections=sections)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    aside = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as sink:
            sink.write(page)
        aside.chmod(0o666 & ~_umask())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    return path


def render(*, title: str, intro: Sequence[str], sections: Sequence[Section]) -> str:
    """The page as text; see ``write_report``."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # The browser itself refuses whatever is not in this file.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">",
        f"<title>{escape(title)}</title>",
        f"<style>{CSS}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(paragraph)}</p>" for paragraph in _listed("intro", intro)),
    ]
    if len(sections) >= MANY:
        links = (
            f'<li><a href="#part-{number}">{escape(section.title)}</a></li>' for number, section in enumerate(sections)
        )
        parts += ["<nav><ul>", *links, "</ul></nav>"]
    for number, section in enumerate(sections):
        parts += section.to_html(number)
    return "\n".join([*parts, "</main>", "</body>", "</html>", ""])


def _listed(name: str, texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise ValueError(f"{name} must be a list of texts, got one text; put it into a list")
    return texts


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
