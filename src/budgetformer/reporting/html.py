"""One HTML file that holds everything: texts, tables, pictures. It loads nothing and prints well."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
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
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .4rem; color: #444; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #ccc; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; font-weight: normal; }
thead th { border-bottom: 2px solid #1a1a1a; font-weight: bold; overflow-wrap: normal; }
.right { text-align: right; overflow-wrap: normal; }
figure { margin: 2rem 0; }
img { max-width: 100%; height: auto; }
figcaption { color: #444; font-size: .95rem; }
@page { size: A4; margin: 18mm 20mm; }
@media print {
  body { margin: 0; padding: 0; max-width: none; font-size: 10pt; }
  .scroll { overflow: visible; }
  figure, tr { break-inside: avoid; }
  img { max-height: 235mm; }
  h2 { break-after: avoid; }
  thead { display: table-header-group; }
}
"""


def write_report(
    path: str | Path,
    *,
    title: str,
    intro: Sequence[str],
    tables: Sequence[Table],
    figures: Sequence[Picture],
    appendix: Sequence[Table] = (),
    notes: Sequence[str] = (),
) -> Path:
    """Write the report to ``path`` and return it; the file appears complete or not at all.

    ``intro`` are paragraphs, ``notes`` the points of a list at the end; both plain text. ``appendix`` are tables that
    say in numbers what the pictures show. Everything is escaped.
    Raises ValueError when ``path`` is a folder, OSError with the path when it cannot be written.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"report {path} is a folder; give the name of a file, such as {path / 'report.html'}")
    page = render(title=title, intro=intro, tables=tables, figures=figures, appendix=appendix, notes=notes)
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


def render(
    *,
    title: str,
    intro: Sequence[str],
    tables: Sequence[Table],
    figures: Sequence[Picture],
    appendix: Sequence[Table] = (),
    notes: Sequence[str] = (),
) -> str:
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
    if tables:
        parts += ["<h2>Figures measured</h2>", *(f'<div class="scroll">{table.to_html()}</div>' for table in tables)]
    if figures:
        parts.append("<h2>Pictures</h2>")
    for picture in figures:
        parts += [
            "<figure>",
            f'<img src="{data_uri(picture.figure)}" alt="{escape(picture.alt)}">',
            f"<figcaption>{escape(picture.caption)}</figcaption>",
            "</figure>",
        ]
    if appendix:
        tables_of_pictures = (f'<div class="scroll">{table.to_html()}</div>' for table in appendix)
        parts += ["<h2>The pictures as tables</h2>", *tables_of_pictures]
    if notes:
        items = [f"<li>{escape(note)}</li>" for note in _listed("notes", notes)]
        parts += ["<h2>Notes</h2>", "<ul>", *items, "</ul>"]
    return "\n".join([*parts, "</main>", "</body>", "</html>", ""])


def _listed(name: str, texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise ValueError(f"{name} must be a list of texts, got one text; put it into a list")
    return texts


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
