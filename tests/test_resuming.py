"""What differs is named field by field, with both values where people can read them."""

from __future__ import annotations

from budgetformer.resuming import differences

BEFORE = {"model": "a" * 64, "request": {"budget": None, "max_budget": 0.5}, "columns": [["text"], None], "kind": "csv"}


def test_nothing_differs_after_a_way_through_json() -> None:
    assert differences(BEFORE, BEFORE | {"columns": (("text",), None)}) is None


def test_fields_within_fields_are_named_with_both_values() -> None:
    now = BEFORE | {"request": {"budget": 0.25, "max_budget": 0.5}, "columns": [["text", "title"], None]}
    said = differences(BEFORE, now)
    assert said == "budget (none before, 0.25 now), columns (text, none before, text, title, none now)"


def test_a_field_that_is_gone_or_new_differs() -> None:
    assert differences(BEFORE, BEFORE | {"request": {"max_budget": 0.5}}) is None
    assert differences(BEFORE, BEFORE | {"request": {}}) == "max_budget (0.5 before, none now)"
    assert differences(BEFORE, BEFORE | {"more": True}) == "more (none before, True now)"


def test_digests_are_named_without_their_values() -> None:
    assert differences(BEFORE, BEFORE | {"model": "b" * 64}) == "model"
