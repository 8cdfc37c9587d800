"""Tables and verdicts from rows: no two scales in a table, means over seeds, and answers that the rows can bear."""

from __future__ import annotations

import errno
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from budgetformer.reporting.results import append_row
from budgetformer_paper.claims import verdicts
from budgetformer_paper.recipe import Recipe
from budgetformer_paper.recipes import (
    BUDGETS,
    cost,
    figure1,
    minilm_adaptive,
    minilm_dense,
    minilm_fixed,
    minilm_random_trained,
    table2_budgetformer,
    table2_tfidf,
    table2_transformer,
    table3_adaptive,
    table3_asked,
    table3_fixed,
    table4_learned,
    table4_random,
    table4_random_trained,
    table5,
    table6,
)
from budgetformer_paper.report import report_tables, rows_to_report, write
from budgetformer_paper.scales import SCALES
from budgetformer_paper.setting import origin, setting_table
from budgetformer_paper.summary import summaries
from budgetformer_paper.tables import accuracy_table, tables
from budgetformer_paper.verdict import CLAIMS, FAILED, HELD, OPEN, UNKNOWN, Verdict


def row(recipe: Recipe, accuracy: float, *, seed: int = 0, scale: str = "cpu", **more: Any) -> dict[str, Any]:
    """A row as ``run`` writes it, with the fields that tables and claims read."""
    scaled = SCALES[scale](recipe)
    figures = {"mean_budget": 0.5, "mean_heads": 4.0, "macs": 6e8, "macs_dense": 8e8, "paper_macs": 1e12}
    return {
        "experiment": scaled.experiment,
        "recipe": scaled.label,
        "what": scaled.what,
        "scale": scale,
        "seed": seed,
        "digest": scaled.row_digest(),
        "data": scaled.data.name,
        "rows": {"classes": 2},
        "printed": asdict(scaled.printed),
        "accuracy": accuracy,
        "test_rows": 5000,
        "curves": {"training": [], "validation": []},
        **figures,
        **more,
    }


def answers(rows: list[dict[str, Any]]) -> dict[str, Verdict]:
    return {verdict.claim: verdict for verdict in verdicts(summaries(rows))}


def test_the_papers_figures_stand_beside_ours() -> None:
    made, costs = tables(summaries([row(table2_transformer("imdb"), 0.8), row(table2_tfidf("imdb"), 0.9)]))
    dense, words = (dict(zip(made.columns, cells, strict=True)) for cells in made.rows)
    dense |= dict(zip(costs.columns, costs.rows[0], strict=True))
    assert dense["accuracy, paper"] == "0.8354"
    assert (dense["accuracy, here"], dense["95 %"][:6]) == ("0.8000", "± 0.01")
    assert dense["difference"] == "-0.0354"
    assert dense["multiply-adds in the paper's accounting: paper"] == "1.61e+14"
    assert dense["g CO2 in the paper's accounting: paper"] == "0.5376"
    assert dense["of all heads"] == "75%"
    assert (words["accuracy, paper"], words["difference"]) == ("–", "–")


def test_both_accountings_and_the_energy_are_named() -> None:
    energy = {"kind": "estimated", "joules_per_1000_texts": 23.0, "grams_per_1000_texts": 0.0031}
    rows = [row(table2_transformer("imdb"), 0.8, energy=energy, paper_grams=1e12 * 3.3333e-15)]
    _, made = tables(summaries([*rows, row(table2_budgetformer("imdb"), 0.8)]))
    assert "a stated power times seconds" in made.caption
    dense, budgeted = (dict(zip(made.columns, cells, strict=True)) for cells in made.rows)
    assert (
        dense["multiply-adds in the paper's accounting: here"],
        dense["g CO2 in the paper's accounting: here"],
    ) == ("1e+12", "0.00333")
    assert dense["multiply-adds executed"] == "3e+12"  # 6e8 a text, 5,000 texts
    assert dense["g CO2 of the multiply-adds executed"] == "0.01"
    assert dense["energy of the evaluation, per 1,000 texts"] == "23 J, estimated"
    assert dense["g CO2 of the energy, per 1,000 texts"] == "0.0031 g, estimated"
    assert budgeted["energy of the evaluation, per 1,000 texts"] == "–"


