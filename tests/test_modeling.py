"""The encoder and the classifier as transformers models."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification, BudgetFormerModel

Maker = Callable[..., BudgetFormerForSequenceClassification]
VARIANTS = [
    {},
    {"selection": "soft"},
    {"pooling": "first"},
    {"norm_position": "pre"},
    {"position_embedding_type": "learned"},
    {"type_vocab_size": 2},
    {"min_heads": 0, "s_min": 0.0},
    {"budgeted": False},
    {"fixed_budget": 0.5},
]


def name(changes: dict[str, Any]) -> str:
    return ",".join(f"{k}={v}" for k, v in changes.items()) or "default"


def padded(lengths: list[int], *, width: int | None = None, left: bool = False, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    width = width or max(lengths)
    ids, mask = torch.zeros(len(lengths), width, dtype=torch.long), torch.zeros(len(lengths), width, dtype=torch.long)
    for row, length in enumerate(lengths):
        place = slice(width - length, width) if left else slice(0, length)
        ids[row, place] = torch.randint(5, 120, (length,), generator=generator)
        mask[row, place] = 1
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("execution", ["reference", "packed"])
@pytest.mark.parametrize("changes", VARIANTS, ids=name)
def test_padding_is_invisible(small_model: Maker, changes: dict[str, Any], execution: str) -> None:
    model = small_model(**changes)
    model.set_execution(execution)
    lengths = [1, 2, 5, 9, 17, 33, 48, 60]
    batch = padded(lengths)
    runs = []
    with torch.inference_mode():
        alone = [
            model(**{k: v[i : i + 1, :n] for k, v in batch.items()}, output_budgets=True) for i, n in enumerate(lengths)
        ]
        for other in (batch, padded([*lengths, 64]), padded(lengths, width=64), padded(lengths, width=64, left=True)):
            runs.append(model(**other, output_budgets=True))
    for run in runs:
        for row, single in enumerate(alone):
            torch.testing.assert_close(run.logits[row], single.logits[0], rtol=0, atol=1e-5)
            assert run.kept is None or torch.equal(run.kept[row], single.kept[0])


@pytest.mark.parametrize("execution", ["reference", "packed"])
def test_every_input_has_its_own_budget_in_any_batch(small_model: Maker, execution: str) -> None:
    model = small_model(hidden_size=64, num_attention_heads=8)
    model.set_execution(execution)
    batch = padded([3, 9, 20, 40, 11, 6], seed=3)
    with torch.inference_mode():
        plain = model(**batch, output_budgets=True)
        turned = model(**{k: v.flip(0) for k, v in batch.items()}, output_budgets=True)
        twice = model(**{k: v.repeat_interleave(2, dim=0) for k, v in batch.items()}, output_budgets=True)
        shares = torch.tensor([0.125, 0.25, 0.5, 0.75, 1.0, 0.3])
        asked = model(**batch, budget=shares, output_budgets=True)
    assert len({tuple(row) for row in plain.heads.tolist()}) > 2
    for other in (turned.logits.flip(0), twice.logits[::2], twice.logits[1::2]):
        torch.testing.assert_close(other, plain.logits, rtol=0, atol=1e-5)
    assert torch.equal(turned.kept.flip(0), plain.kept)
    assert torch.equal(twice.heads[::2], plain.heads)
    assert asked.heads.tolist() == [[k] * 3 for k in (1, 2, 4, 6, 8, 2)]


def test_loss_and_logits_leave_the_model_and_the_rest_on_request(small_model: Maker) -> None:
    model, batch = small_model(), padded([4, 9])
    with torch.no_grad():
        assert list(model(**batch)) == ["logits"]
        assert list(model(**batch, labels=torch.tensor([0, 1]))) == ["loss", "logits"]
        everything = model(**batch, output_budgets=True, output_attentions=True, output_hidden_states=True)
        assert everything.budgets.shape == everything.heads.shape == (2, 3)
        assert everything.relevance.shape == everything.gates.shape == everything.kept.shape == (2, 3, 4)
        assert [tuple(m.shape) for m in everything.attentions] == [(2, 4, 9, 9)] * 3
        assert [tuple(h.shape) for h in everything.hidden_states] == [(2, 9, 32)] * 4
        assert torch.equal(everything.kept.sum(-1), everything.heads)
        assert torch.equal(everything.gates, everything.kept.float())
        torch.testing.assert_close(everything.logits, model(**batch).logits, rtol=0, atol=1e-5)
        logits, *rest = model(**batch, return_dict=False)
        assert torch.equal(logits, model(**batch).logits)
        assert rest == []


def test_the_configuration_can_ask_for_maps_and_states(small_model: Maker) -> None:
    model, batch = small_model(output_attentions=True, output_hidden_states=True), padded([4])
    with torch.no_grad():
        assert list(model(**batch)) == ["logits", "hidden_states", "attentions"]
        assert list(model(**batch, output_attentions=False, output_hidden_states=False)) == ["logits"]


def test_an_argument_without_effect_is_refused(small_model: Maker) -> None:
    for model in (small_model(), small_model().budgetformer):
        with pytest.raises(TypeError, match="unexpected keyword argument 'bugdet'"):
            model(**padded([4]), bugdet=0.5)
        model(**padded([4]), inputs_embeds=None)


def test_the_loss_in_evaluation_is_the_task_loss(small_model: Maker) -> None:
    model, batch, labels = small_model(label_smoothing=0.1), padded([4, 9, 3]), torch.tensor([0, 1, -100])
    with torch.no_grad():
        output = model(**batch, labels=labels)
        expected = torch.nn.functional.cross_entropy(output.logits[:2], labels[:2], label_smoothing=0.1)
        torch.testing.assert_close(output.loss, expected)
        model.train().set_progress(1.0)
        assert model(**batch, labels=labels).loss > output.loss + 0.01  # here the budgets leave their interval


def test_ids_and_lengths_that_do_not_fit_are_named(small_model: Maker) -> None:
    model = small_model()
    with pytest.raises(ValueError, match=r"input_ids must lie between 0 and 119 \(vocab_size 120\), got 5 to 120"):
        model(torch.tensor([[5, 120]]))
    with pytest.raises(ValueError, match=r"65 tokens per text and the model takes 64 \(max_position_embeddings\)"):
        model(torch.ones(1, 65, dtype=torch.long))
    with pytest.raises(ValueError, match=r"budget must lie in \(0, 1\], got 1.5"):
        model(torch.ones(1, 5, dtype=torch.long), budget=1.5)


def test_padding_is_invisible_without_a_mask_too(small_model: Maker) -> None:
    batch = padded([4, 9])
    with torch.no_grad():
        model = small_model()
        assert torch.equal(model(batch["input_ids"]).logits, model(**batch).logits)


def test_segments_tell_the_parts_of_a_pair_apart(small_model: Maker) -> None:
    batch = padded([8]) | {"token_type_ids": torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]])}
    other = batch | {"token_type_ids": torch.zeros(1, 8, dtype=torch.long)}
    with torch.no_grad():
        two, one, none = (small_model(type_vocab_size=n) for n in (2, 1, 0))
        assert not torch.equal(two(**batch).logits, two(**other).logits)
        for model in (one, none):  # segment ids of 1 do no harm to a model that has none
            assert torch.equal(model(**batch).logits, model(**other).logits)


def test_first_token_pooling_reads_the_first_real_token(small_model: Maker) -> None:
    model = small_model(pooling="first", norm_position="pre").budgetformer
    batch = padded([3, 5], left=True)
    with torch.inference_mode():
        output = model(**batch)
    torch.testing.assert_close(output.pooler_output[0], output.last_hidden_state[0, 2])
    torch.testing.assert_close(output.pooler_output[1], output.last_hidden_state[1, 0])
    assert not output.last_hidden_state[0, :2].any()


def test_mean_pooling_is_over_real_tokens(small_model: Maker) -> None:
    with torch.inference_mode():
        output = small_model().budgetformer(**padded([3, 5]))
    torch.testing.assert_close(output.pooler_output[0], output.last_hidden_state[0, :3].mean(0), rtol=0, atol=1e-6)


def test_an_input_without_tokens_is_finite_in_training(small_model: Maker) -> None:
    model, batch = small_model().train(), padded([4, 0])
    model.set_progress(0.5)
    model(**batch, labels=torch.tensor([0, 1])).loss.backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None)


def test_the_auto_classes_make_these_classes() -> None:
    config = AutoConfig.for_model("budgetformer", hidden_size=8, num_attention_heads=2, vocab_size=9)
    assert type(config) is BudgetFormerConfig
    assert type(AutoModel.from_config(config)) is BudgetFormerModel
    assert type(AutoModelForSequenceClassification.from_config(config)) is BudgetFormerForSequenceClassification


def gradients(model: BudgetFormerForSequenceClassification) -> dict[str, Tensor]:
    torch.manual_seed(1)
    model.train().set_progress(0.3)
    model.zero_grad()
    model(**padded([7, 12, 3]), labels=torch.tensor([0, 1, 2])).loss.backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def enable(model: Any, **options: Any) -> None:
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(**({"activation_checkpointing_kwargs": options} if options else {}))
    else:
        model.gradient_checkpointing_enable(**({"gradient_checkpointing_kwargs": options} if options else {}))


@pytest.mark.parametrize("selection", ["straight_through", "soft"])
def test_gradient_checkpointing_gives_the_same_gradients(small_model: Maker, selection: str) -> None:
    options = {"selection": selection, "sigma_max": 1.0, "attention_probs_dropout_prob": 0.1}
    plain = gradients(small_model(**options))
    for arguments in ({}, {"use_reentrant": False}, {"preserve_rng_state": True}):
        model = small_model(**options)
        enable(model, **arguments)
        assert all(layer.gradient_checkpointing for layer in model.budgetformer.layers)
        again = gradients(model)
        assert set(again) == set(plain)
        assert any("budget_net" in n and g.any() for n, g in plain.items())
        for key, gradient in plain.items():
            torch.testing.assert_close(again[key], gradient, rtol=1e-5, atol=1e-7)


def test_checkpointing_that_loses_gradients_is_refused(small_model: Maker) -> None:
    model = small_model()
    with pytest.raises(ValueError, match="use_reentrant=True loses the gradients of the head decisions"):
        enable(model, use_reentrant=True)
    assert not any(layer.gradient_checkpointing for layer in model.budgetformer.layers)
    with pytest.raises(ValueError, match="use_reentrant=True"):
        model._set_gradient_checkpointing(
            enable=True, gradient_checkpointing_func=functools.partial(checkpoint, use_reentrant=True)
        )


def test_bfloat16_autocast_trains_and_choices_stay_in_float32(small_model: Maker) -> None:
    model, batch, labels = small_model().train(), padded([7, 12]), torch.tensor([0, 1])
    model.set_progress(0.5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(**batch, labels=labels, output_budgets=True)
    output.loss.backward()
    assert output.logits.dtype is torch.bfloat16
    assert output.loss.dtype is torch.float32
    assert output.budgets.dtype is output.relevance.dtype is torch.float32
    assert all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in model.parameters())
    assert model.budgetformer.layers[0].attention.budget_net[0].weight.grad.any()


@pytest.mark.parametrize("changes", VARIANTS, ids=name)
def test_a_few_updates_lower_the_loss(small_model: Maker, changes: dict[str, Any]) -> None:
    off = {"hidden_dropout_prob": 0.0, "classifier_dropout": 0.0, "sigma_max": 0.0, "alpha_max": 0.0, "beta_max": 0.0}
    model, batch, labels = small_model(**off, **changes).train(), padded([7, 12, 3, 5]), torch.tensor([0, 1, 2, 0])
    model.set_progress(1.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(12):
        optimiser.zero_grad()
        loss = model(**batch, labels=labels).loss
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
