from __future__ import annotations

import io

import pytest
from rich.console import Console

from budgetformer.reporting.intervals import wilson
from budgetformer.reporting.tables import ModelRow, Table, markdown_escaped, models_table


@pytest.fixture
def table() -> Table:
    rows = [("[red]新闻[/red]", "0.97", "–"), ("a | b\nc <i>", "1,234", "12%")]
    return Table(caption="Two models", columns=("Model", "Accuracy", "Share"), rows=rows)


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"row 1 of table 'c' has 1 cells for 2 columns"):
        Table(caption="c", columns=("a", "b"), rows=[("1", "2"), ("1",)])


def test_plain_text_is_aligned_by_the_width_of_characters(table: Table) -> None:
    lines = table.to_text().splitlines()
    assert lines == [
        "Two models",
        "Model            Accuracy  Share",
        "[red]新闻[/red]      0.97      –",
        "a | b c <i>         1,234    12%",
    ]


def test_the_terminal_shows_cells_as_they_are(table: Table) -> None:
    sink = io.StringIO()
    Console(file=sink, width=80).print(table.to_rich())
    assert "[red]新闻[/red]" in sink.getvalue()


def test_markdown_keeps_the_columns_apart(table: Table) -> None:
    lines = table.to_markdown().splitlines()
    assert lines[1] == "| --- | ---: | ---: |"
    assert lines[3] == r"| a \| b c \<i\> | 1,234 | 12% |"
    assert lines[-1] == "Two models"


def test_html_escapes_cells(table: Table) -> None:
    assert "&lt;i&gt;" in table.to_html()
    assert '<td class="right">0.97</td>' in table.to_html()


def test_an_empty_table_renders_everywhere() -> None:
    empty = Table(caption="", columns=("a", "b"), rows=[])
    assert empty.to_text() == "a  b"
    assert empty.to_markdown() == "| a | b |\n| --- | --- |"
    assert "<tbody>" in empty.to_html()


def test_markdown_escapes_what_has_a_meaning() -> None:
    assert markdown_escaped("*a* `b` [c](d) <e>") == r"\*a\* \`b\` \[c\](d) \<e\>"


def test_the_table_of_models_compares_with_full_attention_and_says_how_sure_it_is() -> None:
    figures = {"accuracy": 0.97, "macro_f1": 0.969, "mean_heads": 2.1, "macs": 4e7, "texts_per_second": 210.4}
    models = [
        ModelRow.of("BudgetFormer", figures, all_heads=8),
        ModelRow(name="TF-IDF", accuracy=0.975, macro_f1=0.974),
    ]
    table = models_table(models, data="BBC News, test part", rows=300, dense_macs=8e7)
    assert table.rows[0] == ["BudgetFormer", "0.970", "0.969", "2.10 of 8", "40.0 million", "50%", "210"]
    assert table.rows[1][3:] == ["–"] * 4
    assert "300 texts: BBC News, test part" in table.caption
    assert "95% interval of an accuracy of 0.975: 0.950 to 0.988" in table.caption


def test_wilson_interval_of_known_values() -> None:
    half = wilson(0.5, 100)
    assert (half.low, half.high) == pytest.approx((0.40383, 0.59617), abs=1e-5)
    assert wilson(1.0, 1).high == 1.0
    assert 0 < wilson(1.0, 1).low < 0.3
    assert wilson(0.0, 10).low == 0.0


@pytest.mark.parametrize(("share", "rows"), [(1.1, 5), (-0.1, 5), (float("nan"), 5), (0.5, 0)])
def test_wilson_interval_of_impossible_values(share: float, rows: int) -> None:
    with pytest.raises(ValueError, match="must"):
        wilson(share, rows)
