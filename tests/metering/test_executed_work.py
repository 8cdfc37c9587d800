"""The closed form is the work really done: counted by torch, on both paths, and call by call.

Counting is by ``FlopCounterMode`` under the math attention kernel (fused attention on a CPU counts as 0 there), and by
watching every product and attention that reaches the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from budgetformer import BudgetFormerForSequenceClassification as Classification
from budgetformer.execution import TokenLayout, packed
from budgetformer.metering.macs import breakdown, dense_macs, executed_macs, padded_macs

from ..execution.test_packed import choose, make_weights, right_padded

LENGTHS = [20, 5, 33, 12]
MakeModel = Callable[..., Classification]


def run(
    model: Classification, lengths: list[int], *, gradients: bool = False, **request: Any
) -> tuple[int, np.ndarray]:
    """Multiply-adds of one forward pass as torch counts them, and the heads kept (B, L)."""
    generator = torch.Generator().manual_seed(sum(lengths))
    mask = right_padded(lengths)
    ids = torch.randint(5, 120, mask.shape, generator=generator) * mask
    quiet = nullcontext() if gradients else torch.inference_mode()
    with quiet, sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        output = model(ids, mask, output_budgets=True, **request)
    return counter.get_total_flops() // 2, output.heads.numpy()


@pytest.mark.parametrize("heads", [1, 2, 3, 4])
def test_every_number_of_heads_on_the_packed_path(small_model: MakeModel, heads: int) -> None:
    model = small_model(execution="packed")
    macs, kept = run(model, LENGTHS, budget=heads / 4)
    assert (kept == heads).all()
    assert macs == pytest.approx(executed_macs(model.config, LENGTHS, heads).sum(), rel=0.01)


@pytest.mark.parametrize("gradients", [True, False], ids=["gradients", "inference"])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_every_number_of_heads_on_the_reference_path(small_model: MakeModel, heads: int, gradients: bool) -> None:
    model = small_model(execution="reference")
    macs, kept = run(model, LENGTHS, budget=heads / 4, gradients=gradients)
    assert (kept == heads).all()
    assert macs == pytest.approx(padded_macs(model.config, LENGTHS, max(LENGTHS)).sum(), rel=0.01)


@pytest.mark.parametrize(
    "changes", [{}, {"norm_position": "pre"}, {"pooling": "first"}, {"fixed_budget": 0.5}], ids=str
)
def test_models_that_are_put_together_otherwise(small_model: MakeModel, changes: dict[str, Any]) -> None:
    packed_model, reference = (small_model(execution=name, **changes) for name in ("packed", "reference"))
    macs, kept = run(packed_model, LENGTHS)
    assert macs == pytest.approx(executed_macs(packed_model.config, LENGTHS, kept).sum(), rel=0.01)
    macs, _ = run(reference, LENGTHS)
    assert macs == pytest.approx(padded_macs(reference.config, LENGTHS, max(LENGTHS)).sum(), rel=0.01)


def test_every_part_of_the_formula_is_in_the_count(small_model: MakeModel) -> None:
    """Taken away one by one, so that no part hides within the one per cent of the whole."""
    model = small_model(execution="packed")
    macs, kept = run(model, LENGTHS)
    parts = breakdown(model.config, LENGTHS, kept)
    assert set(parts) == {
        *("projections", "scores", "values", "output"),
        *("budget_net", "relevance_net", "feed_forward", "classifier"),
    }
    assert macs == sum(int(part.sum()) for part in parts.values())
    assert all(part.sum() > 0 for part in parts.values())


def test_gradients_are_refused_on_the_packed_path_and_allowed_without(small_model: MakeModel) -> None:
    model = small_model(execution="packed")
    with pytest.raises(RuntimeError, match="for inference"):
        run(model, LENGTHS, gradients=True)
    with torch.no_grad():
        macs, kept = run(model, LENGTHS, gradients=True)
    assert macs == pytest.approx(executed_macs(model.config, LENGTHS, kept).sum(), rel=0.01)


def texts_of_different_budgets(model: Classification) -> list[Tensor]:
    """Four texts that choose four different sums of heads when they are alone."""
    found: dict[int, Tensor] = {}
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        length = int(torch.randint(3, 40, (1,), generator=generator))
        ids = torch.randint(5, 120, (length,), generator=generator)
        _, kept = counted_batch(model, [ids])
        found.setdefault(int(kept.sum()), ids)
        if len(found) == 4:
            return list(found.values())
    raise AssertionError(f"the model chose only {sorted(found)} heads")


def counted_batch(model: Classification, texts: list[Tensor]) -> tuple[int, np.ndarray]:
    ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
    with torch.inference_mode(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        output = model(ids, ids > 0, output_budgets=True)
    return counter.get_total_flops() // 2, output.heads.numpy()


def test_the_cost_of_a_batch_is_the_sum_of_its_rows_in_any_order(small_model: MakeModel) -> None:
    model = small_model(execution="packed")
    texts = texts_of_different_budgets(model)
    alone = [counted_batch(model, [ids]) for ids in texts]
    assert len({int(kept.sum()) for _, kept in alone}) == 4
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [0, 0, 1, 1, 2, 2, 3, 3]):
        macs, kept = counted_batch(model, [texts[i] for i in order])
        assert np.array_equal(kept, np.concatenate([alone[i][1] for i in order]))
        assert macs == sum(alone[i][0] for i in order)
        formula = executed_macs(model.config, [len(texts[i]) for i in order], kept)
        assert macs == pytest.approx(formula.sum(), rel=0.01)
        for row, i in zip(formula, order, strict=True):
            assert row == pytest.approx(alone[i][0], rel=0.01)


class Work(TorchDispatchMode):
    """Products of matrices and attentions that reach the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[tuple[int, int, int]] = []
        self.attentions: list[tuple[int, int, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if "scaled_dot_product" in name:
            q = args[0]
            self.attentions.append((q.shape[0] * q.shape[1], q.shape[2], q.shape[3]))
        elif name == "linear":
            self.products.append((args[0].shape[:-1].numel(), *reversed(args[1].shape)))
        elif name in ("mm", "addmm"):
            left, right = args[-2:]
            self.products.append((left.shape[0], left.shape[1], right.shape[1]))
        else:
            assert name not in ("bmm", "baddbmm", "matmul", "einsum", "_int_mm"), f"{name} is not counted here"
        return func(*args, **(kwargs or {}))

    @property
    def product_macs(self) -> int:
        return sum(rows * inner * columns for rows, inner, columns in self.products)


def attended(counts: list[int], lengths: list[int], *, width: int = 32, heads: int = 8, seed: int = 0) -> Work:
    layout = TokenLayout(right_padded(lengths), packed=True)
    weights, (kept, gates) = make_weights(width=width, heads=heads), choose(counts, heads, seed=seed)
    x = torch.randn(sum(lengths), width)
    with torch.inference_mode(), Work() as work:
        packed.attend(x, layout, weights, kept, gates)
    return work


@pytest.mark.parametrize("count", range(9))
@pytest.mark.parametrize("seed", [0, 1])
def test_attentions_and_products_are_as_many_as_heads_were_chosen(count: int, seed: int) -> None:
    lengths = [10, 3, 25, 10]
    work = attended([count] * 4, lengths, seed=seed)
    assert sum(pairs for pairs, _, _ in work.attentions) == count * len(lengths)
    assert sum(pairs * n * n for pairs, n, _ in work.attentions) == count * sum(n * n for n in lengths)
    assert {size for _, _, size in work.attentions} <= {4}
    assert work.product_macs == count * sum(lengths) * (3 + 1) * 32 * 4


def test_every_input_pays_for_its_own_heads() -> None:
    lengths, counts = [10, 3, 25, 7], [0, 8, 1, 3]
    work = attended(counts, lengths)
    assert sum(pairs for pairs, _, _ in work.attentions) == sum(counts)
    tokens = sum(k * n for k, n in zip(counts, lengths, strict=True))
    assert sum(pairs * n for pairs, n, _ in work.attentions) == tokens
    assert work.product_macs == tokens * (3 + 1) * 32 * 4


def test_no_head_means_no_product_and_no_attention() -> None:
    work = attended([0, 0], [10, 3])
    assert work.products == work.attentions == []


def test_a_quarter_of_the_heads_is_a_quarter_of_the_attention_work(small_model: MakeModel) -> None:
    config = small_model().config
    quarter, full = (breakdown(config, LENGTHS, heads) for heads in (1, 4))
    for part in ("projections", "scores", "values", "output"):
        assert (4 * quarter[part] == full[part]).all()
    for part in ("budget_net", "relevance_net", "feed_forward", "classifier"):
        assert (quarter[part] == full[part]).all()
    assert (executed_macs(config, LENGTHS, 4) == dense_macs(config, LENGTHS)).all()