def test_several_seeds_are_printed_with_their_spread_and_pictures_name_theirs() -> None:
    rows = [row(table2_transformer("imdb"), 0.7 + 0.1 * s, seed=s, mean_budget=0.5 + 0.02 * s) for s in range(3)]
    made, _ = tables(summaries(rows))
    cells = dict(zip(made.columns, made.rows[0], strict=True))
    assert cells["accuracy, here"] == "0.8000 ± 0.1000 (3 seeds)"
    assert cells["s, here"] == "0.520 ± 0.020 (3 seeds)"
    assert "mean ± standard deviation" in made.caption
    costs = [cost_row(interval=(1.0, 1.05), memory=1.0, allocated=(1, 2)) | {"seed": seed} for seed in (1, 2)]
    steps, *_ = report_tables(costs)
    assert dict(zip(steps.columns, steps.rows[0], strict=True))["measured with"] == "seed 1, the first of 2"
    assert "(seed 1, the first of 2)" in answers(costs)["training costs no more"].why


def test_scales_never_share_a_table() -> None:
    rows = [row(table2_transformer("imdb"), 0.8, scale=scale) for scale in ("cpu", "smoke", "paper")]
    made = tables(summaries(rows))
    assert [len(one.rows) for one in made] == [1] * 6
    assert [one.caption.split("columns: ")[1].split(".")[0] for one in made[::2]] == ["cpu", "paper", "smoke"]
    with pytest.raises(ValueError, match="one scale"):
        accuracy_table(summaries(rows))
    with pytest.raises(ValueError, match="one scale"):
        verdicts(summaries(rows))


def test_seeds_become_a_mean_with_a_wider_interval_when_they_differ() -> None:
    same, apart = (
        summaries([row(table2_transformer("imdb"), a, seed=s) for s, a in enumerate(values)])[0]
        for values in ((0.8, 0.8, 0.8), (0.7, 0.8, 0.9))
    )
    assert (same.accuracy, apart.accuracy) == pytest.approx((0.8, 0.8))
    assert apart.spread == pytest.approx(0.1)
    assert apart.accuracy_reach > 0.1 > same.accuracy_reach


def test_only_the_newest_form_of_a_recipe_counts() -> None:
    old = row(table2_transformer("imdb"), 0.1, seed=1) | {"digest": "another"}
    (found,) = summaries([old, row(table2_transformer("imdb"), 0.8), {"experiment": "demo"}])
    assert [r["accuracy"] for r in found.rows] == [0.8]


@pytest.mark.parametrize(
    ("accuracy", "test_rows", "answer"),
    [
        (0.84, 5000, HELD),
        (0.801, 5000, OPEN),
        (0.795, 5000, OPEN),
        (0.7, 5000, FAILED),
        (0.799, 50_000, HELD),
        (0.790, 50_000, FAILED),
        (0.806, 5000, HELD),
    ],
)
def test_accuracy_is_at_least_the_transformers_beyond_chance_or_within_a_margin(
    accuracy: float, test_rows: int, answer: str
) -> None:
    """The interval of the difference is ± 0.0157 with 5,000 rows and ± 0.0050 with 50,000; the margin is 0.01."""
    rows = [
        row(r("imdb"), a, test_rows=test_rows) for r, a in ((table2_transformer, 0.8), (table2_budgetformer, accuracy))
    ]
    assert answers(rows)["accuracy at least the Transformer's"].answer == answer


def test_curves_of_the_budget() -> None:
    def claim(first: float, last: float, validated: float) -> tuple[str, str]:
        curves = {
            "training": [{"mean_budget": first}, {"mean_budget": last}],
            "validation": [{"eval_mean_budget": validated}],
        }
        found = answers([row(table2_budgetformer("imdb"), 0.8, curves=curves)])
        return (
            found["the budget falls during training"].answer,
            found["training and validation budget agree"].answer,
        )

    assert claim(0.6, 0.3, 0.31) == ("held", "held")
    assert claim(0.6, 0.595, 0.595) == claim(0.595, 0.6, 0.6) == (OPEN, "held")
    assert claim(0.3, 0.6, 0.4) == ("failed", "failed")


def test_fixed_budgets_random_heads_and_the_guess_about_the_collapse() -> None:
    found = answers(
        [
            row(table3_adaptive("imdb"), 0.85),
            *(row(table3_fixed("imdb", budget), 0.80 if budget == 0.5 else 0.70) for budget in BUDGETS),
            row(table3_asked("imdb", 1.0), 0.84),
            row(table3_asked("imdb", 1.0, rescale_gates=True), 0.55),
            row(table4_learned("imdb"), 0.85),
            row(table4_random("imdb"), 0.80),
            row(table4_random_trained("imdb"), 0.60),
        ]
    )
    assert found["adaptive beats every fixed budget"].answer == "held"
    assert "trained at s = 0.5" in found["adaptive beats every fixed budget"].why
    assert found["our guess: the collapse at s = 1 comes from gates that grow with s"].answer == "held"
    assert found["random heads collapse, at evaluation"].answer == "failed"
    assert "86%" in found["random heads collapse, at evaluation"].why
    assert found["random heads collapse, in training too"].answer == "held"


