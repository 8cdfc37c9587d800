"""The curve as a table and as a section of a card that is replaced as a whole."""

from __future__ import annotations

from typing import Any

from budgetformer.reporting.curve_card import BEGIN, END, curve_section, curve_table, has_section, with_section
from budgetformer.reporting.gallery import measured_curve_picture

CARD = "---\ntags:\n- x\n---\n\n# A model\n\nWords of its own.\n\n## Training\n\nLong.\n"


def row(choice: str, asked: int | None, accuracy: float) -> dict[str, Any]:
    heads = 1.4 if asked is None else float(asked)
    figures = {"accuracy": accuracy, "macro_f1": accuracy, "mean_heads": heads, "rows": 300, "texts_per_second": 10.0}
    budget = None if asked is None else asked / 2
    macs = {"macs": heads * 1e6, "macs_dense": 2e6}
    return {"choice": choice, "asked": asked, "budget": budget} | figures | macs


ROWS = [
    row("own", None, 0.95),
    row("learned", 1, 0.91),
    row("learned", 2, 0.94),
    row("random", 1, 0.5),
    row("random", 2, 0.94),
]


def test_learned_and_random_heads_stand_side_by_side() -> None:
    table = curve_table(ROWS, heads=2)
    assert table.columns[3:5] == ["accuracy", "random heads"]
    assert list(table.rows[0]) == ["its own budgets", "–", "1.40", "0.9500", "–", "1.4", "70%"]
    assert list(table.rows[1]) == ["1 of 2 heads", "0.5", "1.00", "0.9100", "0.5000", "1.0", "50%"]
    assert len(table.rows) == 3
    assert "random heads" not in curve_table(ROWS[:3], heads=2).columns


def test_a_section_is_put_in_and_replaced_and_nothing_else_changes() -> None:
    picture = measured_curve_picture(ROWS, heads=2)
    first = curve_section(ROWS, heads=2, data="a [b].csv", picture=picture, notes=["Smallest *budget*."])
    once = with_section(CARD, first)
    assert once.index("Words of its own.") < once.index(BEGIN) < once.index(END) < once.index("## Training")
    assert r"on 300 labelled rows: a \[b\].csv." in once
    assert "](budget-curve.png)" in once
    assert r"Smallest \*budget\*." in once
    assert with_section(once, first) == once
    second = curve_section(ROWS[:3], heads=2, data="other.csv", picture=None)
    twice = with_section(once, second)
    assert twice.count(BEGIN) == twice.count(END) == 1
    assert "a \\[b\\].csv" not in twice
    assert "Random heads" not in twice
    assert twice.replace(second.rstrip("\n") + "\n\n", "") == CARD


def test_words_behind_a_section_without_an_end_are_kept() -> None:
    card = f"# Mine\n{BEGIN}\nWords of its own.\n\n## Use\n\nSo.\n"
    section = curve_section(ROWS, heads=2, data="d", picture=None)
    assert not has_section(card)
    once = with_section(card, section)
    assert has_section(once)
    assert "Words of its own." in with_section(once, section)
    assert with_section(once, section) == once


def test_a_card_of_another_kind_gets_the_section_at_its_end() -> None:
    section = curve_section(ROWS, heads=2, data="d", picture=None)
    for card in ("", "# Mine\n\nText", f"# Half\n{BEGIN}\nno end\n"):
        made = with_section(card, section)
        assert made.startswith(card.rstrip("\n"))
        assert made.rstrip("\n").endswith(END)
        assert made.endswith("\n")
