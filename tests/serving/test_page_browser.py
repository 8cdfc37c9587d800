"""The page in a real Chromium: what a person sees, hears and types, with nothing from outside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ..conftest import chromium
from ..model_folders import make_folder
from .running import KEY, Running

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Page, Request, Route, expect, sync_playwright

pytestmark = pytest.mark.browser
TEXT = "the film was good and the chair it was bad"
OTHER = "a lamp and a table"
SCRIPT = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"> good"
NARROW = {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A model of single texts or pairs with an example in its card that tries to be HTML, without a key."""
    folder = make_folder(tmp_path_factory.mktemp("browser") / "<b>news", segments=True)
    (folder / "README.md").write_text(
        f"---\nwidget:\n- text: {json.dumps(SCRIPT)}\n- text: nice film\n---\n", encoding="utf-8"
    )
    with Running(folder, "--threads", 1, log=folder.parent / "log") as running:
        yield running


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a server's page; at the end nothing may have failed in it, nor been asked of anybody else."""
    wrong: list[str] = []
    contexts = []

    def opened(server: Running, *, expected: str = "nothing", place: str = "", **options: Any) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: wrong.append(message.text) if expected not in message.text else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(server.url) else wrong.append(asked.url))
        page.goto(f"{server.url}/{place}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def answered(page: Page, *, side: int = 0) -> Any:
    """The answer to a text, once it is there with its maps."""
    article = page.locator("#results article").nth(side)
    expect(article.locator(".thumbs canvas").first).to_be_visible()
    return article


def test_a_typed_text_shows_label_scores_heads_work_and_maps(served: Running, open_page: Callable[..., Page]) -> None:
    page = open_page(served)
    page.get_by_role("textbox", name="Text", exact=True).fill(TEXT)
    article = answered(page)
    [answer] = served.classify(TEXT, details=True)
    expect(article.locator(".answer")).to_contain_text(answer["label"])
    assert article.locator(".scores tbody th").all_inner_texts() == sorted(
        answer["scores"], key=lambda label: -answer["scores"][label]
    )
    saved = 100 * (1 - answer["macs"] / answer["macs_dense"])
    assert article.locator(".work").inner_text().startswith(f"{saved:.0f} % fewer multiply-adds")
    rows = article.locator(".grid tbody tr").all()
    ran = [
        ["ran" in (cell.get_attribute("class") or "").split() for cell in row.locator(".head").all()] for row in rows
    ]
    assert ran == answer["details"]["kept"]
    spoken = rows[0].locator(".head").first.text_content()
    assert spoken is not None
    assert spoken.endswith(f"percent relevant, {'ran' if ran[0][0] else 'skipped'}")
    budgets = [row.locator("td").last.inner_text() for row in rows]
    assert [float(said.removesuffix(" %")) for said in budgets] == pytest.approx(
        [100 * share for share in answer["details"]["budgets"]], abs=0.51
    )
    assert article.locator(".words span").all_inner_texts() == ["[CLS]", *TEXT.split(), "[SEP]"]
    expect(page.locator("#status")).to_contain_text(f"{answer['label']}, ")


def test_the_slider_caps_the_budget_and_the_answer_follows(served: Running, open_page: Callable[..., Page]) -> None:
    page = open_page(served)
    page.get_by_role("textbox", name="Text", exact=True).fill(TEXT)
    article = answered(page)
    slider = page.get_by_role("slider")
    assert slider.get_attribute("aria-valuetext") == "no cap"
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    assert slider.get_attribute("aria-valuetext") == "1 of 4 (25 %)"
    expect(article.locator(".summary")).to_have_text("2 of 8 heads ran; by layer, from layer 1: 1, 1.")
    [answer] = served.classify(TEXT, max_budget=0.25)
    expect(article.locator(".answer")).to_contain_text(answer["label"])
    page.keyboard.press("End")
    [free] = served.classify(TEXT)
    expect(article.locator(".summary")).to_contain_text(", ".join(map(str, free["heads"])))


def test_a_late_answer_to_an_earlier_text_is_dropped(served: Running, open_page: Callable[..., Page]) -> None:
    page = open_page(served)
    held: list[Route] = []

    def hold_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/classify", hold_first)
    box = page.get_by_role("textbox", name="Text", exact=True)
    with page.expect_request("**/classify"):
        box.fill(TEXT)
    page.wait_for_timeout(100)
    assert len(held) == 1
    box.fill(OTHER)
    article = answered(page)
    expect(article.locator(".words")).to_contain_text("lamp")
    held[0].abort()
    page.wait_for_timeout(200)
    expect(article.locator(".words")).to_contain_text("lamp")
    assert page.locator("#problem").inner_text() == ""


def test_fast_typing_asks_once(served: Running, open_page: Callable[..., Page]) -> None:
    page = open_page(served)
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request) if request.url.endswith("/classify") else None)
    page.get_by_role("textbox", name="Text", exact=True).press_sequentially("good film", delay=20)
    answered(page)
    assert len(asked) == 1


