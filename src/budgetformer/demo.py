"""The demo: a BudgetFormer, its full-attention twin and TF-IDF on the BBC News articles, side by side."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from .baselines import evaluate_tfidf
from .calling import program
from .curve import measure_curve
from .data.labels import encode_labels
from .data.registry import DEMO, NamedData, load_named
from .evaluation import Evaluation, evaluate
from .inference import Classifier
from .reporting.gallery import head_pictures, measured_curve_picture, training_pictures
from .reporting.html import Section, write_report
from .reporting.results import append_row, environment
from .reporting.tables import ModelRow, Table, models_table
from .training import TrainingResult, TrainingSettings, run

MAX_LENGTH = 192
VOCABULARY = 8000
PRESET = "tiny"
EPOCHS, BATCH_SIZE, LEARNING_RATE, WORD_DROPOUT = 8, 16, 1e-3, 0.3
"""As many epochs as ten minutes on two cores allow, with more than one to spare. Word dropout was chosen by
cross-validation on the training articles, ``benchmarks/demo_folds.py``; it tells no others apart, see LOG.md."""
EXAMPLES = (
    "Shares rose after the bank raised its forecast for the year.",
    "The striker scored twice in the final, and the coach praised the whole team.",
    "The minister told parliament that the new law would be voted on before the election.",
)
"""For the page of the server: a text of business, of sport and of politics."""
PARTS = 4
MODEL, TWIN, TFIDF = "BudgetFormer", "Full attention (twin)", "TF-IDF + logistic regression"


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """``figures`` by model, ``curve`` of the budgeted model, its folder and the report."""

    figures: dict[str, dict[str, Any]]
    curve: list[dict[str, Any]]
    folder: Path
    report: Path


def run_demo(
    output: str | Path, *, seed: int = 0, epochs: float = EPOCHS, results: str | Path | None = None
) -> DemoResult:
    """Train both models, measure everything on the held-out articles, print one table, write the report.

    Articles are cut to ``MAX_LENGTH`` tokens. ``output`` receives the folders ``budgetformer`` and ``full-attention``,
    ``report.html`` and ``budget-curve.png``; what an earlier demo left there is replaced. ``results`` is a file to
    which the figures are appended as one JSON row.
    """
    started = time.perf_counter()
    output, console = Path(output), Console(width=None if sys.stdout.isatty() else 120)
    train, test = _articles("train"), _articles("test")
    said = f"[bold]Data[/bold]  {train.origin}\n[bold]Licence[/bold]  {train.licence}"
    console.print(said, highlight=False, soft_wrap=True)
    _part(1, f"training the {MODEL}")
    budgeted = run(demo_settings(output / "budgetformer", seed=seed, epochs=epochs, budgeted=True))
    _part(2, "training the same model with full attention, which takes about as long")
    twin = run(demo_settings(output / "full-attention", seed=seed, epochs=epochs, budgeted=False))
    _part(3, "measuring both on other articles, and TF-IDF beside them")
    rows = encode_labels(test.dataset, test.class_names, source="the test articles")
    classifiers = {MODEL: Classifier.from_pretrained(budgeted.output), TWIN: Classifier.from_pretrained(twin.output)}
    evaluations = {
        name: evaluate(classifier, rows, details=True, progress=True, title=name)
        for name, classifier in classifiers.items()
    }
    figures = {name: evaluation.figures for name, evaluation in evaluations.items()}
    known = encode_labels(train.dataset, train.class_names, source="the training articles")
    figures[TFIDF] = evaluate_tfidf(known, rows, seed=seed)
    _part(4, "the BudgetFormer once more at every number of heads, with learned and with random ones")
    curve = measure_curve(classifiers[MODEL], rows, seed=seed, own=evaluations[MODEL], progress=True).rows()
    table = demo_table(figures, classifiers[MODEL])
    drawn = pictures(budgeted, classifiers[MODEL], evaluations, curve)
    report = write_report(
        output / "report.html",
        title="BudgetFormer on BBC News",
        intro=[
            "A BudgetFormer, the same model with full attention, and TF-IDF with logistic regression, trained on "
            f"{len(known):,} BBC News articles and measured on {len(rows):,} others. The Transformers start from "
            f"random weights and see the first {MAX_LENGTH} tokens of an article; TF-IDF sees all of it.",
            f"Data: {train.origin}. Licence: {train.licence}.",
        ],
        sections=[
            Section(title="Figures measured", tables=[table]),
            Section(title="Pictures", pictures=drawn),
            Section(title="Notes", notes=notes(figures, seed=seed)),
        ],
    )
    drawn[-1].figure.savefig(output / "budget-curve.png", dpi=150)
    if results is not None:
        seconds = time.perf_counter() - started
        row = {"experiment": "demo", "seed": seed, "epochs": epochs, "seconds": round(seconds, 1), "figures": figures}
        append_row(results, row | {"curve": curve} | environment())
    console.print(table.to_rich())
    console.print(next_steps(budgeted.output, report), highlight=False, soft_wrap=True, markup=False)
    return DemoResult(figures=figures, curve=curve, folder=budgeted.output, report=report)


def demo_settings(output: Path, *, seed: int, epochs: float, budgeted: bool) -> TrainingSettings:
    """The run of the demo; the twin differs in ``budgeted`` alone.

    The last state is kept: 127 validation articles are too few to tell which state is best.
    """
    return TrainingSettings(
        train=DEMO,
        output=output,
        preset=PRESET,
        vocab_size=VOCABULARY,
        max_length=MAX_LENGTH,
        epochs=epochs,
        batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
        word_dropout=WORD_DROPOUT,
        seed=seed,
        overwrite=True,
        keep_best=False,
        title=MODEL if budgeted else TWIN,
        examples=EXAMPLES,
        config={} if budgeted else {"budgeted": False},
    )


def demo_table(figures: dict[str, dict[str, Any]], classifier: Classifier) -> Table:
    """The one table: accuracy, macro-F1, heads, multiply-adds executed, texts per second."""
    heads = classifier.config.num_attention_heads
    rows = [ModelRow.of(name, figures[name], all_heads=heads) for name in (MODEL, TWIN)]
    words = figures[TFIDF]
    rows.append(
        ModelRow(
            name=TFIDF,
            accuracy=words["accuracy"],
            macro_f1=words["macro_f1"],
            texts_per_second=words["texts_per_second"],
        )
    )
    return models_table(
        rows,
        data="BBC News articles that no model was trained on; multiply-adds executed per text",
        rows=figures[MODEL]["rows"],
        dense_macs=figures[TWIN]["macs"],
    )


def pictures(
    trained: TrainingResult,
    classifier: Classifier,
    evaluations: dict[str, Evaluation],
    curve: list[dict[str, Any]],
) -> list[Any]:
    """All pictures of the report."""
    config, use = classifier.config, evaluations[MODEL].heads
    assert use is not None
    interval = {"s_min": config.s_min, "s_max": config.s_max}
    return [
        *training_pictures(
            trained.history, heads=config.num_attention_heads, kept_step=trained.best_update, **interval
        ),
        *head_pictures(use, class_names=classifier.labels, **interval),
        measured_curve_picture(curve, heads=config.num_attention_heads, twin=evaluations[TWIN].figures),
    ]


def notes(figures: dict[str, dict[str, Any]], *, seed: int) -> list[str]:
    """What the figures say, the unflattering parts too."""
    model, twin, words = figures[MODEL], figures[TWIN], figures[TFIDF]
    saved = 1 - model["macs"] / twin["macs"]
    speed = model["texts_per_second"] / twin["texts_per_second"]
    return [
        f"Against its twin the BudgetFormer is {model['accuracy'] - twin['accuracy']:+.3f} in accuracy, with "
        f"{saved:.0%} fewer multiply-adds and {speed:.2f} times the texts per second (one run each, not interleaved).",
        f"TF-IDF is {words['accuracy'] - model['accuracy']:+.3f} in accuracy against the BudgetFormer and far cheaper: "
        "for topics of long articles a bag of words is hard to beat, and where it wins it should be used.",
        f"One seed ({seed}) and {model['rows']} test articles: differences of a point or two are chance.",
        "Multiply-adds count every matrix product that was executed (projections, attention, feed-forward, budget and "
        "relevance nets, classifier), on real tokens only.",
    ]


def next_steps(folder: Path, report: Path) -> str:
    """The commands to go on with."""
    typed = program()
    return (
        f"\nReport: {report}\nModel:  {folder}\n\nTry it:\n"
        f'  {typed} predict {folder} "Shares rose after the bank raised its forecast."\n'
        f'  {typed} predict {folder} --max-budget 0.25 "The striker scored twice in the final."\n'
        "Train on your own file (columns text and label, or name yours):\n"
        f"  {typed} train --train your.csv --text-column text --label-column label --output runs/yours\n"
    )


def _part(number: int, what: str) -> None:
    print(f"Part {number} of {PARTS}: {what}", file=sys.stderr)


def _articles(split: str) -> NamedData:
    articles = load_named(DEMO, split)
    assert articles is not None
    return articles
