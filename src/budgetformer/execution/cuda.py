"""Only what was chosen is computed, on an NVIDIA GPU in half precision: grouped products and variable-length attention.

As in ``packed``, work is done on (head, input) pairs, head-major; ``pairs`` says where their rows lie.

1. The tokens of every pair are gathered, and one grouped product gives q, k and v: the rows of each head times that
   head's rows of the qkv weight.
2. ``varlen_attn`` takes every pair as one sequence of a single head.
3. A second grouped product takes the rows of each head times that head's columns of W_O, and ``embedding_bag`` sums
   the rows of each token in float32, head after head. It adds in a fixed order, so the same batch gives the same
   bits every time; adding the rows back with ``index_add`` would not, because a GPU adds in the order of arrival.

Weights are views; none is copied. When every input keeps every head, nothing is gathered: one product, one attention
of H heads per input, one product. Per layer the host waits for the device once, for the sizes (``count_pairs``).
Inference only: a head that is not computed has no gradient.

Legend: B inputs, T packed tokens, P pairs, R rows of all pairs, D width, H heads, d = D / H, E = 3d.
"""

from __future__ import annotations

from functools import cache, partial
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from . import packed
from .layout import EVERYWHERE, Reach, TokenLayout
from .pairs import PairCounts, arrange_pairs, count_pairs
from .weights import HeadWeights

NAME = "cuda"
PACKED = True

LARGEST_HEAD = 256
SEQUENCES_PER_CALL = 65_535
"""The attention kernel counts sequences in a dimension of its grid that ends here; more of them take several calls."""


