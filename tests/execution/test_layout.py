"""Packing tokens and pooling over them."""

from __future__ import annotations

import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from budgetformer.execution import TokenLayout
from budgetformer.method import pooled_input


@st.composite
def masks(draw: st.DrawFn) -> Tensor:
    batch, length = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    return torch.tensor(draw(st.lists(st.booleans(), min_size=batch * length, max_size=batch * length))).view(
        batch, length
    )


def tokens(mask: Tensor) -> Tensor:
    return torch.randn(*mask.shape, 3, generator=torch.Generator().manual_seed(0))


@given(mask=masks())
def test_packing_and_unpacking_keeps_real_tokens_in_place_and_clears_padding(mask: Tensor) -> None:
    layout, x = TokenLayout(mask, packed=True), tokens(mask)
    packed = layout.pack(x)
    assert len(packed) == mask.sum()
    assert torch.equal(layout.unpack(packed), torch.where(mask[:, :, None], x, 0.0))


@given(mask=masks())
def test_the_packed_mean_is_the_pooled_input(mask: Tensor) -> None:
    layout, x = TokenLayout(mask, packed=True), tokens(mask)
    torch.testing.assert_close(layout.mean(layout.pack(x)), pooled_input(x, mask))


@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6), padding=st.integers(0, 2))
@example(lengths=[0], padding=0)
def test_the_first_token_is_the_same_packed_and_padded(lengths: list[int], padding: int) -> None:
    mask = torch.arange(max(lengths) + padding)[None] < torch.tensor(lengths)[:, None]
    layout, x = TokenLayout(mask, packed=True), tokens(mask)
    assert torch.equal(layout.first(layout.pack(x)), TokenLayout(mask).first(x))


@given(lengths=st.lists(st.integers(0, 200), min_size=1, max_size=6))
@example(lengths=[0, 64, 65, 63, 0, 1, 128])
def test_sums_by_pieces_are_the_sums_of_each_inputs_tokens(lengths: list[int]) -> None:
    layout = TokenLayout(torch.arange(200)[None] < torch.tensor(lengths)[:, None], packed=True)
    x = torch.randn(sum(lengths), 3, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([part.sum(dim=0) for part in x.split(lengths)])
    torch.testing.assert_close(layout.sums_by_pieces(x), expected, rtol=0, atol=1e-4)


def test_half_precision_tokens_are_pooled_in_float32() -> None:
    mask = torch.ones(1, 3000, dtype=torch.bool)
    layout = TokenLayout(mask, packed=True)
    assert layout.mean(torch.ones(3000, 2, dtype=torch.bfloat16)).tolist() == [[1.0, 1.0]]
