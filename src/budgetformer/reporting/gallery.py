"""The pictures of a report with their captions and descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from .figures import (
    CurvePoint,
    HeadArrays,
    budget_curve,
    budget_distribution,
    budgets_over_training,
    head_maps,
    head_maps_by_class,
    training_curves,
)
from .figures.training import History
from .picture import Picture


def training_pictures(
    history: History, *, s_min: float, s_max: float, heads: int, kept_step: int | None = None
) -> list[Picture]:
    """Budgets and accuracy over training, and the curves of the losses; see ``figures.training``."""
    return [
        _picture(
            budgets_over_training(history, s_min=s_min, s_max=s_max, kept_step=kept_step),
            kind="Line charts over the epochs: mean budget of each layer, and validation accuracy",
            caption="Left: the share of its heads that each layer asks for, mean over the training texts; the grey "
            "interval is free of budget loss. Right: accuracy on the validation part (the axis does not start at 0); "
            "the dotted line marks the checkpoint that was kept. Layers and heads are counted from 0.",
        ),
        _picture(
            training_curves(history, heads=heads),
            kind="Line charts over the epochs: losses, temperature, gradient norm, effective and distinct heads",
            caption="The task loss alone decides what is right; budget, price and entropy loss join it in training. "
            "Effective heads are exp(entropy) of a layer's relevance: near 1, one head carries the layer. Distinct "
            "heads are those that at least one text used since the last row of the log.",
        ),
    ]


def head_pictures(
    heads: HeadArrays, *, class_names: Sequence[str], s_min: float | None = None, s_max: float | None = None
) -> list[Picture]:
    """Which heads are relevant and kept, over all texts and by class, and the distribution of the budgets."""
    count = heads.use_LH.shape[1]
    return [
        _picture(
            head_maps(heads.relevance_LH, heads.use_LH),
            kind="Heat maps, layers by heads: mean relevance, and share of texts that keep the head",
            caption="Relevance is the probability that a layer gives each of its heads; a text keeps the most "
            "relevant ones, as many as its budget allows. A head with 0 below is never computed.",
        ),
        _picture(
            head_maps_by_class(heads.use_CLH, class_names, kind="use"),
            kind="Heat maps, layers by heads, one for each true class: share of texts that keep the head",
            caption="The share of the texts of each true class that keep the head. Equal maps mean that the choice of "
            "heads does not follow the class.",
        ),
        _picture(
            head_maps_by_class(heads.relevance_CLH, class_names, kind="relevance"),
            kind="Heat maps, layers by heads, one for each true class: mean relevance",
            caption="Mean relevance of each head over the texts of each true class.",
        ),
        _picture(
            budget_distribution(heads.budget_RL, heads=count, s_min=s_min, s_max=s_max),
            kind="Mirrored histograms of the learned budget, one for each layer",
            caption=f"Every text gets a budget in every layer. Between two dashed lines the number of heads kept is "
            f"the same: from j/{count} on, j heads (and never less than the model's minimum).",
        ),
    ]


def curve_picture(
    *,
    learned: Sequence[CurvePoint],
    random: Sequence[CurvePoint] = (),
    own: CurvePoint | None = None,
    twin: CurvePoint | None = None,
    heads: int,
) -> Picture:
    """Accuracy and multiply-adds of one checkpoint at 1, 2, …, H heads; see ``figures.budget_curve``."""
    texts = (learned[0] if learned else twin or own).rows if (learned or twin or own) else 0  # type: ignore[union-attr]
    return _picture(
        budget_curve(learned=learned, random=random, own=own, twin=twin, heads=heads),
        kind="Line charts against the heads kept per layer: accuracy, and multiply-adds per text",
        caption=f"The same trained model, asked for the same number of heads for each of {texts:,} texts. Random "
        "choice keeps as many heads but draws which. The star is the model at its own, learned budgets. The accuracy "
        "axis does not start at 0. A band is the 95% interval of an accuracy measured on that many texts: lines whose "
        "bands overlap may not differ. Multiply-adds are those of products of matrices, padding not counted.",
    )


def measured_curve_picture(
    rows: Sequence[Mapping[str, Any]], *, heads: int, twin: Mapping[str, Any] | None = None
) -> Picture:
    """``curve_picture`` of the rows of a ``BudgetCurve``; ``twin``: figures of the full-attention model."""
    points = {
        choice: [CurvePoint.of(row) for row in rows if row["choice"] == choice]
        for choice in ("learned", "random", "own")
    }
    return curve_picture(
        learned=points["learned"],
        random=points["random"],
        own=points["own"][0] if points["own"] else None,
        twin=None if twin is None else CurvePoint.of(twin),
        heads=heads,
    )


def _picture(figure: Figure, *, kind: str, caption: str) -> Picture:
    finding = " ".join(figure.get_suptitle().split())
    return Picture(figure=figure, caption=caption, alt=f"{kind}. {finding}.")
