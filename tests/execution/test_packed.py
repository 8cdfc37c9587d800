"""The packed execution gives what the reference gives, and does only the work that was chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from budgetformer.execution import HeadWeights, TokenLayout, packed, reference
from budgetformer.execution.runs import Run
from budgetformer.execution.weights import take

from .scratch import TOLERANCE, dirty_memory, require_on_cpu

FORMATS = (torch.float32, torch.bfloat16, torch.float16)


def make_weights(
    *, width: int, heads: int, dtype: torch.dtype = torch.float32, bias: bool = True, seed: int = 0
) -> HeadWeights:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=generator) * width**-0.5).to(dtype)

    return HeadWeights(
        num_heads=heads,
        qkv_weight=normal(3 * width, width),
        qkv_bias=normal(3 * width) if bias else None,
        output_weight=normal(width, width),
        output_bias=normal(width) if bias else None,
    )


def right_padded(lengths: list[int], padded: int | None = None) -> Tensor:
    return torch.arange(padded or max(lengths))[None] < torch.tensor(lengths)[:, None]


def choose(counts: list[int], heads: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """``counts[b]`` heads of input b at random, with random gates on them."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(len(counts), heads, generator=generator).argsort(dim=-1)
    kept = order < torch.tensor(counts)[:, None]
    return kept, torch.where(kept, 0.1 + torch.rand(len(counts), heads, generator=generator), 0.0)


def both(
    mask: Tensor,
    weights: HeadWeights,
    kept: Tensor,
    gates: Tensor,
    *,
    seed: int = 0,
    need_maps: bool = False,
    rounded: torch.dtype | None = None,
) -> tuple[tuple[Tensor, Tensor | None], tuple[Tensor, Tensor | None]]:
    """(packed, reference) outputs at the real tokens, with the maps; padding and scratch memory of packed are NaN.

    The inputs have the format of the weights, after they had the format ``rounded``.
    """
    x = torch.randn(*mask.shape, weights.qkv_weight.shape[1], generator=torch.Generator().manual_seed(seed))
    x = x.to(rounded or x.dtype).to(weights.qkv_weight.dtype)
    layout = TokenLayout(mask, packed=True)
    with torch.inference_mode():
        dirty = torch.where(mask[:, :, None], x, float("nan"))
        tokens = layout.pack(dirty)
        with dirty_memory():
            fast, fast_maps = packed.attend(tokens, layout, weights, kept, gates, need_maps=need_maps)
        slow, slow_maps = reference.attend(x, TokenLayout(mask), weights, kept, gates, need_maps=need_maps)
    return (fast, fast_maps), (layout.pack(slow), slow_maps)


def check_format(dtype: torch.dtype, mask: Tensor, kept: Tensor, gates: Tensor, *, width: int) -> None:
    """Packed gives the reference; in half precision within ``TOLERANCE`` of the truth, which is float32 from the same
    numbers, and at most twice as far from it as the reference in that format, or a rounding step."""
    require_on_cpu(dtype)
    weights = make_weights(width=width, heads=kept.shape[1], dtype=dtype)
    (fast, _), (slow, _) = both(mask, weights, kept, gates)
    assert fast.dtype == dtype
    if dtype == torch.float32:
        torch.testing.assert_close(fast, slow, rtol=0, atol=1e-5)
        return
    tensors = ("qkv_weight", "qkv_bias", "output_weight", "output_bias")
    exact = replace(weights, **{name: getattr(weights, name).float() for name in tensors})
    _, (truth, _) = both(mask, exact, kept, gates, rounded=dtype)
    scale = truth.abs().max()
    error, usual = ((y.float() - truth).abs().max() for y in (fast, slow))
    assert error <= TOLERANCE[dtype] * scale
    assert error <= 2 * usual + torch.finfo(dtype).eps * scale


@pytest.mark.parametrize("count", range(9))
def test_every_head_count_gives_the_reference(count: int) -> None:
    kept, gates = choose([count] * 5, 8, seed=count)
    (fast, _), (slow, _) = both(right_padded([7, 1, 12, 3, 12]), make_weights(width=64, heads=8), kept, gates)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("length", [1, 63, 1000])
def test_odd_lengths_give_the_reference(length: int, dtype: torch.dtype) -> None:
    kept, gates = choose([3, 1], 4)
    check_format(dtype, right_padded([length, max(1, length - 1)]), kept, gates, width=32)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("batch", [1, 2, 17, 64])
