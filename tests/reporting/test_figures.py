from __future__ import annotations

import io
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from budgetformer.reporting.figures import (
    CurvePoint,
    budget_curve,
    budget_distribution,
    budgets_over_training,
    head_maps,
    head_maps_by_class,
    training_curves,
)
from budgetformer.reporting.figures.heads import MOST_CLASSES, TALLEST
from budgetformer.reporting.figures.style import FONT, look, shortened, spread
from budgetformer.reporting.figures.training import MOST_POINTS, evaluated, logged

from . import runs_at_hand

SHAPES = [(1, 1, 2), (4, 8, 5), (12, 12, 14), (12, 16, 3)]


def drawn(figure: Figure) -> bytes:
    sink = io.BytesIO()
    figure.savefig(sink, format="png", dpi=50)
    return sink.getvalue()


def texts(figure: Figure) -> list[str]:
    return [t.get_text() for t in figure.findobj(matplotlib.text.Text) if t.get_visible() and t.get_text()]


def title(figure: Figure) -> str:
    return " ".join(figure.get_suptitle().split())


@pytest.mark.parametrize(("layers", "heads", "classes"), SHAPES)
def test_pictures_of_heads_for_small_and_large_models(layers: int, heads: int, classes: int) -> None:
    given = runs_at_hand.heads(layers=layers, heads=heads, classes=classes, without=1)
    names = [f"class {i}" for i in range(classes)]
    figures = [
        head_maps(given.relevance_LH, given.use_LH),
        head_maps_by_class(given.use_CLH, names, kind="use"),
        head_maps_by_class(given.relevance_CLH, names, kind="relevance"),
        budget_distribution(given.budget_RL, heads=heads, s_min=0.1, s_max=0.3),
    ]
    for figure in figures:
        assert len(drawn(figure)) > 1000
        assert title(figure)
        assert figure.get_size_inches()[1] <= TALLEST


@pytest.mark.parametrize("layers", [0, 1, 4, 12])
@pytest.mark.parametrize("updates", [1, 12])
def test_pictures_of_training_with_and_without_budgets(layers: int, updates: int) -> None:
    rows = runs_at_hand.history(layers=layers, updates=updates, updates_per_epoch=4 if updates > 4 else 1)
    for figure in (budgets_over_training(rows, s_min=0.1, s_max=0.3, kept_step=4), training_curves(rows, heads=8)):
        assert len(drawn(figure)) > 1000
        assert title(figure)


def test_training_pictures_of_a_run_that_logged_nothing_or_only_nan() -> None:
    broken = [{"step": 1, "epoch": 1.0, "loss": float("nan"), "grad_norm": float("nan"), "eval_accuracy": float("nan")}]
    for rows in ([], broken):
        drawn(budgets_over_training(rows, s_min=0.1, s_max=0.3))
        drawn(training_curves(rows, heads=8))


@pytest.mark.parametrize(("budget", "place"), [(0.05, "below"), (0.2, "inside"), (0.35, "above")])
def test_the_title_says_whether_the_budget_ends_inside_its_interval(budget: float, place: str) -> None:
    figure = budgets_over_training(runs_at_hand.history(layers=2, budget=budget), s_min=0.1, s_max=0.3)
    assert f"{place} [0.1, 0.3]" in title(figure)


def test_the_evaluation_of_the_kept_checkpoint_is_no_point_of_the_training() -> None:
    series = evaluated(runs_at_hand.history(layers=1), "eval_accuracy")
    assert series.x.tolist() == [1, 2, 3]
    assert series.y.tolist() == pytest.approx([0.54, 0.58, 0.62])


def test_long_logs_are_averaged_in_runs() -> None:
    rows = [{"step": i, "epoch": float(i), "loss": float(i % 2)} for i in range(10 * MOST_POINTS)]
    series = logged(rows, "loss")
    assert len(series.x) == MOST_POINTS
    assert series.y.tolist() == [0.5] * MOST_POINTS


@pytest.mark.parametrize("heads", [1, 8, 16])
def test_budget_curve_with_all_its_lines(heads: int) -> None:
    learned, random = runs_at_hand.curve(heads), runs_at_hand.curve(heads, accuracy=0.8)
    own = CurvePoint(heads=min(1.9, heads), accuracy=0.88, macs=2.5e6, rows=50)
    twin = CurvePoint(heads=heads, accuracy=0.9, macs=1e7, rows=50)
    figure = budget_curve(learned=learned, random=random, own=own, twin=twin, heads=heads)
    drawn(figure)
    assert {"learned choice", "random choice", "full attention"} <= set(texts(figure))
    assert "random choice of heads loses 10.0 points at" in title(figure)
    low, high = figure.axes[0].get_ylim()
    assert -0.02 <= low < 0.7
    assert 0.9 < high <= 1.02