def test_a_claim_about_every_budget_needs_every_budget() -> None:
    rows = [row(table3_adaptive("imdb"), 0.85), row(table3_fixed("imdb", 0.5), 0.80)]
    assert answers(rows)["adaptive beats every fixed budget"].answer == OPEN
    assert "some have no row" in answers(rows)["adaptive beats every fixed budget"].why
    assert answers([rows[0], row(table3_fixed("imdb", 0.5), 0.9)])["adaptive beats every fixed budget"].answer == FAILED


def test_nothing_is_said_of_random_heads_where_nothing_was_learned() -> None:
    found = answers([row(table4_learned("imdb"), 0.505), row(table4_random("imdb"), 0.5)])
    assert found["random heads collapse, at evaluation"].answer == OPEN


def test_a_collapse_must_be_clear_in_either_direction() -> None:
    """Half of the lead of 0.86 over guessing lies at 0.68."""
    for accuracy, answer in ((0.66, HELD), (0.675, OPEN), (0.685, OPEN), (0.70, FAILED)):
        found = answers([row(table4_learned("imdb"), 0.86), row(table4_random("imdb"), accuracy)])
        assert found["random heads collapse, at evaluation"].answer == answer
        guess = [row(table3_adaptive("imdb"), 0.86), row(table3_asked("imdb", 1.0), 0.85)]
        guess.append(row(table3_asked("imdb", 1.0, rescale_gates=True), accuracy))
        assert answers(guess)["our guess: the collapse at s = 1 comes from gates that grow with s"].answer == answer


def test_minilm_has_its_own_verdicts() -> None:
    rows = [row(minilm_dense("imdb"), 0.80), row(minilm_adaptive("imdb"), 0.79)]
    rows += [row(minilm_fixed("imdb", budget), 0.85) for budget in BUDGETS]
    rows.append(row(minilm_random_trained("imdb"), 0.55))
    found = {claim: verdict.answer for claim, verdict in answers(rows).items()}
    assert found == {
        "accuracy at least the Transformer's (MiniLM)": OPEN,
        "adaptive beats every fixed budget (MiniLM)": FAILED,
        "random heads collapse, in training too (MiniLM)": HELD,
    }


def cost_row(*, interval: tuple[float, float], memory: float | None, allocated: tuple[int, ...]) -> dict[str, Any]:
    made = row(cost("imdb"), 0.0, scale="cpu")
    del made["accuracy"], made["test_rows"]
    return made | {
        "batch": [16, 256],
        "step_seconds": {"transformer": 0.1, "budgetformer": 0.11},
        "step_ratio": {"median": sum(interval) / 2, "interval": list(interval)},
        "step_memory": {"transformer": 1000, "budgetformer": None if memory is None else 1000 * memory},
        "attention_memory": [
            {"heads": kept, "allocated": value, "closed_form": value} for kept, value in enumerate(allocated, start=1)
        ],
    }


@pytest.mark.parametrize(
    ("interval", "memory", "allocated", "training", "falls"),
    [
        ((1.02, 1.08), 1.05, (10, 10, 20), HELD, HELD),
        ((1.02, 1.20), 1.05, (10, 9, 20), OPEN, FAILED),
        ((1.15, 1.20), 1.05, (10, 10, 10), FAILED, FAILED),
        ((1.02, 1.08), 1.50, (10, 20, 30), FAILED, HELD),
        ((1.02, 1.08), None, (10, 20, 30), OPEN, HELD),
    ],
)
def test_what_training_and_attention_cost(
    interval: tuple[float, float], memory: float | None, allocated: tuple[int, ...], training: str, falls: str
) -> None:
    rows = [cost_row(interval=interval, memory=memory, allocated=allocated)]
    found = answers(rows)
    assert found["training costs no more"].answer == training
    assert found["attention memory falls with the heads"].answer == falls
    steps, layers, _ = report_tables(rows)
    assert steps.rows[0][:5] == ["imdb", "seed 0", "16 × 256", "100 ms", "110 ms"]
    assert [cells[2] for cells in layers.rows] == ["1", "2", "3"]


