"""The execution for GPUs gives what the reference gives; ``conftest.py`` says where, and what that shows."""

from __future__ import annotations

import pytest
import torch

from budgetformer.execution import cuda

from .cases import TOLERANCE, Case
from .test_packed import right_padded


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("count", range(9))
def test_every_head_count_gives_the_reference(device: torch.device, dtype: torch.dtype, count: int) -> None:
    Case(device, dtype, right_padded([7, 1, 12, 3, 12]), [count] * 5, seed=count).check()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("length", [1, 63, 1000])
def test_odd_lengths_give_the_reference(device: torch.device, dtype: torch.dtype, length: int) -> None:
    Case(device, dtype, right_padded([length, max(1, length - 1)]), [3, 1], heads=4).check()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("batch", [1, 2, 17, 64])
def test_a_batch_of_mixed_budgets_and_lengths_gives_the_reference(
    device: torch.device, dtype: torch.dtype, batch: int
) -> None:
    generator = torch.Generator().manual_seed(batch)
    lengths = torch.randint(0, 40, (batch,), generator=generator).tolist()
    counts = torch.randint(0, 13, (batch,), generator=generator).tolist()
    Case(device, dtype, right_padded(lengths, 40), counts, width=96, heads=12, seed=batch).check()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("size", [8, 16, 64, 96, 256])
def test_every_head_size_that_is_accepted_gives_the_reference(
    device: torch.device, dtype: torch.dtype, size: int
) -> None:
    assert cuda.refusal(device=torch.device("cuda"), dtype=dtype, head_size=size) is None
    Case(device, dtype, right_padded([9, 30, 2]), [1, 2, 0], width=2 * size, heads=2).check()


def test_weights_without_biases_give_the_reference(device: torch.device) -> None:
    for counts in ([1, 2], [4, 4], [0, 0]):
        Case(device, torch.bfloat16, right_padded([5, 7]), counts, heads=4, bias=False).check()


def test_zero_heads_give_the_output_bias_alone(device: torch.device) -> None:
    case = Case(device, torch.bfloat16, right_padded([3, 5]), [0, 0])
    assert torch.equal(case.fast()[0], case.weights.output_bias.expand(8, 64))
    case = Case(device, torch.bfloat16, right_padded([3, 5]), [0, 4])
    assert torch.equal(case.fast()[0][:3], case.weights.output_bias.expand(3, 64))


def test_inputs_without_tokens_have_no_output_and_disturb_nobody(device: torch.device) -> None:
    mask = torch.tensor([[False] * 4, [True, False, True, True], [False] * 4, [True] * 4])
    for counts in ([8, 8, 8, 8], [3, 1, 8, 5], [2, 0, 0, 0]):
        Case(device, torch.bfloat16, mask, counts).check()
    nothing, _ = Case(device, torch.bfloat16, mask[:1], [3]).fast()
    assert nothing.shape == (0, 64)


def test_the_order_of_the_batch_does_not_matter(device: torch.device) -> None:
    lengths = [9, 40, 9, 1, 6]
    case = Case(device, torch.bfloat16, right_padded(lengths), [1, 8, 0, 2, 5])
    order = torch.tensor([3, 1, 4, 0, 2])
    parts = case.fast(order)[0].split([lengths[i] for i in order])
    shuffled = torch.cat([parts[i] for i in order.argsort()])
    straight, _ = case.fast()
    assert (shuffled.float() - straight.float()).abs().max() <= TOLERANCE[torch.bfloat16] * straight.abs().max()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_same_call_gives_the_same_bits(device: torch.device, dtype: torch.dtype) -> None:
    case = Case(device, dtype, right_padded([64, 200, 7, 130]), [3, 8, 1, 6])
    first, _ = case.fast()
    assert all(torch.equal(case.fast()[0], first) for _ in range(5))


@pytest.mark.parametrize("counts", [[1, 3, 2, 1, 2], [4] * 5])
def test_more_sequences_than_one_call_takes_are_several_calls(
    device: torch.device, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(device, torch.bfloat16, right_padded([7, 1, 12, 3, 12]), counts, heads=4)
    whole, _ = case.fast()
    for most in (1, 2, 3, 5):
        monkeypatch.setattr(cuda, "SEQUENCES_PER_CALL", most)
        torch.testing.assert_close(case.fast()[0], whole, rtol=0, atol=1e-2)


def test_maps_lie_on_the_padded_grid_and_closed_heads_are_zero(device: torch.device) -> None:
    mask = torch.tensor([[False, True, True, False, True], [True] * 5])
    case = Case(device, torch.bfloat16, mask, [1, 2], heads=4)
    (output, maps), (truth, expected) = case.fast(need_maps=True), case.slow(need_maps=True)
    torch.testing.assert_close(maps, expected, rtol=0, atol=0.02)
    assert maps[~case.kept].count_nonzero() == 0
    assert (output.float() - truth).abs().max() <= TOLERANCE[torch.bfloat16] * truth.abs().max()


def test_autocast_does_not_change_the_dtype(device: torch.device) -> None:
    case = Case(device, torch.bfloat16, right_padded([5, 7]), [1, 3])
    plain, _ = case.fast()
    case.x = case.x.float()  # what autocast makes of a norm's output
    with torch.autocast(device.type, dtype=torch.bfloat16):
        mixed, _ = case.fast()
    assert torch.equal(mixed, plain)
