"""Heads dropped for good: nothing changes where nobody chose them, the weights are smaller, and every way uses it.

Legend: B inputs, L layers, H heads of before.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from budgetformer import AttentionParts, BudgetFormerConfig, BudgetFormerForSequenceClassification, BudgetFormerModel
from budgetformer.attention import budgeted_layers
from budgetformer.fewer_heads import BiasAlone
from budgetformer.metering.attention_memory import attention_bytes
from budgetformer.metering.macs import breakdown, dense_macs, executed_macs, padded_macs
from budgetformer.method import random_policy, static_policy
from budgetformer.precision import apply_precision

from .execution.test_packed import right_padded

Model = BudgetFormerForSequenceClassification
MakeModel = Callable[..., Model]
MIXED = {0: [1, 3], 1: [0, 1, 2, 3], 2: [2]}
"""Two of four heads left, none, three."""
SHAPES: list[dict[str, Any]] = [
    {"selection": selection, "norm_position": norm, "pooling": pooling, "min_heads": least}
    for selection, norm, pooling, least in itertools.product(
        ("soft", "straight_through"), ("pre", "post"), ("mean", "first"), (0, 1)
    )
]


def make_batch(rows: int = 10, length: int = 17) -> dict[str, Tensor]:
    """Random inputs of many lengths, padded at the right, the last one without tokens."""
    generator = torch.Generator().manual_seed(3)
    lengths = [length, *torch.randint(1, length + 1, (rows - 2,), generator=generator).tolist(), 0]
    mask_BN = right_padded(lengths, length)
    return {"input_ids": torch.randint(5, 120, mask_BN.shape, generator=generator) * mask_BN, "attention_mask": mask_BN}


@torch.inference_mode()
def ask(model: Model, batch: dict[str, Tensor], **request: Any) -> Any:
    return model(**batch, output_budgets=True, output_attentions=True, output_hidden_states=True, **request)


def unchosen(kept_BLH: Tensor) -> dict[int, list[int]]:
    never_LH = ~kept_BLH.any(dim=0)
    return {layer: never_H.nonzero().flatten().tolist() for layer, never_H in enumerate(never_LH)}


def pruned(model: Model, heads: dict[int, list[int]]) -> Model:
    twin = copy.deepcopy(model)
    twin.prune_heads(heads)
    return twin


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape.values())))
def test_without_the_heads_that_nobody_chose_nothing_changes(
    small_model: MakeModel, shape: dict[str, Any], seed: int
) -> None:
    model = small_model(**shape, initializer_range=0.2, seed=seed)
    batch = make_batch()
    before = ask(model, batch)
    drop = unchosen(before.kept)
    if not any(drop.values()):
        drop = unchosen(ask(model, batch, max_budget=0.25).kept)
        request: dict[str, Any] = {"max_budget": 0.25}
        before = ask(model, batch, **request)
    else:
        request = {}
    assert any(drop.values())
    fewer = pruned(model, drop)
    assert fewer.num_parameters() < model.num_parameters()
    for execution in ("reference", "packed"):
        for each in (model, fewer):
            each.set_execution(execution)
        before, after = (ask(each, batch, **request) for each in (model, fewer))
        assert torch.equal(after.kept, before.kept)
        torch.testing.assert_close(after.logits, before.logits, atol=1e-5, rtol=1e-5)
        for name in ("gates", "budgets"):  # the nets of these models are steep, and so rounding is seen
            torch.testing.assert_close(after[name], before[name], atol=1e-4, rtol=1e-4)
        for name in ("attentions", "hidden_states"):
            for ours, theirs in zip(after[name], before[name], strict=True):
                torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-5)
        with torch.inference_mode():
            short = fewer(**batch, **request).logits  # first-token pooling takes its short way
        torch.testing.assert_close(short, before.logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("selection", ["soft", "straight_through"])
def test_the_weights_of_dropped_heads_are_gone(small_model: MakeModel, selection: str) -> None:
    model = pruned(small_model(selection=selection, min_heads=0), MIXED)
    assert model.config.kept_heads == [[0, 2], [], [0, 1, 3]]
    assert model.config.heads_per_layer == [2, 0, 3]
    first, none, third = (layer.attention for layer in model.budgetformer.layers)
    assert first.qkv.weight.shape == (3 * 2 * 8, 32)
    assert first.output.weight.shape == (32, 2 * 8)
    assert third.qkv.weight.shape == (3 * 3 * 8, 32)
    assert (none.qkv, none.relevance_net) == (None, None)
    assert isinstance(none.output, BiasAlone)
    rows = [len(layer.relevance_net.weight) for layer in (first, third)]
    assert rows == ([4, 4] if selection == "soft" else [2, 3])
    assert first.qkv.out_features == 48
    assert first.output.in_features == 16


@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
@pytest.mark.parametrize("selection", ["soft", "straight_through"])
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_packed_gives_the_reference_at_every_budget(
    small_model: MakeModel, pooling: str, selection: str, precision: str
) -> None:
    model = pruned(small_model(min_heads=0, pooling=pooling, selection=selection, initializer_range=0.2), MIXED)
    slow, batch = copy.deepcopy(model), make_batch()
    slow.set_execution("reference")
    apply_precision(model, precision)
    model.set_execution("packed")
    near = {"float32": 1e-5, "bf16": 0.15, "int8": 0.3}[precision]
    for budget in (None, 0.25, 0.5, 0.75, 1.0, torch.linspace(0.1, 1.0, 10)):
        with torch.inference_mode():
            fast = model(**batch, budget=budget, output_budgets=True)
            exact = slow(**batch, budget=budget, output_budgets=True)
        if precision == "float32":
            assert torch.equal(fast.kept, exact.kept)
        same = (fast.kept == exact.kept).all(dim=(1, 2))
        assert same.float().mean() >= 0.7
        torch.testing.assert_close(fast.logits.float()[same], exact.logits[same], atol=near, rtol=near)


def test_a_budget_is_a_share_of_the_heads_of_before_and_1_keeps_all_that_are_left(small_model: MakeModel) -> None:
    model = pruned(small_model(min_heads=0), MIXED)
    batch = make_batch()
    for budget, heads in ((0.25, [1, 0, 1]), (0.5, [2, 0, 2]), (0.75, [2, 0, 3]), (1.0, [2, 0, 3])):
        assert ask(model, batch, budget=budget).heads.unique(dim=0).tolist() == [heads]
    kept = ask(model, batch, budget=1.0).kept
    assert kept[0].tolist() == [[h in own for h in range(4)] for own in model.config.kept_heads]


def test_who_wanted_a_dropped_head_gets_the_next_best_one(small_model: MakeModel) -> None:
    model, batch = small_model(), make_batch()
    before = ask(model, batch, budget=0.25)
    first = int(before.kept[:, 0].sum(dim=0).argmax())
    fewer = pruned(model, {0: [first]})
    after = ask(fewer, batch, budget=0.25)
    ranked = before.relevance[:, 0].argsort(dim=-1, descending=True)
    expected = torch.where(ranked[:, 0] == first, ranked[:, 1], ranked[:, 0])
    assert torch.equal(after.kept[:, 0].int().argmax(dim=-1), expected)
    assert (ranked[:, 0] == first).any()
    assert (after.relevance[:, 0, first] == 0).all()


@pytest.mark.parametrize(
    "changes", [{}, {"pooling": "first"}, {"norm_position": "pre"}, {"selection": "soft"}], ids=str
)
def test_metering_counts_what_is_there(small_model: MakeModel, changes: dict[str, Any]) -> None:
    model = pruned(small_model(min_heads=0, **changes), MIXED)
    lengths = [20, 5, 33, 12]
    mask = right_padded(lengths)
    ids = torch.randint(5, 120, mask.shape, generator=torch.Generator().manual_seed(0)) * mask
    for execution, budget in (("packed", None), ("packed", 0.5), ("packed", 1.0), ("reference", None)):
        model.set_execution(execution)
        with torch.inference_mode(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            kept = model(ids, mask, budget=budget, output_budgets=True).heads
        if execution == "packed":
            counted = executed_macs(model.config, lengths, kept.numpy())
        else:
            counted = padded_macs(model.config, lengths, 33)
        assert counter.get_total_flops() // 2 == counted.sum()


def test_one_number_of_heads_means_as_many_as_a_layer_has(small_model: MakeModel) -> None:
    config = pruned(small_model(min_heads=0), MIXED).config
    assert executed_macs(config, 10, 4) == executed_macs(config, 10, [2, 0, 3]) == dense_macs(config, 10)
    assert breakdown(config, 10, 1)["projections"] == 3 * 10 * 32 * 8 * 2
    assert attention_bytes(config, 10, 4) == attention_bytes(config, 10, [2, 0, 3])
    with pytest.raises(ValueError, match="heads must be at most 2 in layer 0, got 3"):
        executed_macs(config, 10, [3, 0, 3])


def test_a_dense_twin_and_full_attention_lose_heads_too(small_model: MakeModel) -> None:
    model = small_model(budgeted=False, min_heads=0, initializer_range=0.2)
    fewer, batch = pruned(model, MIXED), make_batch()
    zeroed = copy.deepcopy(model)
    with torch.no_grad():
        for layer, heads in MIXED.items():
            for head in heads:
                zeroed.budgetformer.layers[layer].attention.output.weight[:, 8 * head : 8 * (head + 1)] = 0
    for execution in ("reference", "packed"):
        fewer.set_execution(execution)
        with torch.inference_mode():
            torch.testing.assert_close(fewer(**batch).logits, zeroed(**batch).logits, atol=1e-5, rtol=1e-5)
    assert pruned(small_model(min_heads=0), MIXED).config.dense_twin().kept_heads == [[0, 2], [], [0, 1, 3]]


@pytest.mark.parametrize("selection", ["soft", "straight_through"])
def test_it_trains_on_and_every_weight_gets_a_gradient(small_model: MakeModel, selection: str) -> None:
    model = pruned(small_model(min_heads=0, selection=selection, initializer_range=0.2), MIXED).train()
    model.set_progress(0.5)
    model(**make_batch(), labels=torch.arange(10) % 3).loss.backward()
    idle = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()}
    assert idle == set()
    for layer in (0, 2):
        attention = model.budgetformer.layers[layer].attention
        assert attention.qkv.weight.grad.abs().sum() > 0
        assert attention.relevance_net.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", [Model, BudgetFormerModel])
@pytest.mark.parametrize("selection", ["soft", "straight_through"])
def test_a_folder_with_fewer_heads_loads_and_an_old_one_as_before(
    small_model: MakeModel, tmp_path: Path, selection: str, kind: type
) -> None:
    model = small_model(min_heads=0, selection=selection)
    model.save_pretrained(tmp_path / "whole")
    config = tmp_path / "whole" / "config.json"
    fields = json.loads(config.read_text(encoding="utf-8"))
    assert fields.pop("kept_heads") is None
    config.write_text(json.dumps(fields), encoding="utf-8")  # as it was before there was such a field
    assert kind.from_pretrained(tmp_path / "whole").config.kept_heads is None
    fewer = pruned(model, MIXED)
    fewer.save_pretrained(tmp_path / "fewer")
    weights = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("fewer", "whole")]
    assert weights[0] < weights[1] - 4 * (3 + 1) * 32 * 8 * 7
    loaded = kind.from_pretrained(tmp_path / "fewer")
    assert loaded.config.kept_heads == [[0, 2], [], [0, 1, 3]]
    inner = fewer if kind is Model else fewer.budgetformer
    assert all(
        torch.equal(a, b) for a, b in zip(loaded.state_dict().values(), inner.state_dict().values(), strict=True)
    )
    loaded.prune_heads({2: [0]})
    assert loaded.config.heads_per_layer == [2, 0, 2]


def test_a_net_of_ones_own_stays_whole(small_model: MakeModel, tmp_path: Path) -> None:
    parts = AttentionParts(relevance_net=lambda width, heads: nn.Linear(width, heads, bias=False))
    config = small_model(initializer_range=0.3).config
    torch.manual_seed(0)
    model = Model(config, parts=parts).eval()
    batch = make_batch()
    fewer = pruned(model, {0: [1], 1: [0, 2]})
    assert [len(layer.relevance_net.weight) for layer in budgeted_layers(fewer)] == [4, 4, 4]
    fewer.save_pretrained(tmp_path)
    loaded = Model.from_pretrained(tmp_path, parts=parts)
    assert torch.equal(ask(loaded, batch).logits, ask(fewer, batch).logits)
    assert not ask(loaded, batch, budget=1.0).kept[:, 1, [0, 2]].any()


def test_baseline_policies_choose_among_the_heads_that_are_there(small_model: MakeModel) -> None:
    model, batch = pruned(small_model(min_heads=0), MIXED), make_batch()
    random = ask(model, batch, budget=0.25, policy=random_policy(3)).kept
    assert not random[:, 0, [1, 3]].any()
    assert random[:, 0].any(dim=0).sum() == 2
    first, third = ([static_policy([1, 0]), static_policy([]), static_policy([2, 0, 1])] for _ in range(2))
    assert ask(model, batch, budget=0.25, policy=first).kept[0].nonzero().tolist() == [[0, 2], [2, 3]]
    assert torch.equal(ask(model, batch, policy=third).heads, ask(model, batch).heads)


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        ({3: [0]}, "layers are numbered from 0 to 2, got 3"),
        ({-1: [0]}, "layers are numbered from 0 to 2, got -1"),
        ({0: [4]}, r"layer 0 has no head 4 to drop; it has \[0, 1, 2, 3\]"),
        ({1: [0], 0: [True]}, "layer 0 has no head True"),
        ({0: ["1"]}, "layer 0 has no head '1'"),
        ({0: [1.0]}, "layer 0 has no head 1.0"),
        ({0: 1}, r"layer 0: heads are given as a list, such as \[2, 5\], got 1"),
        ([0, 1], r"heads are named by layer, such as \{0: \[2, 5\]\}, got \[0, 1\]"),
        (None, "heads are named by layer"),
        ({0: [0, 1, 2, 3]}, r"layer 0 would keep 0 heads, and every input keeps at least min_heads \(1\)"),
    ],
)
def test_heads_that_cannot_be_dropped_are_refused_and_nothing_changes(
    small_model: MakeModel, heads: Any, said: str
) -> None:
    model = small_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(ValueError, match=said):
        model.prune_heads(heads)
    assert model.config.kept_heads is None
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_heads_may_be_numbers_of_numpy_and_torch(small_model: MakeModel) -> None:
    model = small_model()
    model.prune_heads({np.int64(0): np.array([1, 1, 3]), 2: torch.tensor([0])})
    assert model.config.kept_heads == [[0, 2], [0, 1, 2, 3], [1, 2, 3]]
    assert all(type(head) is int for own in model.config.kept_heads for head in own)


def test_a_head_is_dropped_once_and_not_from_int8(small_model: MakeModel) -> None:
    model = small_model()
    model.prune_heads({})
    assert model.config.kept_heads is None
    model.prune_heads({1: [2, 2]})
    with pytest.raises(ValueError, match=r"layer 1 has no head 2 to drop; it has \[0, 1, 3\]"):
        model.prune_heads({1: [2]})
    apply_precision(model, "int8")
    with pytest.raises(ValueError, match="this one is in int8: load it anew"):
        model.prune_heads({0: [1]})


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ([[0], [1]], "list of heads for each of the 3 layers"),
        ("all", "list of heads for each of the 3 layers"),
        ([[0], [1], 2], "list of heads for each of the 3 layers"),
        ([[0], [1, 0], [2]], r"in rising order, from 0 to 3; layer 1 has \[1, 0\]"),
        ([[0], [1, 1], [2]], "each head of a layer once"),
        ([[0], [1], [4]], r"layer 2 has \[4\]"),
        ([[0], [1], [0.5]], "layer 2 has"),
        ([[0], [], [1]], r"at least min_heads heads \(1\); layer 1 has 0"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(kept: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"kept_heads must .*{said}"):
        BudgetFormerConfig(num_hidden_layers=3, num_attention_heads=4, hidden_size=32, kept_heads=kept)