def test_the_energy_of_whole_trainings_is_shown_where_both_rows_have_it() -> None:
    rows = [cost_row(interval=(1.02, 1.08), memory=1.05, allocated=(10, 20))]
    rows.append(row(table2_transformer("imdb"), 0.8, training_energy={"kind": "estimated", "joules": 4000.0}))
    assert (
        "the training of" not in answers([*rows, row(table2_budgetformer("imdb"), 0.8)])["training costs no more"].why
    )
    rows.append(row(table2_budgetformer("imdb"), 0.8, training_energy={"kind": "measured", "joules": 5000.0}))
    said = "the training of Table II took 5.0 kJ (measured), that of the Transformer 4.0 kJ (estimated)"
    assert said in answers(rows)["training costs no more"].why


def test_a_whole_report_names_every_claim_of_the_paper() -> None:
    rows = [row(table2_transformer("imdb"), 0.8), row(table2_budgetformer("imdb"), 0.84)]
    found = {verdict.claim: verdict for verdict in verdicts(summaries(rows), whole=True)}
    assert set(CLAIMS) <= set(found)
    assert found["relevant heads have sharper maps"].answer == UNKNOWN
    assert found["relevant heads have sharper maps"].why == "budgetformer reproduce figure4 --scale cpu"


def test_budgets_of_larger_models_and_less_data() -> None:
    shapes = [row(table5("imdb", *s), 0.8, mean_budget=b) for s, b in (((4, 8), 0.5), ((6, 12), 0.4))]
    less = [row(table6("imdb", s), 0.8, mean_budget=b) for s, b in ((0.1, 0.3), (0.5, 0.5), (1.0, 0.4))]
    found = answers(shapes + less)
    assert found["larger models use smaller budgets"].answer == "held"
    assert found["less data, larger budget"].answer == "failed"


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        ((0.5,), (0.495,), OPEN),
        ((0.495,), (0.5,), OPEN),
        ((0.4, 0.6), (0.38, 0.58), OPEN),
        ((0.5, 0.51), (0.4, 0.41), HELD),
    ],
)
def test_budgets_differ_when_they_do_beyond_a_limit_and_their_seeds(
    first: tuple[float, ...], second: tuple[float, ...], answer: str
) -> None:
    shapes = [
        row(table5("imdb", *shape), 0.8, seed=seed, mean_budget=budget)
        for shape, budgets in (((4, 8), first), ((6, 12), second))
        for seed, budget in enumerate(budgets)
    ]
    assert answers(shapes)["larger models use smaller budgets"].answer == answer


def test_the_smoke_scale_decides_nothing() -> None:
    rows = [row(table2_transformer("imdb"), 0.5, scale="smoke"), row(table2_budgetformer("imdb"), 0.9, scale="smoke")]
    assert {verdict.answer for verdict in answers(rows).values()} == {OPEN}


def test_the_report_is_one_page_twice(tmp_path: Path) -> None:
    rows = [row(table2_transformer("imdb"), 0.8), row(table2_budgetformer("imdb"), 0.84)]
    written = write(rows, tmp_path / "out")
    markdown, html = written.markdown.read_text(encoding="utf-8"), written.html.read_text(encoding="utf-8")
    for text in (markdown, html):
        assert "Table II" in text
        assert "0.8354" in text
        assert "claims at scale cpu" in text
    assert "no rows yet" in markdown
    assert markdown.index("claims at scale cpu") < markdown.index("## Table II")
    assert len(report_tables(rows)) == 3
    with pytest.raises(ValueError, match="no rows"):
        write([{"experiment": "demo"}], tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "taken" / "report.html").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"report\.html is a folder"):
        write(rows, tmp_path / "taken")
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["report.html"]


def test_the_page_says_what_was_trained_and_where() -> None:
    made = []
    for recipe, counts, commit in (
        (table2_budgetformer("imdb"), (4000, 500, 2000), "abcdef0123"),
        (table6("imdb", 0.1), (400, 500, 2000), "abcdef0123"),
        (minilm_adaptive("snli"), (8000, 500, 2000), "1234567890"),
    ):
        scaled = SCALES["cpu-small"](recipe)
        rows = {"classes": 2, "rows": dict(zip(("train", "validation", "test"), counts, strict=True))}
        more = {"commit": commit, "dirty": commit.startswith("1"), "cpu": "A", "cores": 2, "rows": rows}
        config = {"training": scaled.settings()}
        made.append(row(recipe, 0.8, scale="cpu-small", test_rows=2000, config=config, **more))
    found = summaries(made)
    table = setting_table(found, "cpu-small")
    assert table is not None
    assert [list(cells) for cells in table.rows] == [
        ["imdb", "from scratch, D 128", "4", "8", "128", "400, 4,000", "500", "2,000", "4", "16", "0.001"],
        ["snli", "all-MiniLM-L6-v2", "6", "12", "64", "8,000", "500", "2,000", "3", "32", "0.0001"],
    ]
    assert origin(found) == (
        "3 result rows, seeds 0; commits: abcdef0, 1234567+; machines: A (2 cores); + is a tree with changes."
    )
    assert setting_table(summaries([row(table2_tfidf("imdb"), 0.8)]), "cpu") is None