def test_budget_curve_of_one_row_and_of_a_full_attention_model_alone() -> None:
    one = CurvePoint(heads=1, accuracy=1.0, macs=0.0, rows=1)
    drawn(budget_curve(learned=[one], heads=1))
    drawn(budget_curve(learned=[], twin=one, heads=1))
    with pytest.raises(ValueError, match="learned or twin"):
        budget_curve(learned=[], heads=1)


def test_several_seeds_of_random_choice_become_one_line() -> None:
    points = [CurvePoint(heads=1, accuracy=a, macs=1.0, rows=50) for a in (0.2, 0.6)]
    figure = budget_curve(learned=points[:1], random=points, heads=2)
    lines = {line.get_linestyle(): line.get_ydata() for line in figure.axes[0].get_lines()}
    assert np.asarray(lines["--"]).tolist() == pytest.approx([0.4])


def test_the_accuracy_axis_does_not_blow_up_noise() -> None:
    points = [CurvePoint(heads=k, accuracy=0.9, macs=1.0, rows=10**9) for k in (1, 2)]
    low, high = budget_curve(learned=points, heads=2).axes[0].get_ylim()
    assert high - low >= 0.02


def test_a_class_without_texts_says_so() -> None:
    given = runs_at_hand.heads(layers=2, heads=2, classes=3, without=2)
    figure = head_maps_by_class(given.use_CLH, ["a", "b", "c"], kind="use")
    assert "no texts" in texts(figure)
    assert "nan" not in title(figure)


def test_only_classes_without_texts() -> None:
    drawn(head_maps_by_class(np.full((2, 2, 2), np.nan), ["a", "b"], kind="relevance"))


def test_of_many_classes_the_unusual_ones_are_drawn_and_the_title_says_so() -> None:
    use_CLH = np.full((40, 2, 2), 0.5)
    use_CLH[33] = 1.0
    figure = head_maps_by_class(use_CLH, [f"n{i}" for i in range(40)], kind="use")
    assert "n33" in texts(figure)
    assert f"the {MOST_CLASSES} of 40 classes" in title(figure)


def test_class_names_must_fit_the_classes() -> None:
    with pytest.raises(ValueError, match="each of the 3 classes, got 2"):
        head_maps_by_class(np.zeros((3, 1, 1)), ["a", "b"], kind="use")


@pytest.mark.parametrize("name", ["$x^{", "a\nb\tc\x00", "", "ä" * 300, "<script>", "\\frac"])
def test_odd_class_names_are_drawn_as_they_are(name: str) -> None:
    figure = head_maps_by_class(np.ones((2, 1, 2)), [name, "other"], kind="use")
    drawn(figure)
    assert shortened(name, 42) in texts(figure)


def test_names_are_shortened_by_the_room_they_take() -> None:
    assert shortened("short", 10) == "short"
    assert shortened("much too long", 8) == "much to…"
    assert shortened("新闻新闻新闻", 6) == "新闻…"
    assert shortened(" \n", 9) == "(blank)"


def test_drawing_changes_no_setting_and_ignores_those_of_the_user() -> None:
    mine: dict[Any, Any] = {"font.size": 31.0, "axes.facecolor": "black", "text.parse_math": True}
    with matplotlib.rc_context(mine):
        before = dict(matplotlib.rcParams)
        figure = head_maps(np.eye(2), np.eye(2))
        assert dict(matplotlib.rcParams) == before
    assert figure.axes[0].get_facecolor() == (1, 1, 1, 1)
    assert figure.axes[0].xaxis.label.get_fontsize() == FONT


def test_no_text_is_smaller_than_nine_points() -> None:
    given = runs_at_hand.heads(layers=12, heads=12, classes=14)
    figures = [
        head_maps(given.relevance_LH, given.use_LH),
        head_maps_by_class(given.use_CLH, [str(i) for i in range(14)], kind="use"),
        budget_distribution(given.budget_RL, heads=12),
        training_curves(runs_at_hand.history(layers=12), heads=12),
        budget_curve(learned=runs_at_hand.curve(12), heads=12),
    ]
    for figure in figures:
        drawn(figure)
        sizes = [t.get_fontsize() for t in figure.findobj(matplotlib.text.Text) if t.get_text() and t.get_visible()]
        assert min(sizes) >= 9


@pytest.mark.parametrize("count", [1, 4, 7, 12])
def test_no_two_layers_look_the_same(count: int) -> None:
    assert len({look(i, count) for i in range(count)}) == count
    assert len({look(i, count).color for i in range(count)}) == count


def test_labels_are_moved_apart_and_stay_in_order_and_inside() -> None:
    wanted = [0.5, 0.5, 0.5, 0.9]
    places = spread(wanted, 0.1)
    assert np.diff(places).min() >= 0.1 - 1e-9
    assert places == pytest.approx([0.4, 0.5, 0.6, 0.9])
    top = spread([0.99, 1.0, 1.0], 0.1)
    assert top == pytest.approx([0.8, 0.9, 1.0])
    assert spread([0.0, 0.0], 0.1)[0] >= 0
