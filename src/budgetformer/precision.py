"""The number format of a model at inference: float32, bf16, int8, or the fastest of them on this machine."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .attention import budgeted_layers
from .execution.int8 import NO_REFERENCE, Int8Linear, has_int8, unsupported
from .metering.latency import wait_for
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


def precision_of(model: BudgetFormerForSequenceClassification) -> Precision:
    """The format that ``model`` is in: one of ``PRECISIONS``, or the name of another dtype of torch."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    return Precision(name="int8" if has_int8(model) else names.get(model.dtype, str(model.dtype)[len("torch.") :]))


def apply_precision(
    model: BudgetFormerForSequenceClassification, name: str, *, execution: str | None = None
) -> Precision:
    """Bring ``model`` to a format, in place; it must lie in float32 on its device, or be in that format already.

    int8: the four Linear layers of every encoder layer become ``Int8Linear``; embeddings, norms, the nets f and g
    and the classifier stay in float32, and the model takes no gradients any more. ``auto`` times the feed-forward of
    the first layer in each format that this device has and takes the fastest. ``execution`` is the one that the model
    will take, if not that of its configuration.
    Raises ValueError for an unknown name, for a model in another format, or with the reason when int8 cannot run.
    """
    check_precision(name)
    now = precision_of(model)
    if now.name == name:
        return now
    if now.name != "float32":
        raise ValueError(f"precision {name!r} is made from a model in float32, and it is {now.name}: load it anew")
    execution = execution or model.config.execution
    chosen = fastest(model, execution=execution) if name == "auto" else Precision(name=name)
    if chosen.name == "int8":
        _to_int8(model, execution)
    else:
        _to_half(model, DTYPES[chosen.name])
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
    x = torch.randn(PROBE_ROWS, first.in_features, generator=torch.Generator().manual_seed(0)).to(device)
    ways: dict[str, Callable[[], Tensor]] = {}
    with torch.inference_mode():
        half = [copy.deepcopy(linear).to(torch.bfloat16) for linear in (first, second)]
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
        return NO_REFERENCE
    return unsupported(model.device)


def _to_half(model: BudgetFormerForSequenceClassification, dtype: torch.dtype) -> None:
    """Everything but the nets f and g: choices are made in float32 whatever the model's dtype."""
    nets = [n for a in budgeted_layers(model) for n in (a.budget_net, a.relevance_net) if n is not None]
    exact = [copy.deepcopy(net.state_dict()) for net in nets]
    model.to(dtype)
    for net, state in zip(nets, exact, strict=True):
        net.float().load_state_dict(state)


def _to_int8(model: BudgetFormerForSequenceClassification, execution: str) -> None:
    refusal = _int8_refusal(model, execution)
    if refusal is not None:
        raise ValueError(f"precision 'int8' cannot be used: {refusal}")
    model.requires_grad_(False)
    layers: Any = model.budgetformer.layers
    for layer in layers:
        for owner, names in ((layer.attention, ("qkv", "output")), (layer, ("intermediate", "feed_forward"))):
            for name in names:
                linear = getattr(owner, name)
                if isinstance(linear, nn.Linear):  # a layer without heads has no projections
                    setattr(owner, name, Int8Linear(linear))


def _seconds(call: Callable[[], Tensor], device: torch.device) -> float:
    """The shortest of some calls, without the first."""
    times = []
    for _ in range(PROBE_ROUNDS + 1):
        started = time.perf_counter()
        call()
        wait_for(device)
        times.append(time.perf_counter() - started)
    return min(times[1:])
