"""What the execution for GPUs does and refuses: work, waiting, copies, gradients; ``conftest.py`` says where."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.attention import varlen
from torch.utils.flop_counter import FlopCounterMode

from budgetformer.execution import TokenLayout, cuda

from .cases import TOLERANCE, Case
from .test_packed import right_padded


@pytest.mark.parametrize("of", ["x", "weight", "gates"])
def test_gradients_and_dropout_are_refused(device: torch.device, of: str) -> None:
    case = Case(device, torch.bfloat16, right_padded([3, 2]), [1, 2])
    layout = TokenLayout(case.mask, packed=True)
    x = layout.pack(case.x)
    arguments = (x, layout, case.weights, case.kept, case.gates)
    with pytest.raises(RuntimeError, match="cuda execution is for inference"):
        cuda.attend(*arguments, dropout=0.1)
    {"x": x, "weight": case.weights.output_weight, "gates": case.gates}[of].requires_grad_()
    with pytest.raises(RuntimeError, match=r"cuda execution is for inference.*execution='auto' or 'reference'"):
        cuda.attend(*arguments)
    with torch.no_grad():
        cuda.attend(*arguments)


@pytest.mark.parametrize("counts", [[0, 0, 0], [1, 3, 8], [8, 8, 8]])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_host_waits_for_the_device_once(device: torch.device, dtype: torch.dtype, counts: list[int]) -> None:
    case = Case(device, dtype, right_padded([5, 30, 7]), counts)
    layout = TokenLayout(case.mask, packed=True)

    def run() -> None:
        cuda.attend(layout.pack(case.x), layout, case.weights, case.kept, case.gates)

    with torch.inference_mode():
        run()  # the first call finds out what the device can do
        assert waits(run, device) == 1


@pytest.mark.parametrize("device", [("cpu", False)], indirect=True, ids=["on-cpu"])
def test_work_follows_the_heads_and_the_real_tokens(device: torch.device) -> None:
    """Counted on a CPU, because torch's counter does not know grouped products."""
    lengths = [10, 3, 25]

    def work(counts: list[int]) -> int:
        case = Case(device, torch.bfloat16, right_padded(lengths), counts)
        layout = TokenLayout(case.mask, packed=True)
        with torch.inference_mode(), FlopCounterMode(display=False) as counter:
            cuda.attend(layout.pack(case.x), layout, case.weights, case.kept, case.gates)
        return counter.get_total_flops() // 2

    def one_head(n: int) -> int:
        return n * 3 * 8 * 64 + 2 * n * n * 8 + n * 8 * 64

    assert work([0, 0, 0]) == 0
    assert work([1, 0, 0]) == one_head(10)
    assert work([2, 1, 5]) == 2 * one_head(10) + one_head(3) + 5 * one_head(25)
    assert work([8, 8, 8]) == 8 * sum(one_head(n) for n in lengths)


@pytest.mark.parametrize("device", [("cpu", False), ("cpu", True)], indirect=True, ids=["loop", "grouped"])
def test_no_weight_is_copied(device: torch.device) -> None:
    """The products read the storage of the layer's own weights."""
    seen = set()

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if getattr(func, "__name__", "") in ("mm", "linear", "_grouped_mm"):
                seen.add(args[1].untyped_storage().data_ptr())
            return func(*args, **(kwargs or {}))

    for counts in ([1, 2, 3], [8, 8, 8]):
        case = Case(device, torch.bfloat16, right_padded([4, 6, 2]), counts)
        weights = case.weights.qkv_weight, case.weights.output_weight
        with Watch():
            case.fast()
        assert seen == {weight.untyped_storage().data_ptr() for weight in weights}
        seen.clear()


@pytest.mark.parametrize("device", [("cpu", True)], indirect=True, ids=["on-cpu"])
@pytest.mark.parametrize("size", [8, 40, 64, 256])
def test_the_operands_of_grouped_products_lie_as_their_kernel_demands(device: torch.device, size: int) -> None:
    """Asked of torch's rules for tensors without memory, which are those of the kernel for GPUs."""
    asked = []

    class Ask(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            out = func(*args, **(kwargs or {}))
            if getattr(func, "__name__", "") == "_grouped_mm":
                assert all(tensor.data_ptr() % 16 == 0 for tensor in args)
                without_memory = (torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta") for t in args)
                asked.append(func(*without_memory, offs=kwargs["offs"].to("meta")).shape == out.shape)
            return out

    case = Case(device, torch.bfloat16, right_padded([5, 3, 1]), [1, 2, 1], width=3 * size, heads=3)
    with Ask():
        case.fast()
    assert asked == [True, True]


def waits(run: Callable[[], None], device: torch.device) -> int:
    """How often ``run`` makes the host wait: as torch says on a GPU, by the methods that would do it on a CPU."""
    if device.type == "cuda":
        with warnings.catch_warnings(record=True, action="always") as caught:
            torch.cuda.set_sync_debug_mode("warn")
            try:
                run()
            finally:
                torch.cuda.set_sync_debug_mode("default")
        return sum("synchronizing CUDA operation" in str(w.message) for w in caught)
    blocking = {getattr(Tensor, name) for name in ("tolist", "item", "nonzero", "cpu", "__bool__", "__int__")}
    seen = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func in blocking or func in (torch.nonzero, torch.unique, torch.masked_select):
                seen.append(func)
            return func(*args, **(kwargs or {}))

    original = varlen.varlen_attn
    with pytest.MonkeyPatch.context() as patch, Watch():
        patch.setattr(varlen, "varlen_attn", lambda q, k, v, *_: torch.empty_like(q))
        run()
    assert varlen.varlen_attn is original
    return len(seen)
