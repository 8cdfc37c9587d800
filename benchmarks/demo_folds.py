"""With which settings should the demo train? Cross-validation on its training articles; its test articles stay unseen.

    python benchmarks/demo_folds.py --output results/demo_folds.jsonl                          every fold, as it is
    python benchmarks/demo_folds.py --output results/demo_folds.jsonl --dropout 0.25 --fold 0 --fold 1

One row each: the demo's budgeted model trained on three quarters of the 1,827 training and validation articles and
measured on the other quarter. About five minutes a row on one core.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np

from budgetformer import Classifier
from budgetformer.data.bbc_news import load_bbc_news
from budgetformer.data.labels import encode_labels
from budgetformer.demo import BATCH_SIZE, EPOCHS, LEARNING_RATE, MAX_LENGTH, WORD_DROPOUT, demo_settings
from budgetformer.evaluation import evaluate
from budgetformer.reporting.results import append_row, environment
from budgetformer.training import run

FOLDS = 4


def one(
    fold: int,
    *,
    dropout: float,
    word_dropout: float,
    batch_size: int,
    epochs: float,
    learning_rate: float,
    max_length: int,
) -> dict[str, object]:
    """The settings and figures of one fold."""
    news = load_bbc_news(seed=0)
    articles = datasets.concatenate_datasets([news.train, news.validation])
    belongs = np.random.default_rng(0).permutation(len(articles)) % FOLDS
    known, held_out = (articles.select(np.flatnonzero(mask)) for mask in (belongs != fold, belongs == fold))
    with tempfile.TemporaryDirectory() as folder:
        train, validation = Path(folder) / "train.jsonl", Path(folder) / "validation.jsonl"
        for path, rows in ((train, known), (validation, held_out)):
            rows.select_columns(["text", "label"]).to_json(path, force_ascii=False)
        base = demo_settings(Path(folder) / "model", seed=fold, epochs=epochs, budgeted=True)
        rates = {"hidden_dropout_prob": dropout, "classifier_dropout": dropout}
        trained = run(
            replace(
                base,
                train=train,
                validation=validation,
                batch_size=batch_size,
                learning_rate=learning_rate,
                word_dropout=word_dropout,
                max_length=max_length,
                text_column=("text",),
                label_column="label",
                config=base.config | rates,
                title=f"dropout {dropout}, fold {fold}",
            )
        )
        rows = encode_labels(held_out, news.class_names, source="the articles held out")
        figures = evaluate(Classifier.from_pretrained(trained.output), rows).figures
    names = ("accuracy", "macro_f1", "rows", "mean_heads", "mean_budget")
    tried = {"dropout": dropout, "word_dropout": word_dropout, "batch_size": batch_size, "epochs": epochs}
    tried |= {"learning_rate": learning_rate, "max_length": max_length}
    return {"fold": fold} | tried | {name: figures[name] for name in names}


def main() -> None:
    """Train what was asked for and append a row each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="JSON lines; rows are appended")
    parser.add_argument("--fold", type=int, action="append", choices=range(FOLDS), help="default: all")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--word-dropout", type=float, default=WORD_DROPOUT)
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE)
    parser.add_argument("--epochs", type=float, default=EPOCHS)
    parser.add_argument("--learning-rate", type=float, default=LEARNING_RATE)
    parser.add_argument("--max-length", type=int, default=MAX_LENGTH)
    given = parser.parse_args()
    names = ("dropout", "word_dropout", "batch_size", "epochs", "learning_rate", "max_length")
    tried = {name: getattr(given, name) for name in names}
    for fold in given.fold or range(FOLDS):
        row = one(fold, **tried)
        append_row(given.output, {"experiment": "demo_folds"} | row | environment())
        print(row)


if __name__ == "__main__":
    main()