def test_a_batch_of_mixed_budgets_and_lengths_gives_the_reference(batch: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(batch)
    lengths = torch.randint(1, 40, (batch,), generator=generator).tolist()
    counts = torch.randint(0, 13, (batch,), generator=generator).tolist()
    kept, gates = choose(counts, 12, seed=batch)
    check_format(dtype, right_padded(lengths, 40), kept, gates, width=48)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_choice_mask_and_size_gives_the_reference(data: st.DataObject) -> None:
    batch, length = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 9))
    heads, size = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5))
    bits = st.lists(st.booleans(), min_size=batch * length, max_size=batch * length)
    mask = torch.tensor(data.draw(bits)).view(batch, length)
    counts = data.draw(st.lists(st.integers(0, heads), min_size=batch, max_size=batch))
    kept, gates = choose(counts, heads, seed=data.draw(st.integers(0, 99)))
    weights = make_weights(width=heads * size, heads=heads, bias=data.draw(st.booleans()))
    (fast, fast_maps), (slow, slow_maps) = both(mask, weights, kept, gates, need_maps=data.draw(st.booleans()))
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-5)
    torch.testing.assert_close(fast_maps, slow_maps, rtol=0, atol=1e-5)


@pytest.mark.parametrize("lengths", [[0, 5, 5, 5], [5, 5, 5, 5], [9, 3, 0, 9]])
@pytest.mark.parametrize("width", [16, 1024])
def test_mixed_heads_give_the_reference_gathered_at_once_and_head_by_head(lengths: list[int], width: int) -> None:
    """The larger width is more than is gathered at once, and its weights are more than are copied."""
    kept = torch.tensor([[1, 0, 1, 0], [1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 1]]).repeat(8, 1).bool()
    (fast, _), (slow, _) = both(
        right_padded(lengths * 8, 9), make_weights(width=width, heads=4), kept, kept.float(), seed=1
    )
    torch.testing.assert_close(fast, slow, rtol=0, atol=2e-5)


def test_order_of_the_batch_does_not_matter() -> None:
    lengths, counts = [9, 4, 9, 1, 6], [1, 4, 0, 2, 3]
    kept, gates = choose(counts, 4)
    mask, weights = right_padded(lengths), make_weights(width=16, heads=4)
    x = torch.randn(5, 9, 16, generator=torch.Generator().manual_seed(0))
    outputs = []
    for order in (torch.arange(5), torch.tensor([3, 1, 4, 0, 2])):
        layout = TokenLayout(mask[order], packed=True)
        with torch.inference_mode():
            fast, _ = packed.attend(layout.pack(x[order]), layout, weights, kept[order], gates[order])
        outputs.append(layout.unpack(fast)[order.argsort()])
    torch.testing.assert_close(outputs[0], outputs[1], rtol=0, atol=1e-5)


def test_an_input_without_tokens_has_no_output_and_disturbs_nobody() -> None:
    mask = torch.tensor([[False, False, False], [True, True, False]])
    kept, gates = choose([2, 2], 2)
    weights = make_weights(width=8, heads=2)
    (fast, _), (slow, _) = both(mask, weights, kept, gates)
    assert len(fast) == 2
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-5)
    (nothing, _), _ = both(mask[:1], weights, kept[:1], gates[:1])
    assert nothing.shape == (0, 8)


def test_zero_heads_give_the_output_bias_alone() -> None:
    weights = make_weights(width=16, heads=4)
    (fast, _), _ = both(right_padded([3, 5]), weights, *choose([0, 0], 4))
    assert torch.equal(fast, weights.output_bias.expand(8, 16))


def test_maps_lie_on_the_padded_grid_and_closed_heads_are_zero() -> None:
    mask = torch.tensor([[False, True, True, False, True], [True, True, True, True, True]])
    kept, gates = choose([1, 2], 4)
    (_, fast), (_, slow) = both(mask, make_weights(width=16, heads=4), kept, gates, need_maps=True)
    assert fast is not None
    assert slow is not None
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-6)
    assert fast[~kept].count_nonzero() == 0
    rows = fast.sum(dim=-1)
    torch.testing.assert_close(rows, (kept[:, :, None] & mask[:, None]).float())


def test_maps_do_not_change_the_output() -> None:
    kept, gates = choose([1, 3], 4)
    args = (right_padded([5, 7]), make_weights(width=16, heads=4), kept, gates)
    torch.testing.assert_close(both(*args)[0][0], both(*args, need_maps=True)[0][0], rtol=0, atol=1e-5)


def test_bfloat16_is_as_close_to_float32_as_the_reference_is() -> None:
    """Both lie within 2 % of the largest value; packed keeps its sums in float32 and is no worse than 1.2 times."""
    kept, gates = choose([1, 4, 8, 0, 2], 8)
    mask = right_padded([20, 9, 33, 4, 33])
    exact = make_weights(width=128, heads=8)
    half = make_weights(width=128, heads=8, dtype=torch.bfloat16)
    (_, _), (truth, _) = both(mask, exact, kept, gates)
    (fast, _), (slow, _) = both(mask, half, kept, gates)
    assert fast.dtype == torch.bfloat16
    fast_error, slow_error = ((y.float() - truth).abs().max() for y in (fast, slow))
    assert fast_error < 0.02 * truth.abs().max()
    assert fast_error < 1.2 * slow_error