def test_a_page_that_cannot_be_finished_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    curves = {
        "training": [{"epoch": 0.5, "mean_budget": 0.6}],
        "validation": [{"epoch": 1.0, "eval_mean_budget": 0.4, "eval_accuracy": 0.8}],
    }
    config = {"training": SCALES["cpu"](figure1("snli")).settings()}
    more = {"curves": curves, "config": config, "rows": {"classes": 2, "validated_on": "some rows"}}
    write([row(figure1("snli"), 0.8, **more)], out)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    save, saved = Figure.savefig, []

    def full(figure: Figure, file: Path, **options: Any) -> None:
        save(figure, file, **options)
        saved.append(file)
        if len(saved) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    curves["training"].append({"epoch": 1.0, "mean_budget": 0.4})
    with pytest.raises(OSError, match="No space left"):
        write([row(figure1("snli"), 0.8, **more), row(figure1("imdb"), 0.8, **more)], out)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_pictures_of_an_earlier_page_go_and_other_files_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    curves = {
        "training": [{"epoch": 0.5, "mean_budget": 0.6}, {"epoch": 1.0, "mean_budget": 0.4}],
        "validation": [{"epoch": 1.0, "eval_mean_budget": 0.4, "eval_accuracy": 0.8}],
    }
    rows = {"classes": 2, "validated_on": "some rows"}
    config = {"training": SCALES["cpu"](figure1("snli")).settings()}
    figure = row(figure1("snli"), 0.8, curves=curves, config=config, rows=rows)
    write([figure], out)
    (out / "picture-9.png").write_bytes(b"another's")
    assert (out / "picture-1.png").is_file()
    write([row(table2_transformer("imdb"), 0.8)], out)
    (out / "report.md").write_bytes(b"\xff![](picture-1.png)")
    write([row(table2_transformer("imdb"), 0.8)], out)
    assert sorted(path.name for path in out.iterdir()) == ["picture-9.png", "report.html", "report.md"]
    found = {verdict.claim: verdict.answer for verdict in verdicts(summaries([figure]))}
    assert found["the budget falls during training"] == HELD
    shown = next(one for one in report_tables([figure]) if "Figure 1" in one.caption)
    assert [list(cells) for cells in shown.rows] == [["1", "0.400", "0.400", "–", "0.800"]]


def test_the_controlled_task_is_a_table_of_its_own_at_every_scale(tmp_path: Path) -> None:
    results = tmp_path / "rows.jsonl"
    append_row(results, row(table2_tfidf("imdb"), 0.8))
    for seed, heads in ((0, 2.0), (1, 2.4)):
        known = {"heads_by_difficulty": [0.5, 1.5 + seed], "mean_budget": 0.3, "rank_correlation_budget": 0.9}
        made = {"benchmark": "controlled", "variant": "price", "seed": seed, "accuracy": 0.99, "mean_heads": heads}
        append_row(tmp_path / "controlled.jsonl", made | known)
    full = {"benchmark": "controlled", "variant": "full", "seed": 0, "accuracy": 1.0, "mean_heads": 8.0}
    append_row(tmp_path / "controlled.jsonl", full)
    for scale in (None, "cpu"):
        _, _, controlled, *_ = report_tables(rows_to_report(results, scale))
        price, dense = (dict(zip(controlled.columns, cells, strict=True)) for cells in controlled.rows)
        assert price["heads per layer"] == "2.20 ± 0.28 (2 seeds)"
        assert price["heads by difficulty, least to most"] == "0.50, 2.00"
        assert (dense["accuracy"], dense["heads by difficulty, least to most"]) == ("1.000", "–")
    assert rows_to_report(results, "smoke") == []
    both = report_tables(rows_to_report(tmp_path / "controlled.jsonl", None))
    assert [len(one.rows) for one in both[:1]] == [2]
