from __future__ import annotations

import base64
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from budgetformer.reporting.figures import head_maps, head_maps_by_class
from budgetformer.reporting.gallery import curve_picture, head_pictures, training_pictures
from budgetformer.reporting.html import Section, render, write_report
from budgetformer.reporting.picture import LARGEST_SVG, Picture, data_uri
from budgetformer.reporting.tables import Table

from . import runs_at_hand

NASTY = "<script>alert('x')</script> & \"quoted\""


class Page(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def picture(alt: str = "a picture") -> Picture:
    return Picture(figure=head_maps(np.eye(2), np.eye(2)), caption="how to read it", alt=alt)


def full_report(classes: int = 14) -> str:
    given = runs_at_hand.heads(layers=12, heads=12, classes=classes, rows=500, without=3)
    names = [NASTY, *(f"Klasse {i} 类别" for i in range(1, classes))]
    figures = [
        *training_pictures(runs_at_hand.history(layers=12), s_min=0.1, s_max=0.3, heads=12, kept_step=8),
        *head_pictures(given, class_names=names, s_min=0.1, s_max=0.3),
        curve_picture(learned=runs_at_hand.curve(12), random=runs_at_hand.curve(12, accuracy=0.8), heads=12),
    ]
    table = Table(caption=NASTY, columns=("model", NASTY), rows=[(NASTY, "1.0")])
    tables = Section(title=NASTY, texts=[NASTY], tables=[table])
    return render(title=NASTY, intro=[NASTY], sections=[tables, Section(title="p", pictures=figures, notes=[NASTY])])


def test_a_full_report_is_one_small_file_that_loads_nothing_and_describes_its_pictures() -> None:
    text = full_report()
    page = Page(text)
    assert len(text.encode()) < 3_000_000
    assert not re.search(r"https?://", text)
    assert not [tag for tag, _ in page.tags if tag in ("script", "link", "iframe", "object")]
    assert "default-src 'none'" in text
    images = page.all("img")
    assert len(images) == 7
    for image in images:
        assert str(image["src"]).startswith("data:image/")
        assert len(str(image["alt"])) > 40
    assert "&lt;script&gt;" in text
    assert "<script" not in text.lower()


def test_the_images_are_whole_svg_without_outside_addresses() -> None:
    uri = data_uri(head_maps(np.eye(2), np.eye(2)))
    kind, _, content = uri.partition(",")
    assert kind == "data:image/svg+xml;base64"
    root = ElementTree.fromstring(base64.b64decode(content))
    links = [value for e in root.iter() for name, value in e.attrib.items() if name.endswith("href")]
    assert all(link.startswith(("#", "data:")) for link in links)


def test_names_in_scripts_without_glyphs_stay_text_and_are_escaped() -> None:
    figure = head_maps_by_class(np.ones((2, 1, 2)), ["体育 <script>", "b"], kind="use")
    svg = base64.b64decode(data_uri(figure).partition(",")[2]).decode()
    assert "体育 &lt;script&gt;" in svg


def test_a_picture_too_large_as_svg_becomes_png() -> None:
    big = np.linspace(0, 1, 60 * 60).reshape(60, 60)
    uri = data_uri(head_maps(big, big))
    assert uri.startswith("data:image/png;base64,")
    assert len(uri) < 2 * LARGEST_SVG


def test_the_same_picture_gives_the_same_bytes() -> None:
    assert data_uri(picture().figure) == data_uri(picture().figure)


def test_tables_name_their_columns_and_rows() -> None:
    page = Page(
        render(
            title="t",
            intro=[],
            sections=[Section(title="s", tables=[Table(caption="c", columns=("a", "b"), rows=[("x", "1")])])],
        )
    )
    assert [a["scope"] for a in page.all("th")] == ["col", "col", "row"]
    assert len(page.all("caption")) == 1
    assert page.all("html") == [{"lang": "en"}]


def test_a_page_of_many_sections_begins_with_links_to_them() -> None:
    page = Page(render(title="t", intro=[], sections=[Section(title=f"{NASTY} {i}") for i in range(5)]))
    assert [a["href"] for a in page.all("a")] == [f"#{a['id']}" for a in page.all("h2")]
    assert not Page(render(title="t", intro=[], sections=[Section(title="s")])).all("a")


def test_a_picture_needs_a_description() -> None:
    with pytest.raises(ValueError, match="alt must say"):
        picture(alt=" ")


def test_one_text_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(ValueError, match="intro must be a list of texts"):
        render(title="t", intro="one text", sections=[])


def test_the_file_appears_complete_with_its_folders(tmp_path: Path) -> None:
    path = write_report(tmp_path / "new" / "report.html", title="t", intro=["\ud800 half a pair"], sections=[])
    assert path.read_text(encoding="utf-8").endswith("</html>\n")
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o400


def test_a_failed_report_leaves_the_old_one(tmp_path: Path) -> None:
    path = write_report(tmp_path / "report.html", title="old", intro=[], sections=[])
    with pytest.raises(ValueError, match="must be a list"):
        write_report(path, title="new", intro="wrong", sections=[])
    assert "<title>old</title>" in path.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_is_no_place_for_the_report(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder"):
        write_report(tmp_path, title="t", intro=[], sections=[])
