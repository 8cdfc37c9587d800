"""How much accuracy does a pretrained encoder keep with fewer heads? The budgeted model against strong baselines.

    python benchmarks/pretrained.py --data ag_news --work runs/ag_news --results results/pretrained.jsonl
    python benchmarks/pretrained.py --data snli --work runs/snli --train-rows 8000 --set s_max=0.25 --share-dense

In one working folder, one row each, all on the same rows:

    tfidf      TF-IDF with logistic regression
    dense      the encoder (MiniLM) fine-tuned with all heads for all epochs
    zero-shot  dense with heads ranked by importance, without training, at 3, 6 and 9 heads
    budgeted   the first epochs dense, then budgets, as ``budgetformer train --from`` does; measured with its own
               budgets, with random heads in the same number, and at fixed numbers of heads
    static     from the same dense beginning: as many heads as budgeted uses on average, the most important ones of all
               layers, kept for good, trained for the remaining epochs

Ctrl-C or a crash loses little: the same command goes on. Other options in the same folder use again what they share.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from budgetformer import Classifier
from budgetformer.baselines import evaluate_tfidf
from budgetformer.conversion.architecture import target_fields
from budgetformer.conversion.gates import rank_heads
from budgetformer.conversion.source import load_source
from budgetformer.data.labels import encode_labels
from budgetformer.locking import alone_in
from budgetformer.model_folder import load_tokenizer
from budgetformer.training.folder import quiet_transformers
from budgetformer.training.guards import Interrupted
from budgetformer_paper.recipe import DataPart
from budgetformer_paper.rows import draw
from pretrained_measures import answers, evenly, paired, random_at_own_budgets, scored
from pretrained_models import (
    STILL,
    Told,
    budgeted_from,
    from_dense,
    from_encoder,
    from_kept,
    importance_of,
    most_important,
    settings_of,
    split_options,
    train,
    training_of,
    write,
)
from pretrained_options import options_of, parser
from pretrained_rows import Ledger

STAGES = ("tfidf", "first", "dense", "zero-shot", "budgeted", "static")


class Comparison:
    """One comparison in one working folder; every stage keeps what it found there and does nothing the second time."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        source = load_source(str(given.encoder))
        self.all_heads = int(target_fields(source)["num_attention_heads"])
        for option, numbers in (("--heads", given.heads), ("--zero-shot", given.zero_shot)):
            if max(numbers, default=0) > self.all_heads:
                most = f"at most {self.all_heads}, the heads that a layer of the encoder has"
                raise ValueError(f"{option} must be {most}, got {max(numbers)}")
        part = DataPart(
            name=given.data,
            train_rows=given.train_rows,
            validation_rows=given.validation_rows,
            test_rows=given.eval_rows,
            validation_on_test=False,
        )
        self.drawn = draw(part, work=given.work, data_folder=None)
        shared = {"seed": given.seed, "max_length": given.max_length, "learning_rate": given.learning_rate}
        shared |= {"batch_size": given.batch_size, "eval_steps": given.eval_steps, "device": "cpu"}
        shared |= {"precision": given.precision}
        self.told = Told(
            source=source,
            drawn=self.drawn,
            settings={name: value for name, value in shared.items() if value is not None},
            config={"attention_probs_dropout_prob": given.attention_dropout},
        )
        weights = source.place.file("model.safetensors")
        self.encoder = {
            "name": given.encoder_name or source.place.title,
            "sha256": None if weights is None else hashlib.sha256(weights.read_bytes()).hexdigest(),
        }
        self.warm, self.warm_config, self.bias = split_options(given.set)
        settings_of(self.told, epochs=1, options=self.warm, config=self.warm_config)  # refused now, not hours later
        rows = asdict(part)
        first = [rows, self.encoder["sha256"], shared, given.attention_dropout, given.dense_epochs]
        dense = [first, given.epochs, given.share_dense]
        budgeted = [first, given.epochs, given.set]
        static = [budgeted, given.static_epochs, given.static_distillation]
        settled = {"first": first, "dense": dense, "budgeted": budgeted, "static": static}
        self.models = {stage: _digest(told) for stage, told in settled.items()}
        compared = {"dense": [dense], "budgeted": [budgeted, dense], "static": [static, dense]}
        compared |= {"zero-shot": [dense, given.curve_rows]}
        compared |= {name: [budgeted, dense, given.curve_rows] for name in ("random", "fixed")}
        self.ledger = Ledger(
            folder=given.work / "answers",
            results=given.results,
            digests={variant: _digest(told) for variant, told in compared.items()}
            | {"tfidf": _digest([rows, given.seed])},
            common=self.common(),
        )

    def common(self) -> dict[str, Any]:
        """What stands in every row."""
        drawn, given = self.drawn.summary, self.given
        counts = {f"{split}_rows": drawn["rows"][split] for split in ("train", "validation")}
        counts |= {f"{split}_rows_there": drawn["rows_there"][split] for split in ("train", "test")}
        asked = ("data", "seed", "epochs", "dense_epochs", "share_dense", "max_length", "attention_dropout")
        return {
            "experiment": "pretrained",
            "encoder": self.encoder,
            "all_heads": self.all_heads,
            **{name: getattr(given, name) for name in (*asked, "curve_rows")},
            "warm_start_asked": given.set,
            "training_precision": given.precision,
            "validated_on": drawn["validated_on"],
            **counts,
        }

    def folder(self, stage: str) -> Path:
        """Where the model of a stage lies."""
        return self.given.work / "models" / f"{stage}-{self.models[stage]}"

    def run(self) -> None:
        """All stages up to the one that was asked for."""
        last = STAGES.index(self.given.stop_after)
        for number, stage in enumerate(STAGES[: last + 1], start=1):
            print(f"[{number}/{len(STAGES)}] {stage}", file=sys.stderr)
            getattr(self, stage.replace("-", "_"))()

    def tfidf(self) -> None:
        """TF-IDF with logistic regression."""

        def found() -> dict[str, Any]:
            names = sorted(set(self.drawn.read("train")["label"]))
            started = time.perf_counter()
            train_rows, test = (self.labelled(split, names) for split in ("train", "test"))
            result = evaluate_tfidf(train_rows, test, seed=self.given.seed)
            seconds = round(time.perf_counter() - started, 2)
            return scored(result["accuracy"], result["macro_f1"], result["rows"]) | {"training_seconds": seconds}

        self.ledger.row("tfidf", found, {})

    def first(self) -> None:
        """The dense beginning that budgeted and static share, and dense too where it was asked for."""
        settings = settings_of(self.told, epochs=self.given.dense_epochs, options={}, config={"budgeted": False})
        train(self.told, self.folder("first"), start=from_encoder(self.told), title="First", settings=settings)

    def dense(self) -> None:
        """All heads for all epochs, in one schedule, or from the shared beginning on."""
        given = self.given
        epochs = given.epochs - given.dense_epochs if given.share_dense else given.epochs
        start = from_dense(self.told, self.folder("first")) if given.share_dense else from_encoder(self.told)
        settings = settings_of(self.told, epochs=epochs, options={}, config={"budgeted": False})
        train(self.told, self.folder("dense"), start=start, title="Dense", settings=settings)
        self.ledger.row("dense", self.asking("dense", self.whole), self.trained("dense", shared=given.share_dense))

    def zero_shot(self) -> None:
        """The dense model, its heads ranked by importance, without training."""

        @functools.cache
        def ranked() -> Classifier:
            model = budgeted_from(self.told, self.folder("dense"))
            rank_heads(model, importance_of(self.told, self.folder("dense")))
            return Classifier(model=model, tokenizer=load_tokenizer(self.folder("dense"), model.config))

        for k in self.given.zero_shot:
            self.ledger.row("zero-shot", self.asking(ranked, self.some, budget=k / self.all_heads), {}, heads=k)

    def budgeted(self) -> None:
        """Budgets from the shared beginning on, and what its checkpoint does when asked otherwise."""
        given = self.given
        settings = settings_of(
            self.told, epochs=given.epochs - given.dense_epochs, options=self.warm, config=self.warm_config
        )
        start = from_dense(self.told, self.folder("first"), bias=self.bias)
        train(self.told, self.folder("budgeted"), start=start, title="Budgeted", settings=settings)
        trained = self.trained("budgeted", shared=True)
        own = self.ledger.row("budgeted", self.asking("budgeted", self.whole), trained)
        print(f"budgeted: {own['accuracy']:.4f} at {own['mean_heads']:.2f} heads", file=sys.stderr)
        self.ledger.row("random", self.asking("budgeted", self.some, random=True), trained)
        for k in given.heads:
            self.ledger.row("fixed", self.asking("budgeted", self.some, budget=k / self.all_heads), trained, heads=k)

    def static(self) -> None:
        """As many heads as the budgeted model uses, or the next whole number, the most important ones for good."""
        given, folder = self.given, self.folder("static")
        chosen = folder.with_name(f"{folder.name}-heads.json")
        if not chosen.is_file():
            importance_LH = importance_of(self.told, self.folder("first"))
            mean = self.ledger.kept("budgeted")["mean_heads"]
            layers, all_heads = importance_LH.shape
            total = min(max(layers, math.ceil(mean * layers - 1e-6)), layers * all_heads)
            heads_L = most_important(importance_LH, total)
            write(chosen, {"importance": importance_LH.tolist(), "heads": heads_L})
        ranked = json.loads(chosen.read_text(encoding="utf-8"))
        kept = from_kept(
            self.told, self.folder("first"), torch.tensor(ranked["importance"]), [int(k) for k in ranked["heads"]]
        )
        epochs = given.epochs - given.dense_epochs if given.static_epochs is None else given.static_epochs
        distillation = settings_of(self.told, epochs=epochs, options={}, config=self.warm_config).config["distillation"]
        if given.static_distillation is not None:
            distillation = given.static_distillation
        settings = settings_of(self.told, epochs=epochs, options={}, config=STILL | {"distillation": distillation})
        settings = replace(settings, gate_learning_rate=None)
        train(self.told, folder, start=kept, title="Static", settings=settings)
        more = self.trained("static", shared=True)
        self.ledger.row("static", self.asking("static", self.whole), more | {"importance": ranked["importance"]})

    def trained(self, stage: str, *, shared: bool) -> dict[str, Any]:
        """What a row says of training; ``training_seconds`` counts the shared beginning too."""
        own = training_of(self.folder(stage))
        first = training_of(self.folder("first")) if shared else None
        seconds = own["seconds"] + (first["seconds"] if first else 0.0)
        return {"training_seconds": round(seconds, 1), "training": own, "first_training": first}

    @property
    def whole(self) -> Any:
        """All test rows."""
        return self.drawn.read("test")

    @property
    def some(self) -> Any:
        """The test rows for fixed, random and zero-shot."""
        return evenly(self.drawn.read("test"), self.given.curve_rows)

    def labelled(self, split: str, names: list[str]) -> Any:
        """The rows of a split with labels as places in ``names``."""
        return encode_labels(self.drawn.read(split), names, source=f"{self.given.data} {split}")

    @functools.lru_cache(maxsize=1)  # noqa: B019 - one comparison lives as long as its program
    def classifier(self, stage: str) -> Classifier:
        """The model of a stage."""
        with quiet_transformers():
            return Classifier.from_pretrained(self.folder(stage))

    def asking(
        self, model: str | Callable[[], Classifier], rows: Any, *, random: bool = False, **ask: Any
    ) -> Callable[[], dict[str, Any]]:
        """A question to the model of a stage, asked when its answer is not there yet."""

        def found() -> dict[str, Any]:
            classifier = self.classifier(model) if isinstance(model, str) else model()
            test = encode_labels(rows, classifier.labels, source=f"{self.given.data} test")
            if random:
                ask["policy"] = random_at_own_budgets(classifier, test, seed=self.given.seed)
            result = answers(classifier, test, title="Measuring", **ask)
            dense = result if model == "dense" else self.ledger.kept("dense")
            return result | {"against_dense": paired(dense, result, list(rows["row"]))}

        return found


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]


def main() -> int:
    """Run the comparison; 0 when all was done, 130 when it was stopped and can go on."""
    given = options_of(parser(__doc__, STAGES))
    torch.set_num_threads(given.threads)
    given.work.mkdir(parents=True, exist_ok=True)
    try:
        with alone_in(given.work):
            comparison = Comparison(given)
            comparison.run()
    except (Interrupted, KeyboardInterrupt):
        print("stopped; the same command goes on", file=sys.stderr)
        return 130
    except ValueError as problem:
        print(f"error: {problem}", file=sys.stderr)
        if not any(given.work.iterdir()):
            given.work.rmdir()
        return 2
    if given.stop_after == STAGES[-1]:
        command = f"budgetformer bench {comparison.folder('budgeted')} --data {comparison.drawn.test}"
        print(f"The speed of the budgeted model is measured by\n\n    {command} --precision float32 --precision int8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
