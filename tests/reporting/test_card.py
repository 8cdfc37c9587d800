from __future__ import annotations

from typing import Any

import pytest

from budgetformer import BudgetFormerConfig
from budgetformer.reporting.card import model_card, pruning_lines


def config(**changes: Any) -> BudgetFormerConfig:
    return BudgetFormerConfig(vocab_size=100, hidden_size=16, num_attention_heads=8, num_hidden_layers=2, **changes)


def record(**changes: Any) -> dict[str, Any]:
    validation = {"accuracy": 0.9, "macro_f1": 0.89, "mean_heads": 2.1, "mean_budget": 0.27}
    return {
        "budgetformer": "0.1",
        "torch": "2",
        "transformers": "5",
        "settings": {
            "batch_size": 16,
            "gradient_accumulation": 1,
            "learning_rate": 0.001,
            "seed": 0,
            "keep_best": True,
        },
        "data": {
            "train_rows": 1000,
            "validation_rows": 100,
            "truncated": 7,
            "classes": {"LABEL_0": 600, "LABEL_1": 400},
        },
        "parameters": 12345,
        "updates": 500,
        "validation": validation | {"layer_0/heads": 1.9, "layer_1/heads": 2.3},
        "seconds": 12.5,
        "history": [],
    } | changes


def test_the_card_says_what_was_measured_on_what() -> None:
    card = model_card(config=config(), record=record())
    assert "On the validation part, 100 rows. The checkpoint was chosen on the same rows" in card
    assert "| Accuracy | 0.9000 (95% interval 0.8256 to 0.9448) |" in card
    assert "| Heads kept per layer and text | 2.10 of 8 |" in card
    assert "1.90, 2.30" in card
    assert r"(LABEL\_0 600, LABEL\_1 400), 7 of them cut" in card
    assert "At other budgets" not in card


def test_the_card_of_a_full_attention_model_offers_no_budget() -> None:
    card = model_card(config=config(budgeted=False), record=record(validation={"accuracy": 0.9, "macro_f1": 0.9}))
    assert "full attention" in card
    assert "budget=" not in card
    assert "Mean budget" not in card


def test_the_card_of_a_fixed_budget_says_so() -> None:
    assert "the same share of its heads, 0.25" in model_card(config=config(fixed_budget=0.25), record=record())


def test_what_was_not_measured_is_called_so() -> None:
    card = model_card(config=config(), record=record(validation={"accuracy": float("nan")}))
    assert card.count("not measured") == 5
    assert "nan" not in card.split("## Use")[0].replace("language", "")


def test_the_last_state_is_not_called_chosen() -> None:
    settings = record()["settings"] | {"keep_best": False}
    assert "these rows did not choose it" in model_card(config=config(), record=record(settings=settings))


SOURCE = {"title": "maker/good", "on_hub": True, "licence": "mit", "family": "BERT", "model_type": "bert"}


def test_a_model_trained_from_another_names_it_and_its_licence() -> None:
    card = model_card(config=config(), record=record(source=SOURCE | {"classifier": False}))
    assert "\nbase_model: maker/good\nlicense: mit\ntags:" in card
    assert (
        "The weights come from the BERT model `maker/good` (`bert`), an encoder; the classifier on it was new" in card
    )
    assert "Licence of the source: mit." in card
    assert "and that of the source model to its weights." in card


def test_a_source_folder_without_a_licence_is_called_so() -> None:
    source = SOURCE | {"title": "mine", "on_hub": False, "licence": None, "classifier": True}
    card = model_card(config=config(), record=record(source=source))
    assert "base_model" not in card
    assert "\nlicense:" not in card
    assert "`mine` (`bert`), a text classifier, and were trained further." in card
    assert "Licence of the source: not stated in its card; find it where the model is from." in card


def test_a_model_from_scratch_names_no_source() -> None:
    assert "The weights come from" not in model_card(config=config(), record=record())


@pytest.mark.parametrize("name", ["a\n# b", "<script>", "[x](y)", "`c`"])
def test_class_names_cannot_break_the_card(name: str) -> None:
    card = model_card(config=config(id2label={0: name, 1: "b"}, label2id={name: 0, "b": 1}), record=record())
    assert "\n# b" not in card
    assert "<script>" not in card
    assert "[x](" not in card.replace(r"\[x\](", "")


def test_heads_that_were_all_chosen_are_not_said_to_be_gone() -> None:
    found = {"rows": 1200, "budget": None, "heads": (12, 12), "heads_by_layer": (4, 4, 4), "parameters": (9, 9)}
    said = "\n".join(pruning_lines(found))
    assert "Each of the 12 heads was chosen by some of 1,200 rows, so that none was dropped." in said
    assert "not in this" not in said
    dropped = "\n".join(pruning_lines(found | {"heads": (12, 10), "heads_by_layer": (4, 2, 4), "budget": 0.5}))
    assert "2 of 12 heads were never chosen on 1,200 rows, at the default budget of 0.5, and are not in this" in dropped
