"""An explanation as page and picture: whole, escaped, readable, and honest about what is left out."""

from __future__ import annotations

import io
import itertools
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from PIL import Image

from budgetformer.answers import Prediction
from budgetformer.explanation import Explanation, by_relevance
from budgetformer.reporting.explained import (
    entropy_table,
    layers_table,
    map_tables,
    page,
    pictures,
    png,
    relevance_table,
    tokens_shown,
)
from budgetformer.reporting.figures import HeadMap, maps_of_a_layer
from budgetformer.reporting.figures.attention import LABEL_FONT, MOST_TOKENS
from budgetformer.reporting.figures.style import WIDTH

NASTY = "<script>alert('x')</script> & \"quoted\""
ODD = ["<b>", "&amp;", "$x_1$", "שלום", "نص", "👩‍👩‍👧", "你好", "\u202e", "\0", "a\nb", " ", "", "𒀀", "ก็"]


class Page(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def explained(
    *, layers: int = 2, heads: int = 4, tokens: list[str] | int = 9, shown: int = 4, dense: bool = False, **changes: Any
) -> Explanation:
    """Random maps in which token 1 receives much; half of the heads ran."""
    random = np.random.default_rng(0)
    names = [f"word{i}" for i in range(tokens)] if isinstance(tokens, int) else tokens
    size = len(names)
    maps_LHNN = random.dirichlet(np.full(size, 0.3), size=(layers, heads, size))
    relevance_LH = random.dirichlet(np.full(heads, 0.5), size=layers)
    kept_LH = relevance_LH >= np.median(relevance_LH, axis=1, keepdims=True)
    order = by_relevance(kept_LH | dense, None if dense else relevance_LH)[:, :shown]
    prediction = Prediction(
        label=NASTY,
        score=0.5,
        scores={NASTY: 0.5},
        heads=[2] * layers,
        budgets=[],
        macs=1000,
        tokens=size,
        truncated=False,
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy_LH = -np.nan_to_num(maps_LHNN * np.log(maps_LHNN)).sum(axis=-1).mean(axis=-1)
    fields: dict[str, Any] = {
        "text": NASTY,
        "pair": None,
        "prediction": prediction,
        "tokens": tuple(names),
        "budget_L": None if dense else random.uniform(size=layers),
        "relevance_LH": None if dense else relevance_LH,
        "kept_LH": kept_LH | dense,
        "gates_LH": (kept_LH | dense).astype(float),
        "entropy_LH": entropy_LH,
        "shown_LK": order,
        "maps_LKNN": np.stack([m[o] for m, o in zip(maps_LHNN, order, strict=True)]).astype(np.float32),
    }
    return Explanation(**(fields | changes))


def test_the_page_is_one_file_that_loads_nothing_describes_its_pictures_and_escapes_what_comes_from_outside() -> None:
    given = explained(pair=NASTY, tokens=[NASTY, *ODD])
    text = page(given, tokens_shown(given), model=NASTY)
    read = Page(text)
    assert not re.search(r"https?://", text)
    assert not [tag for tag, _ in read.tags if tag in ("script", "link", "iframe", "object", "b")]
    images = [attributes for tag, attributes in read.tags if tag == "img"]
    assert len(images) == 3
    for image in images:
        assert (image["src"] or "").startswith("data:image/")
        assert len(image["alt"] or "") > 60
    assert len([tag for tag, _ in read.tags if tag == "caption"]) == 5
    assert "Text: <script>alert" in read.words
    assert "not run" in read.words
    assert "computed for this picture only" in read.words


@pytest.mark.parametrize(("layers", "heads", "shown"), [(1, 1, 1), (2, 3, 3), (12, 16, 2)])
@pytest.mark.parametrize("dense", [False, True])
def test_small_and_large_models_with_and_without_relevance(layers: int, heads: int, shown: int, dense: bool) -> None:
    given = explained(layers=layers, heads=heads, shown=shown, tokens=5, dense=dense)
    drawn = pictures(given, tokens_shown(given))
    assert len(drawn) == layers + 1
    for picture in drawn:
        assert picture.figure.get_size_inches()[0] == WIDTH
    assert len(layers_table(given).rows) == layers + 1
    assert len(entropy_table(given).rows) == layers + 2
    assert len(relevance_table(given).columns) == heads + 1


def test_a_long_text_shows_the_tokens_that_receive_most_and_says_how_many_are_left_out() -> None:
    given = explained(tokens=200)
    shown = tokens_shown(given)
    received_N = given.maps_LKNN.mean(axis=(0, 1, 2))
    assert len(shown.places) == 24
    assert (np.diff(shown.places) > 0).all()
    assert received_N[shown.places].min() >= np.delete(received_N, shown.places).max()
    assert shown.share == pytest.approx(received_N[shown.places].sum())
    assert "176 are left out" in shown.words
    assert f"{shown.share:.0%}" in shown.words
    drawn = pictures(given, shown)
    assert all("176 of 200 tokens are left out" in p.figure.get_suptitle().replace("\n", " ") for p in drawn[1:])
    assert all("176 are left out" in p.caption for p in drawn[1:])
    assert all(len(table.rows) == 24 for table in map_tables(given, shown))


def test_a_short_text_leaves_nothing_out() -> None:
    given = explained(tokens=7)
    shown = tokens_shown(given)
    assert shown.places.tolist() == list(range(7))
    assert shown.words == "all 7 tokens of the text are shown"
    assert not any("left out" in p.caption + p.figure.get_suptitle() for p in pictures(given, shown))


@pytest.mark.parametrize("most", [0, -1, MOST_TOKENS + 1])
def test_more_tokens_than_labels_have_room_for_are_refused(most: int) -> None:
    with pytest.raises(ValueError, match=f"between 1 and {MOST_TOKENS}"):
        tokens_shown(explained(), most)


@pytest.mark.parametrize("count", [1, 9, 24, MOST_TOKENS])
def test_labels_do_not_touch_each_other(count: int) -> None:
    heads = [HeadMap(title="head 1", subtitle="1 nat", kept=i > 1, map_NN=np.eye(count)) for i in range(4)]
    figure = maps_of_a_layer(heads, ["w" * 30] * count, title="t", high=1.0)
    figure.draw_without_rendering()
    for axes in figure.axes[:4]:
        height = axes.get_window_extent().height * 72 / figure.dpi
        assert height / count >= LABEL_FONT
    first = figure.axes[0].get_window_extent()
    assert first.width == pytest.approx(first.height, rel=0.02)


def test_nothing_of_a_picture_lies_outside_of_it_or_on_something_else() -> None:
    heads = [HeadMap(title="head 12, p 12%, not run", subtitle="1.00 nats (12%)", kept=False, map_NN=np.eye(4))] * 4
    figure = maps_of_a_layer(heads, ["W" * 30, "[CLS]", "ß", "U+4F60 U+597D"], title="A long title " * 9, high=1.0)
    figure.draw_without_rendering()
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert box is not None
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
        assert box.y1 <= figure.bbox.y1
    titles = [axes.title.get_window_extent() for axes in figure.axes[:4]]
    for one, other in itertools.combinations(titles, 2):
        assert not one.overlaps(other)
    heading = figure.texts[0].get_window_extent()
    assert not any(heading.overlaps(box) for box in titles)


def test_the_picture_holds_the_grid_and_all_layers_below_each_other() -> None:
    given = explained()
    image = Image.open(io.BytesIO(png(given, tokens_shown(given))))
    assert image.format == "PNG"
    assert image.width == pytest.approx(WIDTH * 150, abs=2)
    heights = [p.figure.get_size_inches()[1] * 150 for p in pictures(given, tokens_shown(given))]
    assert image.height == pytest.approx(sum(heights), abs=4)


def test_a_picture_without_text_writes_letters_that_its_font_lacks_as_code_points() -> None:
    given = explained(tokens=["你", "שלום", "word"])
    figure = pictures(given, tokens_shown(given), everywhere=True)[1].figure
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["U+4F60", "שלום", "word"]
    svg = pictures(given, tokens_shown(given))[1].figure
    assert svg.axes[0].get_yticklabels()[0].get_text() == "你"


def test_odd_tokens_are_drawn_without_a_warning() -> None:
    given = explained(tokens=ODD)
    assert png(given, tokens_shown(given))
    assert page(given, tokens_shown(given), model="m")


def test_a_text_of_one_token_has_no_share_of_entropy() -> None:
    given = explained(tokens=1)
    assert entropy_table(given).rows[-1][1] == "–"
    assert "the text has one token" in tokens_shown(given).words
    assert page(given, tokens_shown(given), model="m")


def test_a_very_long_text_is_repeated_in_part_and_the_page_says_so() -> None:
    given = explained(text="x" * 5000, layers=1, shown=1)
    assert "(3,000 more characters)" in Page(page(given, tokens_shown(given), model="m")).words


def test_text_in_another_direction_does_not_move_what_stands_around_it() -> None:
    given = explained(tokens=["שלום", "b", "c"])
    cells = [cell for row in map_tables(given, tokens_shown(given))[0].rows for cell in row]
    assert any("\u2068שלום\u2069 " in cell for cell in cells)
    assert all(cell.count("\u2068") == cell.count("\u2069") for cell in cells)