def test_two_texts_side_by_side_by_keyboard_alone(served: Running, open_page: Callable[..., Page]) -> None:
    page = open_page(served)
    expect(page.locator("#status")).to_have_text("Type a text, or choose an example.")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the answer")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("textbox", name="Text", exact=True)).to_be_focused()
    page.keyboard.type(TEXT)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("group", name="Text B").get_by_role("textbox", name="Text", exact=True)).to_be_focused()
    page.keyboard.type(OTHER)
    page.keyboard.press("Control+Enter")
    answered(page, side=1)
    answers = served.classify(TEXT, OTHER)
    for side, answer in enumerate(answers):
        expect(page.locator(".answer").nth(side)).to_contain_text(answer["label"])
        expect(page.locator("#status")).to_contain_text(f"Text {'AB'[side]}: {answer['label']}")
    left, right = (page.locator("#results article").nth(side).bounding_box() for side in (0, 1))
    assert left is not None
    assert right is not None
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]


def test_a_pair_is_sent_as_one(served: Running, open_page: Callable[..., Page]) -> None:
    page = open_page(served)
    page.get_by_label("Pairs of texts").check()
    page.get_by_role("textbox", name="Text", exact=True).fill(TEXT)
    page.get_by_role("textbox", name="Second text of the pair").fill(OTHER)
    page.get_by_role("button", name="Classify").click()
    expect(page.locator(".words").first).to_contain_text("lamp")
    [answer] = served.answers({"pairs": [{"text": TEXT, "pair": OTHER}]})
    expect(page.locator(".work").first).to_contain_text(f"for {answer['tokens']} tokens")


def test_texts_are_shown_as_text_and_never_become_html(served: Running, open_page: Callable[..., Page]) -> None:
    page = open_page(served)
    expect(page.locator("#name")).to_have_text("<b>news")
    page.locator("#examples button", has_text="<script>").click()
    answered(page)
    assert page.get_by_role("textbox", name="Text", exact=True).input_value() == SCRIPT
    assert page.title() == "<b>news · BudgetFormer"
    assert page.locator("main script, main img, h1 b").count() == 0
    assert page.evaluate("document.scripts.length") == 1


def test_a_link_brings_its_texts_and_cap_and_sends_them_nowhere_else(
    served: Running, open_page: Callable[..., Page]
) -> None:
    page = open_page(served, place="#text=good+film&text=a%20lamp%3Cb%3E&cap=1")
    answered(page, side=1)
    assert [box.input_value() for box in page.locator("textarea.text").all()] == ["good film", "a lamp<b>"]
    expect(page.locator(".summary").first).to_have_text("2 of 8 heads ran; by layer, from layer 1: 1, 1.")


def test_an_inline_script_would_not_run(served: Running, open_page: Callable[..., Page]) -> None:
    page = open_page(served, expected="Content Security Policy")
    code = "const s = document.createElement('script'); s.textContent = 'window.taken = 1'; document.body.append(s)"
    page.evaluate(code)
    assert page.evaluate("window.taken") is None


