"""Products in 8-bit integers: the rounding is bounded, the rest is the packed execution."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from budgetformer.execution import HeadWeights, TokenLayout, attend_first, packed, reference
from budgetformer.execution.int8 import Int8HeadWeights, Int8Linear, quantize_rows, unsupported, whole_product

from .scratch import dirty_memory
from .test_packed import choose, right_padded


def make_pair(width: int, heads: int, *, bias: bool = True, seed: int = 0) -> tuple[Int8HeadWeights, HeadWeights]:
    """Weights in int8, and float weights of exactly the same values."""
    torch.manual_seed(seed)
    qkv, output = Int8Linear(nn.Linear(width, 3 * width, bias=bias)), Int8Linear(nn.Linear(width, width, bias=bias))
    floats = HeadWeights(
        num_heads=heads,
        qkv_weight=qkv.weight * qkv.scale[:, None],
        qkv_bias=qkv.bias,
        output_weight=output.weight * output.scale[:, None],
        output_bias=output.bias,
    )
    return Int8HeadWeights(num_heads=heads, qkv=qkv, output=output), floats


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(0, 5), width=st.integers(1, 40), exponent=st.integers(-20, 20), seed=st.integers(0, 99))
def test_a_row_is_off_by_half_a_step_at_most(rows: int, width: int, exponent: int, seed: int) -> None:
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)) * 10.0**exponent
    quantized = quantize_rows(x)
    assert quantized.values.dtype == torch.int8
    assert int(quantized.values.min() if rows else 0) >= -127
    step = x.abs().amax(dim=-1, keepdim=True) / 127
    assert ((quantized.values * quantized.scale - x).abs() <= step * 0.501).all()


def test_a_row_of_zeros_stays_zero_and_huge_values_stay_finite() -> None:
    x = torch.tensor([[0.0, 0.0], [3e38, -3e38], [1e-35, 0.0]])
    quantized = quantize_rows(x)
    assert quantized.values[0].tolist() == [0, 0]
    assert quantized.values[1].tolist() == [127, -127]
    assert torch.isfinite(quantized.values * quantized.scale).all()


@pytest.mark.parametrize("rows", [1, 2, 7, 63, 1000])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_is_exact_for_values_that_int8_holds(rows: int, bias: bool) -> None:
    generator = torch.Generator().manual_seed(rows)
    linear = nn.Linear(40, 24, bias=bias)
    with torch.no_grad():
        linear.weight.copy_(torch.randint(-127, 128, (24, 40), generator=generator).float())
        linear.weight[:, 0] = 127
    x = torch.randint(-127, 128, (rows, 40), generator=generator).float()
    x[:, 0] = -127
    with torch.inference_mode():
        torch.testing.assert_close(Int8Linear(linear)(x), linear(x), rtol=1e-6, atol=1e-3)


def test_a_product_of_random_values_is_within_two_percent() -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(384, 96), torch.randn(2, 50, 384)
    with torch.inference_mode():
        ours, exact = Int8Linear(linear)(x), linear(x)
    assert ours.shape == exact.shape
    assert (ours - exact).abs().max() < 0.02 * exact.abs().max()


@pytest.mark.parametrize("lengths", [[7, 1, 12, 3, 12], [63], [5, 5, 5, 5], [30, 2, 9, 9, 17, 4, 8, 21]], ids=str)
@pytest.mark.parametrize("count", range(0, 9, 2))
def test_attention_differs_from_floats_of_the_same_weights_by_the_rounding_of_activations(
    lengths: list[int], count: int
) -> None:
    small, floats = make_pair(64, 8)
    kept, gates = choose([count] * len(lengths), 8, seed=count)
    mask = right_padded(lengths)
    x = torch.randn(*mask.shape, 64, generator=torch.Generator().manual_seed(1))
    layout = TokenLayout(mask, packed=True)
    with torch.inference_mode(), dirty_memory():
        ours, _ = packed.attend(layout.pack(x), layout, small, kept, gates)
        exact, _ = packed.attend(layout.pack(x), layout, floats, kept, gates)
    assert ours.dtype == torch.float32
    assert (ours - exact).abs().max() <= 0.03 * exact.abs().max()
    if count:
        assert not torch.equal(ours, exact)


def plain_int8(x_nD: Tensor, weights: Int8HeadWeights, kept_H: Tensor, gates_H: Tensor) -> Tensor:
    """The rule for one input, in whole numbers as floats of double width: no packing, no sharing, no batch."""
    size = x_nD.shape[-1] // weights.num_heads

    def product(values: Tensor, scale: Tensor, linear: Int8Linear) -> Tensor:
        y = (values.double() @ linear.weight.double().T) * scale.double() * linear.scale.double()
        return y if linear.bias is None else y + linear.bias.double()

    quantized = quantize_rows(x_nD)
    qkv_nHrd = product(quantized.values, quantized.scale, weights.qkv).float().unflatten(1, (-1, 3, size))
    q, k, v = qkv_nHrd.permute(2, 1, 0, 3)
    heads_nHd = (torch.softmax(q @ k.mT / math.sqrt(size), dim=-1) @ v).transpose(0, 1)
    gated = quantize_rows((heads_nHd * (gates_H * kept_H)[:, None]).flatten(1))
    return product(gated.values, gated.scale, weights.output).float()


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 5), (2, 8, 1), (0, 4, 4), (17, 1, 24)])
def test_a_product_of_integers_is_exact_at_odd_sizes(shape: tuple[int, int, int]) -> None:
    rows, inner, outer = shape
    values, weight = (torch.randint(-127, 128, (n, inner), dtype=torch.int8) for n in (rows, outer))
    for part in (weight, torch.cat([weight, weight], dim=1)[:, :inner]):
        assert torch.equal(whole_product(values, part), (values.long() @ part.long().t()).int())


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_every_input_gets_what_the_plain_rule_gives_it_alone(data: st.DataObject) -> None:
    """Whatever the batch: heads of a token share a scale, so which heads are computed together changes nothing."""
    heads, size = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 9))
    lengths = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=7))
    counts = data.draw(st.lists(st.integers(0, heads), min_size=len(lengths), max_size=len(lengths)))
    weights, _ = make_pair(heads * size, heads, bias=data.draw(st.booleans()))
    kept, gates = choose(counts, heads, seed=data.draw(st.integers(0, 99)))
    layout = TokenLayout(right_padded(lengths), packed=True)
    x = torch.randn(sum(lengths), heads * size, generator=torch.Generator().manual_seed(sum(counts)))
    with torch.inference_mode(), dirty_memory():
        ours, _ = packed.attend(x, layout, weights, kept, gates)
        firsts = attend_first(x, layout, weights, kept, gates)
    # A value that float noise moves over the edge between two steps changes by a step; of these there are few.
    start, apart = 0, []
    for b, length in enumerate(lengths):
        truth = plain_int8(x[start : start + length], weights, kept[b], gates[b])
        apart += ((ours[start : start + length] - truth).abs() > 1e-5).any(dim=-1).tolist()
        apart += ((firsts[b] - truth[0]).abs() > 1e-5).any().reshape(1).tolist() if length else []
        start += length
    assert sum(apart) <= 0.02 * len(apart) + 1


def test_mixed_budgets_and_an_input_without_tokens() -> None:
    small, floats = make_pair(32, 4, bias=False)
    mask = torch.tensor([[False] * 9, [True] * 9, [True] * 4 + [False] * 5])
    kept, gates = choose([2, 0, 3], 4)
    x = torch.randn(3, 9, 32, generator=torch.Generator().manual_seed(2))
    layout = TokenLayout(mask, packed=True)
    with torch.inference_mode(), dirty_memory():
        ours, _ = packed.attend(layout.pack(x), layout, small, kept, gates)
        exact, _ = packed.attend(layout.pack(x), layout, floats, kept, gates)
    assert ours[:9].count_nonzero() == 0
    assert (ours - exact).abs().max() <= 0.03 * exact.abs().max()


def test_int8_weights_have_no_reference() -> None:
    small, _ = make_pair(8, 2)
    mask = right_padded([3])
    with pytest.raises(RuntimeError, match="int8 is for inference with packed tokens"):
        reference.attend(torch.randn(1, 3, 8), TokenLayout(mask), small, *choose([1], 2))  # type: ignore[arg-type]


def test_a_gpu_is_refused_with_the_reason() -> None:
    assert unsupported(torch.device("cpu")) is None
    assert "int8 runs on a CPU only, not on cuda" in str(unsupported(torch.device("cuda")))
