"""The number format of a model at inference: float32, bf16, int8, or the fastest of them on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .execution.int8 import Int8Linear, unsupported
from .modeling import BudgetFormerForSequenceClassification

DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
PRECISIONS = ("float32", "bf16", "int8", "auto")
WORTH = 1.1
"""``auto`` leaves float32 only for a format that is at least this many times as fast."""
PROBE_ROWS, PROBE_ROUNDS = 256, 7


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The format that a model was brought to, and for ``auto`` why (empty otherwise)."""

    name: str
    why: str = ""


def apply_precision(
    model: BudgetFormerForSequenceClassification, name: str, *, execution: str | None = None
) -> Precision:
    """Bring ``model`` to a format, in place; it must lie in float32 on its device.

    int8: the four Linear layers of every encoder layer become ``Int8Linear``; embeddings, norms, the nets f and g
    and the classifier stay in float32, and the model takes no gradients any more. ``auto`` times the feed-forward of
    the first layer in each format that this device has and takes the fastest. ``execution`` is the one that the model
    will take, if not that of its configuration.
    Raises ValueError for an unknown name, or with the reason when int8 cannot run.
    """
    check_precision(name)
    execution = execution or model.config.execution
    chosen = fastest(model, execution=execution) if name == "auto" else Precision(name=name)
    if chosen.name == "int8":
        _to_int8(model, execution)
    else:
        model.to(DTYPES[chosen.name])
    return chosen


def check_precision(name: str) -> None:
    """Refuse a name that is no format."""
    if name not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {name!r}")


def fastest(model: BudgetFormerForSequenceClassification, *, execution: str) -> Precision:
    """The format in which this device runs the model's feed-forward fastest; float32 unless another gains 10 %."""
    if not len(model.budgetformer.layers):
        return Precision(name="float32", why="the model has no layers")
    layer: Any = model.budgetformer.layers[0]
    first, second, device = layer.intermediate, layer.feed_forward, model.device
    x = torch.randn(PROBE_ROWS, first.in_features, device=device)
    ways: dict[str, Callable[[], Tensor]] = {}
    with torch.inference_mode():
        half = [_copy(linear).to(torch.bfloat16) for linear in (first, second)]
        ways["float32"] = lambda: second(layer.activation(first(x)))
        ways["bf16"] = lambda: half[1](layer.activation(half[0](x.to(torch.bfloat16))))
        if _int8_refusal(model, execution) is None:
            small = [Int8Linear(linear) for linear in (first, second)]
            ways["int8"] = lambda: small[1](layer.activation(small[0](x)))
        seconds = {way: _seconds(call, device) for way, call in ways.items()}
    speed = {way: seconds["float32"] / s for way, s in seconds.items() if way != "float32"}
    best = max(speed, key=speed.__getitem__)
    said = ", ".join(f"{way} {ratio:.1f}" for way, ratio in speed.items())
    why = f"feed-forward speed on this {device.type} in multiples of float32: {said}"
    return Precision(name=best if speed[best] >= WORTH else "float32", why=why)


def _int8_refusal(model: BudgetFormerForSequenceClassification, execution: str) -> str | None:
    if execution == "reference":
        return "int8 has no reference execution: use execution auto or packed"
    return unsupported(model.device)


def _to_int8(model: BudgetFormerForSequenceClassification, execution: str) -> None:
    refusal = _int8_refusal(model, execution)
    if refusal is not None:
        raise ValueError(f"precision 'int8' cannot be used: {refusal}")
    model.requires_grad_(False)
    layers: Any = model.budgetformer.layers
    for layer in layers:
        for owner, names in ((layer.attention, ("qkv", "output")), (layer, ("intermediate", "feed_forward"))):
            for name in names:
                setattr(owner, name, Int8Linear(getattr(owner, name)))


def _copy(linear: nn.Linear) -> nn.Linear:
    twin = nn.Linear(linear.in_features, linear.out_features, bias=linear.bias is not None, device=linear.weight.device)
    twin.load_state_dict(linear.state_dict())
    return twin


def _seconds(call: Callable[[], Tensor], device: torch.device) -> float:
    """The shortest of some calls, without the first."""
    times = []
    for _ in range(PROBE_ROUNDS + 1):
        started = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    return min(times[1:])
