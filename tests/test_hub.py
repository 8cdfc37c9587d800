"""Class names everywhere, the pipeline in a fresh process, and an ordinary Trainer with an ordinary metric."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Trainer, TrainingArguments, pipeline

from budgetformer import BudgetSchedule, Classifier, Pair, train

from .model_folders import NAMES, make_folder, run_python

TEXTS = ["good film", "the table was bad and then it was ugly", "a", "very " * 20]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("single"))


def test_names_and_answers_are_the_same_by_every_way_out_in_a_fresh_process(folder: Path) -> None:
    code = f"""
import json, budgetformer
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline
folder, texts = {str(folder)!r}, {TEXTS!r}
classify = pipeline("text-classification", model=folder, device="cpu", top_k=None)
batched = classify(texts, batch_size=3)
model = AutoModelForSequenceClassification.from_pretrained(folder)
product = budgetformer.Classifier.from_pretrained(folder, device="cpu")(texts)
print(json.dumps({{
    "auto": [type(model).__name__, [model.config.id2label[i] for i in range(3)], model.config.label2id],
    "pipeline": [{{a["label"]: a["score"] for a in answer}} for answer in batched],
    "alone": [classify([text])[0][0]["label"] for text in texts],
    "product": [p.scores for p in product],
}}))
"""
    got = json.loads(run_python(code, HF_HUB_OFFLINE="1").splitlines()[-1])
    assert got["auto"] == ["BudgetFormerForSequenceClassification", list(NAMES), {n: i for i, n in enumerate(NAMES)}]
    assert [list(scores) for scores in got["product"]] == [list(NAMES)] * len(TEXTS)
    for ours, theirs, alone in zip(got["product"], got["pipeline"], got["alone"], strict=True):
        assert theirs == pytest.approx(ours, abs=1e-5)
        assert alone == max(ours, key=ours.get)


def test_the_pipeline_classifies_pairs_as_the_product_does(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "pair", segments=True)
    classify = pipeline("text-classification", model=str(folder), device="cpu", top_k=None)
    for first, second in [("good film", "bad door"), ("bad door", "good film"), ("", "a")]:
        theirs = classify({"text": first, "text_pair": second})
        ours = Classifier.from_pretrained(folder, device="cpu")(Pair(first, second)).scores
        assert {a["label"]: a["score"] for a in theirs} == pytest.approx(ours, abs=1e-5)


def test_too_long_a_text_in_the_pipeline_is_named_or_cut(folder: Path) -> None:
    classify = pipeline("text-classification", model=str(folder), device="cpu", top_k=None)
    long = "good " * 100
    with pytest.raises(
        ValueError, match=r"102 tokens per text and the model takes 32.*in a pipeline with pipe\(text, truncation=True"
    ):
        classify([long])
    ours = Classifier.from_pretrained(folder, device="cpu")(long).scores
    assert {a["label"]: a["score"] for a in classify([long], truncation=True)[0]} == pytest.approx(ours, abs=1e-5)


def checkpointing(options: dict[str, Any] | None = None) -> dict[str, Any]:
    """The Trainer's arguments for it, whose names have changed."""
    new = "activation_checkpointing" in {field.name for field in dataclasses.fields(TrainingArguments)}
    name = "activation_checkpointing" if new else "gradient_checkpointing"
    return {name: True, f"{name}_kwargs": options}


def accuracy(prediction: Any) -> dict[str, float]:
    return {"accuracy": float((np.argmax(prediction.predictions, axis=-1) == prediction.label_ids).mean())}


@pytest.mark.parametrize("changes", [{}, {"budgeted": False}, {"selection": "soft"}], ids=str)
def test_an_ordinary_trainer_with_an_ordinary_metric_works(small_model: Any, tmp_path: Path, changes: Any) -> None:
    model = small_model(**changes)
    rows = [{"input_ids": [5 + i, 7, 9], "attention_mask": [1, 1, 1], "labels": i % 3} for i in range(9)]
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=2,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        **({} if changes else checkpointing()),
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    callbacks = [BudgetSchedule()] if model.config.budgeted else []
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        eval_dataset=rows,
        compute_metrics=accuracy,
        callbacks=callbacks,
    )
    trainer.train()
    result = trainer.predict(rows)
    assert isinstance(result.predictions, np.ndarray)
    assert result.predictions.shape == (9, 3)
    assert result.label_ids.tolist() == [0, 1, 2] * 3
    losses = [row["eval_loss"] for row in trainer.state.log_history if "eval_loss" in row]
    assert len(losses) == 2
    assert trainer.state.best_metric == pytest.approx(min(losses))
    final = trainer.evaluate()
    assert final["eval_loss"] == pytest.approx(min(losses), abs=1e-5)
    model.eval()
    with torch.no_grad():
        ids, labels = torch.tensor([r["input_ids"] for r in rows]), torch.tensor([r["labels"] for r in rows])
        assert model(ids, labels=labels).loss.item() == pytest.approx(final["eval_loss"], abs=1e-5)
    for checkpoint in tmp_path.glob("checkpoint-*"):
        type(model).from_pretrained(checkpoint)


def test_training_with_reentrant_checkpointing_is_refused_before_it_starts(small_model: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="loses the gradients of the head decisions"):
        Trainer(
            model=small_model(),
            args=TrainingArguments(
                output_dir=str(tmp_path),
                **checkpointing({"use_reentrant": True}),
                use_cpu=True,
                report_to=[],
            ),
            train_dataset=[],
        ).train()


def test_a_run_with_gradient_checkpointing_warns_of_nothing_and_changes_nothing(
    small_csv: Path, tmp_path: Path, tiny_settings: dict[str, Any]
) -> None:
    losses = []
    for on in (False, True):
        result = train(
            train=small_csv, output=tmp_path / f"m{on}", max_steps=2, gradient_checkpointing=on, **tiny_settings
        )
        losses.append([row["loss"] for row in result.history if "loss" in row])
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
