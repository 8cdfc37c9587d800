"""Products in 8-bit integers: weights scaled per output channel, activations per token, sums in 32 bits.

``x ≈ x_q · s_x`` with ``s_x = max|x| / 127`` of its row, ``W ≈ W_q · s_W`` with one ``s_W`` per output channel, so
``x Wᵀ + b ≈ (x_q W_qᵀ) · s_x · s_W + b``, where the product in brackets is exact in int32. Nothing is calibrated.
Everything else (norms, softmax, gates, nets f and g, residuals, activation) stays in float. Inference on a CPU only.

Legend: T tokens, D inputs, E outputs of a product, H heads, d = D / H.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .layout import take

SMALLEST_SCALE = 1e-30
"""Keeps a row of zeros (and no other) from a division by zero."""


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


def quantize_rows(x: Tensor) -> Quantized:
    """Every row of ``x`` (T, D) in int8 with its own scale; the error is at most half a step, ``max|x| / 254``."""
    x = x.float()
    largest_T1 = torch.maximum(x.amax(dim=-1, keepdim=True), x.amin(dim=-1, keepdim=True).neg_())
    scale_T1 = largest_T1.div_(127).clamp_(min=SMALLEST_SCALE)
    return Quantized((x / scale_T1).round_().to(torch.int8), scale_T1)


def product(tokens: Quantized, weight_ED: Tensor) -> Tensor:
    """``(x_q W_qᵀ) · s_x`` in float32, (T, E); the factor s_W is left to ``scaled``."""
    return torch._int_mm(tokens.values, weight_ED.t()).float().mul_(tokens.scale)


def scaled(y_TE: Tensor, scale_E: Tensor, bias_E: Tensor | None) -> Tensor:
    """``y · s_W + b``, in place."""
    return y_TE.mul_(scale_E) if bias_E is None else torch.addcmul(bias_E, y_TE, scale_E, out=y_TE)


class Int8Linear(nn.Module):
    """A Linear layer in int8, made from a float one; no gradients. Buffers are not saved: the float weights are."""

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
        return scaled(product(tokens, self.weight), self.scale, self.bias).unflatten(0, x.shape[:-1])


@dataclass(frozen=True, kw_only=True)
class Int8HeadWeights:
    """``HeadWeights`` in int8: the input is quantised once for all heads, head outputs once per head and token."""

    num_heads: int
    qkv: Int8Linear
    output: Int8Linear

    def wants_gradients(self) -> bool:
        """Never: integers have none."""
        return False

    def prepare(self, x_TD: Tensor) -> Any:
        """The rows in int8: a layer's input once for all heads, the outputs of heads once per head and token."""
        return quantize_rows(x_TD)

    def project(self, tokens: Any, index_t: Tensor | None, rows: slice | Tensor) -> Tensor:
        """As ``HeadWeights.project``, in float32."""
        if index_t is not None:
            tokens = Quantized(tokens.values.index_select(0, index_t), tokens.scale.index_select(0, index_t))
        bias = None if self.qkv.bias is None else take(self.qkv.bias, rows)
        return scaled(product(tokens, take(self.qkv.weight, rows)), take(self.qkv.scale, rows), bias)

    def combine(self, heads: Any, rows: slice | None, columns: slice | Tensor) -> Tensor:
        """As ``HeadWeights.combine``, in float32; the factor s_W, the same for all heads, waits for ``finish``."""
        if rows is not None:
            heads = Quantized(heads.values[rows], heads.scale[rows])
        return product(heads, take(self.output.weight, columns, dim=1))

    def finish(self, total_TD: Tensor) -> Tensor:
        """As ``HeadWeights.finish``."""
        return scaled(total_TD, self.output.scale, self.output.bias)
