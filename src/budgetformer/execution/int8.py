"""Products in 8-bit integers: weights scaled per output channel, activations per token, sums in 32 bits.

``x ≈ x_q · s_x`` with ``s_x = max|x| / 127`` of its row, ``W ≈ W_q · s_W`` with one ``s_W`` per output channel, so
``x Wᵀ + b ≈ (x_q W_qᵀ) · s_x · s_W + b``, where the product in brackets is exact in int32. Nothing is calibrated.
A token has one scale for a layer's input and one for the outputs of all its heads, so that no answer hangs on what it
is batched with. Everything else (norms, softmax, gates, nets f and g, residuals, activation) stays in float. Inference
on a CPU only.

Legend: T tokens, D inputs, E outputs of a product, H heads, d = D / H.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .weights import HeadOutputs, add_rows, project_each, take

SMALLEST_SCALE = 1e-30
"""Keeps a row of zeros from a division by zero."""

NO_REFERENCE = "int8 has no reference execution: use execution auto or packed"


class Quantized(NamedTuple):
    """``values`` int8 (T, D) and ``scale`` float32 (T, 1): the tokens are ``values · scale``."""

    values: Tensor
    scale: Tensor


def unsupported(device: torch.device) -> str | None:
    """Why int8 products cannot run here, or None when they can."""
    if device.type != "cpu":
        return f"int8 runs on a CPU only, not on {device.type}; use precision bf16 there"
    if not hasattr(torch, "_int_mm"):
        return f"torch {torch.__version__} has no product of 8-bit integers on a CPU; use float32 or bf16"
    left, right = torch.full((3, 40), 127, dtype=torch.int8), torch.full((40, 5), -127, dtype=torch.int8)
    try:
        exact = bool((torch._int_mm(left, right) == -127 * 127 * 40).all())
    except RuntimeError as error:
        return f"torch {torch.__version__} cannot multiply 8-bit integers here ({error}); use float32 or bf16"
    return None if exact else f"torch {torch.__version__} multiplies 8-bit integers wrongly here; use float32 or bf16"


def has_int8(model: nn.Module) -> bool:
    """Whether layers of ``model`` were brought to int8."""
    return any(isinstance(module, Int8Linear) for module in model.modules())


def quantize_rows(x: Tensor) -> Quantized:
    """Every row of ``x`` (T, D) in int8 with its own scale; the error is at most half a step, ``max|x| / 254``."""
    x = x.float()
    scale_T1 = _largest(x).unsqueeze(-1).div_(127).clamp_(min=SMALLEST_SCALE)
    return Quantized(_to_steps(x, scale_T1), scale_T1)


def _largest(x: Tensor) -> Tensor:
    """``max|x|`` of every row, without a copy of x."""
    return torch.maximum(x.amax(dim=-1), x.amin(dim=-1).neg_())


def _to_steps(x: Tensor, scale_T1: Tensor) -> Tensor:
    return (x / scale_T1).round_().to(torch.int8)


def product(tokens: Quantized, weight_ED: Tensor, scale_E: Tensor, bias_E: Tensor | None) -> Tensor:
    """``(x_q W_qᵀ) · s_x · s_W + b`` in float32, (T, E)."""
    return scaled(whole_product(tokens.values, weight_ED).float(), tokens.scale, scale_E, bias_E)


def whole_product(values: Tensor, weight_ED: Tensor) -> Tensor:
    """``values Wᵀ`` of int8 values in int32, exact, (T, E)."""
    if weight_ED.shape[1] == 1:  # torch 2.13 returns noise for a weight of one column
        return values.int() * weight_ED.int().t()
    return torch._int_mm(values, weight_ED.t())


def scaled(sums_TE: Tensor, scale_T1: Tensor, scale_E: Tensor, bias_E: Tensor | None) -> Tensor:
    """``sums · s_x · s_W + b``, in the memory of ``sums_TE``."""
    y_TE = sums_TE.mul_(scale_T1)
    return y_TE.mul_(scale_E) if bias_E is None else torch.addcmul(bias_E, y_TE, scale_E, out=y_TE)


class Int8Linear(nn.Module):
    """A Linear layer in int8, made from a float one; no gradients, and nothing that could be saved."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        quantized = quantize_rows(linear.weight.detach())
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.register_buffer("weight", quantized.values, persistent=False)
        self.register_buffer("scale", quantized.scale.squeeze(1), persistent=False)
        bias = None if linear.bias is None else linear.bias.detach().float()
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` (…, in_features) to float32 (…, out_features)."""
        tokens = quantize_rows(x.reshape(-1, self.in_features))
        return product(tokens, self.weight, self.scale, self.bias).unflatten(0, x.shape[:-1])


@dataclass(frozen=True, kw_only=True)
class Int8HeadWeights:
    """``HeadWeights`` in int8: a token's input is quantised once for all heads, and so are the outputs of its heads."""

    num_heads: int
    qkv: Int8Linear
    output: Int8Linear

    @property
    def head_size(self) -> int:
        """``d``, the width of a head."""
        return self.qkv.out_features // (3 * self.num_heads)

    def wants_gradients(self) -> bool:
        """Never: integers have none."""
        return False

    def prepare(self, x_TD: Tensor) -> Any:
        """The layer's input in int8."""
        return quantize_rows(x_TD)

    def project(self, tokens: Any, index_t: Tensor | None, rows: slice | Tensor) -> Tensor:
        """As ``HeadWeights.project``, in float32."""
        if index_t is not None:
            tokens = Quantized(tokens.values.index_select(0, index_t), tokens.scale.index_select(0, index_t))
        bias = None if self.qkv.bias is None else take(self.qkv.bias, rows, self.num_heads)
        weight, scale = (take(x, rows, self.num_heads) for x in (self.qkv.weight, self.qkv.scale))
        return product(tokens, weight, scale, bias)

    def project_heads(self, tokens: Any, index_P: Tensor, sizes_H: list[int]) -> Tensor:
        """As ``HeadWeights.project_heads``, in float32."""
        return project_each(self, tokens, index_P, sizes_H, 3 * self.head_size)

    def combine(self, parts: Iterable[HeadOutputs], like_TD: Tensor) -> Tensor:
        """As ``HeadWeights.combine``, in float32; holds all parts together.

        All heads of a token share one scale. With a scale of its own for each part, the rounding would change with
        the heads that happen to be computed together, and so with the batch.
        """
        parts = list(parts)
        largest_T = like_TD.new_zeros(len(like_TD), dtype=torch.float32)
        for part in parts:
            largest_t = _largest(part.heads).float()
            if part.index_t is None:
                torch.maximum(largest_T, largest_t, out=largest_T)
            else:
                largest_T.scatter_reduce_(0, part.index_t, largest_t, "amax")
        scale_T1 = largest_T.div_(127).clamp_(min=SMALLEST_SCALE).unsqueeze(-1)
        sums_TD = torch.zeros_like(like_TD, dtype=torch.float32)
        for part in parts:
            scale_t1 = scale_T1 if part.index_t is None else scale_T1.index_select(0, part.index_t)
            steps = _to_steps(part.heads, scale_t1)
            for steps_td, index_t, columns in part.split(steps):
                weight = take(self.output.weight, columns, self.num_heads, dim=1)
                add_rows(sums_TD, index_t, whole_product(steps_td, weight))
        return scaled(sums_TD, scale_T1, self.output.scale, self.output.bias)
