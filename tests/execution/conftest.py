"""Where the tests of the execution for GPUs run.

Tests named ``…[gpu-…]`` run the real kernels and are skipped without a device. The same tests named
``…[indices-on-cpu-…]`` are tests of the index arithmetic alone: the attention kernel, which no CPU has, is replaced
there by a plain loop over sequences, and the grouped product by torch's own for CPUs or by the loop of products. They
say nothing about the kernels of a GPU.
"""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.nn.attention import varlen

from budgetformer.execution import cuda


def attention_in_a_loop(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    window_size: tuple[int, int] = (-1, -1),
) -> Tensor:
    """What ``varlen_attn`` documents, one sequence after the other, with its demands on the arguments."""
    assert cu_seq_q is cu_seq_k
    assert cu_seq_q.dtype == torch.int32
    assert query.shape == key.shape == value.shape
    assert {t.stride(-1) for t in (query, key, value)} == {1}
    bounds = cu_seq_q.tolist()
    assert (bounds[0], bounds[-1]) == (0, len(query))
    out = torch.empty_like(query)
    for start, end in pairwise(bounds):
        assert 0 < end - start <= max_q == max_k
        q, k, v = (t[start:end].transpose(0, 1).float() for t in (query, key, value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        back = torch.arange(end - start)[:, None] - torch.arange(end - start)
        left, right = (math.inf if side < 0 else side for side in window_size)
        scores = scores.masked_fill(((back > left) | (-back > right)).to(scores.device), -math.inf)
        weights = torch.softmax(scores, dim=-1)
        out[start:end] = (weights @ v).transpose(0, 1).to(query.dtype)
    return out


@pytest.fixture(
    params=[
        pytest.param(("cpu", False), id="indices-on-cpu-loop"),
        pytest.param(("cpu", True), id="indices-on-cpu-grouped"),
        pytest.param(("cuda", None), id="gpu", marks=pytest.mark.gpu),
    ]
)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """Where the test runs; the top of this file says what that means."""
    name, grouped = request.param
    if name == "cpu":
        monkeypatch.setattr(varlen, "varlen_attn", attention_in_a_loop)
        monkeypatch.setattr(cuda, "_has_grouped_kernel", lambda device, dtype: grouped)
    elif reason := cuda.refusal(device=torch.device(name), dtype=torch.bfloat16, head_size=8):
        pytest.skip(f"execution cuda {reason}")
    return torch.device(name)