def test_full_attention_has_no_slider_and_all_heads_run(open_page: Callable[..., Page], tmp_path: Path) -> None:
    shape = {"hidden_size": 24, "num_attention_heads": 12, "num_hidden_layers": 3}
    folder = make_folder(
        tmp_path / "dense", budgeted=False, pair_column="b", text_columns=["a"], segments=True, **shape
    )
    with Running(folder, "--threads", 1, log=tmp_path / "log") as running:
        page = open_page(running, viewport=NARROW)
        page.locator("#examples button").first.click()
        article = answered(page)
        expect(article.locator(".summary")).to_contain_text("36 of 36 heads ran")
        assert article.locator(".grid .ran").count() == 36
        assert article.locator(".thumbs button").count() == 3
        assert not page.get_by_role("slider").is_visible()
        assert not page.get_by_label("Pairs of texts").is_visible()
        assert page.get_by_role("textbox", name="Second text of the pair").input_value()
        assert page.evaluate("document.documentElement.scrollWidth") == NARROW["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_does_not_scroll_sideways(served: Running, open_page: Callable[..., Page], scheme: str) -> None:
    page = open_page(served, viewport=NARROW, color_scheme=scheme)
    page.get_by_label("Compare with a second text").check()
    for side, text in enumerate([TEXT, "x" * 300]):
        page.locator("textarea.text").nth(side).fill(text)
    answered(page, side=1)
    assert page.evaluate("document.documentElement.scrollWidth") == NARROW["width"]
    seen = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(seen) == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 23, 28)"}[scheme]


def test_everything_has_a_name_for_those_who_do_not_see_it(served: Running, open_page: Callable[..., Page]) -> None:
    page = open_page(served)
    page.get_by_role("textbox", name="Text", exact=True).fill(TEXT)
    answered(page)
    nameless = """() => [...document.querySelectorAll('button, textarea, input, select')]
        .filter(e => e.offsetParent && !(e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label')))
        .map(e => e.outerHTML)"""
    assert page.evaluate(nameless) == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    assert page.locator("[role=status]").count() == 1
    header = page.locator(".grid thead th").nth(1)
    assert (header.get_attribute("scope"), header.text_content()) == ("col", "1Head 1")


def test_a_map_is_chosen_by_its_button_and_read_as_words(served: Running, open_page: Callable[..., Page]) -> None:
    page = open_page(served)
    page.get_by_role("textbox", name="Text", exact=True).fill(TEXT)
    article = answered(page)
    button = article.locator(".thumbs button").nth(1)
    button.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    page.get_by_role("combobox", name="Attention from").select_option("3")
    body = {"text": TEXT}
    head = next(h for h in served.client.post("/explain", json=body).json()["layers"][1]["heads"] if "map" in h)
    most = max(range(len(head["map"][3])), key=head["map"][3].__getitem__)
    token = ["[CLS]", *TEXT.split(), "[SEP]"][most]
    expect(article.locator(".most")).to_contain_text(f"Layer 2, head {head['head'] + 1} looks most at “{token}”")
    expect(article.locator(".words .chosen")).to_have_text("was")


def test_the_page_asks_for_a_key_and_forgets_it_on_reload(server: Running, open_page: Callable[..., Page]) -> None:
    page = open_page(server, expected="401")
    key = page.get_by_label("This server asks for an API key")
    expect(key).to_be_focused()
    key.fill("wrong")
    key.press("Enter")
    expect(page.get_by_role("alert").first).to_have_text("This key is not accepted.")
    key.fill(KEY)
    key.press("Enter")
    expect(key).to_be_hidden()
    expect(page.get_by_role("textbox", name="Text", exact=True)).to_be_focused()
    page.keyboard.type(TEXT)
    answered(page)
    kept = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    assert page.evaluate(kept) == '[{},{},""]'
    page.reload()
    expect(key).to_be_visible()


def test_a_refusal_is_said_in_words(served: Running, open_page: Callable[..., Page]) -> None:
    page = open_page(served, expected="413")
    page.get_by_role("textbox", name="Text", exact=True).fill("x" * 100_001)
    expect(page.locator("#problem")).to_contain_text("at most 100000 characters")