def refusal(*, device: torch.device, dtype: torch.dtype, head_size: int) -> str | None:
    """Why this execution cannot run, as the end of a sentence that also says what can; None when it can run.

    ``varlen_attn`` needs float16 or bfloat16, compute capability 8.0, and a head size that is a multiple of 8 and at
    most 256.
    """
    if device.type != "cuda" or torch.version.hip is not None:
        where = device.type if torch.version.hip is None else "a ROCm device"
        return f"runs on NVIDIA GPUs, and the model is on {where}; use 'auto' or 'packed'"
    if dtype not in (torch.float16, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        return f"computes in bfloat16 or float16, and the model is {name}; use precision 'bf16', or 'auto' or 'packed'"
    if head_size % 8 or head_size > LARGEST_HEAD:
        return f"takes heads of 8, 16, … {LARGEST_HEAD} dimensions, and these have {head_size}; use 'auto' or 'packed'"
    if torch.cuda.is_available() and (capability := torch.cuda.get_device_capability(device)) < (8, 0):
        has = ".".join(map(str, capability))
        return f"needs compute capability 8.0 (Ampere) or newer, and {device} has {has}; use 'auto' or 'packed'"
    return None


def attend(
    x: Tensor,
    layout: TokenLayout,
    weights: HeadWeights,
    kept_BH: Tensor,
    gates_BH: Tensor,
    *,
    reach: Reach = EVERYWHERE,
    dropout: float = 0.0,
    need_maps: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """``Σ_h gate_bh · softmax(q_h k_hᵀ / √d) v_h W_O,h + b_O`` over the kept heads, for packed ``x`` (T, D).

    Returns the output (T, D) and, when ``need_maps``, the attention maps as ``packed.attend`` does: the attention
    kernel keeps none, so then that function computes the layer, slower and with the same result within rounding.
    Computes in the dtype of the weights whatever autocast says; each head's share of the output is rounded to it
    before the shares are summed in float32. Raises RuntimeError when gradients are wanted or ``dropout`` is above 0.
    Whether it can run at all is ``refusal``'s to say.
    """
    packed.require_inference(NAME, x, weights, gates_BH, dropout=dropout)
    with torch.autocast(x.device.type, enabled=False):
        x = x.to(weights.qkv_weight.dtype)
        if need_maps:
            return packed.attend(x, layout, weights, kept_BH, gates_BH, reach=reach, need_maps=True)
        counts = count_pairs(kept_BH, layout)
        if counts.rows == len(x) * weights.num_heads:
            return _all_heads(x, layout, weights, gates_BH, reach), None
        if counts.rows:
            total_TD = _chosen_heads(x, layout, weights, kept_BH, gates_BH, counts, reach)
        else:
            total_TD = torch.zeros_like(x)
        return total_TD if weights.output_bias is None else total_TD + weights.output_bias, None


def _chosen_heads(
    x_TD: Tensor,
    layout: TokenLayout,
    weights: HeadWeights,
    kept_BH: Tensor,
    gates_BH: Tensor,
    counts: PairCounts,
    reach: Reach,
) -> Tensor:
    """The kept heads' shares of the output, summed per token, (T, D), without the bias."""
    heads, size = weights.num_heads, weights.head_size
    rows = arrange_pairs(kept_BH, layout, counts)
    qkv_HDE = weights.qkv_weight.unflatten(0, (heads, 3 * size)).transpose(1, 2)
    output_HdD = weights.output_weight.unflatten(1, (heads, size)).permute(1, 2, 0)
    qkv_RE = _grouped_product(x_TD.index_select(0, rows.token_R), qkv_HDE, rows.ends_H, counts)
    if weights.qkv_bias is not None:
        qkv_RE += weights.qkv_bias.view(heads, 3 * size).index_select(0, rows.head_R)
    q, k, v = qkv_RE.unflatten(1, (3, 1, size)).unbind(dim=1)
    q, k = (layout.turn(x, reach, rows.token_R) for x in (q, k))
    heads_Rd = _attention(q, k, v, rows.bounds_Q, longest=max(layout.lengths), window=reach.window).flatten(1)
    gate_R = gates_BH[layout.input_T[rows.token_R], rows.head_R]
    gated_Rd = heads_Rd * gate_R.unsqueeze(-1).to(heads_Rd.dtype)
    shares_RD = _grouped_product(gated_Rd, output_HdD, rows.ends_H, counts)
    return F.embedding_bag(rows.order_R, shares_RD, rows.starts_T, mode="sum")


def _all_heads(x_TD: Tensor, layout: TokenLayout, weights: HeadWeights, gates_BH: Tensor, reach: Reach) -> Tensor:
    """Every input keeps every head: ordinary attention without padding, (T, D)."""
    if not len(x_TD):
        return x_TD
    heads, size = weights.num_heads, weights.head_size
    qkv = F.linear(x_TD, weights.qkv_weight, weights.qkv_bias).unflatten(1, (heads, 3, size))
    filled = torch.nonzero_static(layout.lengths_B > 0, size=sum(n > 0 for n in layout.lengths)).squeeze(-1)
    bounds = F.pad(layout.lengths_B[filled].cumsum(dim=0), (1, 0)).int()
    q, k, v = qkv.unbind(dim=2)
    q, k = (layout.turn(x, reach) for x in (q, k))
    heads_THd = _attention(q, k, v, bounds, longest=max(layout.lengths), window=reach.window)
    gated_THd = heads_THd * gates_BH[layout.input_T].unsqueeze(-1).to(heads_THd.dtype)
    return F.linear(gated_THd.flatten(1), weights.output_weight, weights.output_bias)


def _attention(q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, *, longest: int, window: int | None) -> Tensor:
    """``softmax(q kᵀ / √d) v`` within each sequence; ``bounds`` (int32): where sequences begin, and the last ends."""
    # Imported here: it registers operators and loads the compiler, which no CPU needs.
    from torch.nn.attention.varlen import varlen_attn

    attend_each = varlen_attn if window is None else partial(varlen_attn, window_size=(window, window))
    several = len(bounds) - 1 > SEQUENCES_PER_CALL
    cuts = [*bounds[:-1:SEQUENCES_PER_CALL].tolist(), len(q)] if several else [0, len(q)]
    parts = []
    for number, (start, end) in enumerate(pairwise(cuts)):
        first = number * SEQUENCES_PER_CALL
        own = bounds[first : first + SEQUENCES_PER_CALL + 1] - start if several else bounds
        part = attend_each(q[start:end], k[start:end], v[start:end], own, own, longest, longest)
        assert isinstance(part, Tensor)
        parts.append(part)
    return torch.cat(parts) if several else parts[0]


def _grouped_product(x_RI: Tensor, weight_HIO: Tensor, ends_H: Tensor, counts: PairCounts) -> Tensor:
    """The rows of each head times that head's matrix, (R, O)."""
    if _has_grouped_kernel(x_RI.device, x_RI.dtype):
        return F.grouped_mm(x_RI, weight_HIO, offs=ends_H)
    out_RO = x_RI.new_empty(len(x_RI), weight_HIO.shape[-1])
    start = 0
    for rows, weight_IO in zip(counts.rows_H, weight_HIO, strict=True):
        if rows:
            torch.mm(x_RI[start : start + rows], weight_IO, out=out_RO[start : start + rows])
        start += rows
    return out_RO


@cache
def _has_grouped_kernel(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether ``grouped_mm`` has a kernel here: for bfloat16 from compute capability 9.0 (Hopper) on, when it runs.

    For float16 and on older devices torch 2.13 accepts the call too, but copies the offsets to the host, waits, and
    takes one product per head. The loop above is the same without waiting: the host knows the sizes already.
    """
    if device.type != "cuda" or dtype != torch.bfloat16 or torch.cuda.get_device_capability(device) < (9, 0):
        return False
    ones = torch.ones(8, 8, device=device, dtype=dtype)
    try:
        F.grouped_mm(ones, ones.unsqueeze(0), offs=torch.full((1,), 8, device=device, dtype=torch.int32))
    except RuntimeError:  # a build of torch without this kernel, such as the one for Windows
        return False
    return True
