"""The page's files from a running server: what they are, what they may do, and that nothing in them is from outside."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import budgetformer
from budgetformer import train
from budgetformer.model_folder import LONGEST_EXAMPLE, MOST_EXAMPLES
from budgetformer.serving.examples import PAIRS, TEXTS, examples
from budgetformer.serving.page import FILES, HEADERS

from .running import KEY, Running, strict

STATIC = Path(budgetformer.__file__).parent / "serving" / "static"


@pytest.mark.parametrize("path", FILES)
def test_a_file_comes_as_it_is_without_a_key_under_a_strict_policy(server: Running, path: str) -> None:
    name, kind = FILES[path]
    response = httpx.get(server.url + path)
    assert response.status_code == 200
    assert response.content == (STATIC / name).read_bytes()
    assert response.headers["content-type"].split(";")[0] == kind
    assert response.headers["content-security-policy"].split("; ")[0] == "default-src 'self'"
    assert "unsafe" not in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"
    again = httpx.get(server.url + path, headers={"If-None-Match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    head = httpx.head(server.url + path)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(response.content)))
    assert httpx.post(server.url + path).status_code == 405


def test_every_file_is_given_out_and_none_names_an_address_or_makes_html_of_text() -> None:
    assert {file.name for file in STATIC.iterdir()} == {name for name, _ in FILES.values()}
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"^ *//.*|; //.*|\{ //.*", "", text, flags=re.M), file.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|\.html\(|Storage|cookie", text)
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script>|javascript:", page)
    assert set(re.findall(r'(?:src|href)="([^"#]+)"', page)) == {"icon.svg", "page.css", "page.js"}


def test_the_page_asks_for_what_needs_a_key_with_it(server: Running) -> None:
    assert httpx.get(f"{server.url}/model").status_code == 401
    described = strict(httpx.get(f"{server.url}/model", headers={"Authorization": f"Bearer {KEY}"}))
    assert described["examples"] == list(TEXTS)
    assert "frame-ancestors 'none'" in HEADERS["Content-Security-Policy"]


def card(folder: Path, head: str) -> Path:
    (folder / "README.md").write_text(f"---\n{head}\n---\n# A model\n", encoding="utf-8")
    return folder


def test_examples_are_those_of_the_card_that_the_model_takes(tmp_path: Path) -> None:
    long = "x" * (LONGEST_EXAMPLE + 1)
    entries = f'- text: "<b>Good</b>"\n- text: a\n  pair: b\n- {{text: 3}}\n- 7\n- text: {long}\n- text: ""\n- pair: c'
    folder = card(tmp_path, f"widget:\n{entries}")
    assert examples(folder, takes="texts") == [{"text": "<b>Good</b>"}]
    assert examples(folder, takes="pairs") == [{"text": "a", "pair": "b"}]
    assert examples(folder, takes="texts or pairs") == [{"text": "<b>Good</b>"}, {"text": "a", "pair": "b"}]
    many = card(tmp_path, "widget:\n" + "\n".join(f"- text: t{i}" for i in range(9)))
    assert [example["text"] for example in examples(many, takes="texts")] == ["t0", "t1", "t2", "t3", "t4", "t5"]


def test_the_examples_of_a_training_are_offered(small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]) -> None:
    texts = ("good: 'fine' # and \"so on\"\u2028", "two\nlines 😀 --- é", "x" * LONGEST_EXAMPLE)
    train(train=small_csv, output=tmp_path / "m", max_steps=1, examples=texts, **tiny_settings)
    assert examples(tmp_path / "m", takes="texts") == [{"text": text} for text in texts]


def test_examples_that_could_not_be_offered_are_refused(
    small_csv: Path, write_csv: Callable[..., Path], tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    settings = tiny_settings | {"train": small_csv, "output": tmp_path / "m"}
    for given, said in (
        (["x"] * (MOST_EXAMPLES + 1), "at most 6 texts, got 7"),
        (["x" * (LONGEST_EXAMPLE + 1)], "1 to 1000 characters, got 1001"),
        ([" "], "1 to 1000 characters"),
        (["a\udc80"], "UTF-8"),
        ("good", "a list"),
    ):
        with pytest.raises(ValueError, match=said):
            train(**settings, examples=given)
    pairs = write_csv([("a", "b", "x"), ("c", "d", "y")] * 9, header=("premise", "hypothesis", "label"), name="p.csv")
    columns = {"text_column": "premise", "pair_column": "hypothesis"}
    with pytest.raises(ValueError, match="takes pairs"):
        train(**settings | columns | {"train": pairs}, examples=["good"])
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("head", ["title: x", "widget: 3", "widget: [", "widget:", "- a"])
def test_without_a_card_that_can_be_read_there_are_examples_all_the_same(tmp_path: Path, head: str) -> None:
    assert examples(tmp_path, takes="pairs") == list(PAIRS)
    assert examples(card(tmp_path, head), takes="texts") == list(TEXTS)
