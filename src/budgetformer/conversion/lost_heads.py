"""Heads that were dropped for good, as weights of 0: for classes whose layers all have the same number of heads."""

from __future__ import annotations

from torch import Tensor

from ..configuration import BudgetFormerConfig


def with_lost_heads(state: dict[str, Tensor], config: BudgetFormerConfig) -> dict[str, Tensor]:
    """The tensors of a model with those of its lost heads added, all 0.

    A head whose value projection is 0 gives 0 whatever it attends to, and its columns of W_O are 0 as well, so that the
    answers with all heads stay what they are.
    """
    if config.kept_heads is None:
        return state
    whole, size = dict(state), config.head_size
    prefix = next(name[: name.index("layers.0.")] for name in state if "layers.0." in name)
    output = f"{prefix}layers.{{}}.attention.output.weight"
    like = next(iter(state.values()))
    for layer, own in enumerate(config.kept_heads):
        qkv = f"{prefix}layers.{layer}.attention.qkv"
        rows = [3 * size * head + i for head in own for i in range(3 * size)]
        columns = [size * head + i for head in own for i in range(size)]
        weight = like.new_zeros(3 * config.hidden_size, config.hidden_size)
        out = like.new_zeros(config.hidden_size, config.hidden_size)
        bias = like.new_zeros(3 * config.hidden_size)
        if own:
            weight[rows], out[:, columns] = state[f"{qkv}.weight"], state[output.format(layer)]
            if config.attention_bias:
                bias[rows] = state[f"{qkv}.bias"]
        whole |= {f"{qkv}.weight": weight, output.format(layer): out}
        whole |= {f"{qkv}.bias": bias} if config.attention_bias else {}
    return whole