def test_float64_stays_float64() -> None:
    weights = make_weights(width=16, heads=4, dtype=torch.float64)
    (fast, _), (slow, _) = both(right_padded([5, 7]), weights, *choose([1, 3], 4))
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)


@pytest.mark.parametrize("of", ["x", "weight", "gates"])
def test_gradients_are_refused(of: str) -> None:
    layout = TokenLayout(right_padded([3, 2]), packed=True)
    weights = make_weights(width=8, heads=2)
    kept, gates = choose([1, 2], 2)
    x = torch.randn(5, 8)
    {"x": x, "weight": weights.output_weight, "gates": gates}[of].requires_grad_()
    with pytest.raises(RuntimeError, match=r"packed execution is for inference.*execution='auto' or 'reference'"):
        packed.attend(x, layout, weights, kept, gates)
    with torch.no_grad():
        packed.attend(x, layout, weights, kept, gates)


def test_dropout_is_refused() -> None:
    layout = TokenLayout(right_padded([3]), packed=True)
    with pytest.raises(RuntimeError, match="for inference"):
        packed.attend(torch.randn(3, 8), layout, make_weights(width=8, heads=2), *choose([1], 2), dropout=0.1)


def multiply_adds(counts: list[int], lengths: list[int], *, width: int = 32, heads: int = 8) -> int:
    layout = TokenLayout(right_padded(lengths), packed=True)
    x = torch.randn(sum(lengths), width)
    weights = make_weights(width=width, heads=heads)
    kept, gates = choose(counts, heads)
    with torch.inference_mode(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        packed.attend(x, layout, weights, kept, gates)
    return counter.get_total_flops() // 2


def test_work_follows_the_heads_and_the_real_tokens() -> None:
    lengths = [10, 3, 25]

    def one_head(length: int) -> int:
        return length * 3 * 4 * 32 + 2 * length * length * 4 + length * 4 * 32

    assert multiply_adds([0, 0, 0], lengths) == 0
    assert multiply_adds([1, 0, 0], lengths) == one_head(10)
    assert multiply_adds([2, 1, 5], lengths) == 2 * one_head(10) + one_head(3) + 5 * one_head(25)
    assert multiply_adds([8, 8, 8], lengths) == 8 * sum(one_head(n) for n in lengths)


def test_no_weight_is_copied() -> None:
    """Storage that the products read is the storage of the layer's own weights."""
    weights = make_weights(width=32, heads=4)
    own = {weights.qkv_weight.untyped_storage().data_ptr(), weights.output_weight.untyped_storage().data_ptr()}
    seen = set()
    original = torch.nn.functional.linear

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func is original:
                seen.add(args[1].untyped_storage().data_ptr())
            return func(*args, **(kwargs or {}))

    kept, gates = choose([1, 2, 3], 4)
    layout = TokenLayout(right_padded([4, 6, 2]), packed=True)
    with torch.inference_mode(), Watch():
        packed.attend(torch.randn(12, 32), layout, weights, kept, gates)
    assert seen == own


def test_heads_that_are_no_neighbours_are_taken_where_the_weights_are() -> None:
    """Fake tensors have a GPU's device on any machine, and refuse operands of two devices as a GPU does."""
    run = Run(heads=[0, 2], index_t=None, groups=[])
    with FakeTensorMode(allow_non_fake_inputs=True):
        weight = torch.empty(12, 5, device="cuda")
        assert take(weight, run.part(3), 4).shape == (6, 5)
        assert take(weight, run.part(1), 12).device.type == "cuda"
        assert take(torch.empty(5, 12, device="cuda"), run.part(3), 4, dim=1).shape == (5, 6)


@pytest.mark.parametrize("lengths", [[5, 5, 5, 5], [9, 3, 0, 9]])
def test_every_device_gives_the_reference_and_always_the_same_bits(device: torch.device, lengths: list[int]) -> None:
    kept = torch.tensor([[1, 0, 1, 0], [1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 1]]).repeat(8, 1).bool()
    mask, weights = right_padded(lengths * 8, 9), make_weights(width=16, heads=4)
    names = ("qkv_weight", "qkv_bias", "output_weight", "output_bias")
    there = HeadWeights(num_heads=4, **{name: getattr(weights, name).to(device) for name in names})
    x = torch.randn(*mask.shape, 16, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        slow, _ = reference.attend(x, TokenLayout(mask), weights, kept, kept.float())
        for rows in (slice(0, 1), slice(None)):  # one input alone takes heads that are no neighbours together
            layout = TokenLayout(mask[rows].to(device), packed=True)
            given = layout.pack(x[rows].to(device)), layout, there, kept[rows].to(device), kept[rows].float().to(device)
            fast = [packed.attend(*given)[0] for _ in range(5)]
            assert all(torch.equal(again, fast[0]) for again in fast)
            truth = TokenLayout(mask[rows], packed=True).pack(slow[rows])
            torch.testing.assert_close(fast[0].cpu(), truth, rtol=0, atol=1e-3 if device.type == "cuda" else 1e-5)
