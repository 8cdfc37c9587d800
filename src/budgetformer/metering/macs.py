"""Multiply-adds in closed form. Unit: one multiply-add (MAC) = 2 FLOP; products of matrices are counted, nothing else.

Per input with n real tokens (D width, H heads, d = D / H, F feed-forward width, L layers, C classes), for a layer
that keeps k heads:

| part           | multiply-adds  |                                                          |
| -------------- | -------------- | -------------------------------------------------------- |
| projections    | ``3 n D d k``  | q, k, v of the kept heads                                |
| scores         | ``n² d k``     | q kᵀ                                                     |
| values         | ``n² d k``     | attention weights times v                                |
| output         | ``n d D k``    | output projection of the kept heads                      |
| budget_net     | ``D² + D``     | f; absent with ``fixed_budget`` or full attention        |
| relevance_net  | ``D H``        | g; absent with full attention                            |
| feed_forward   | ``2 n D F``    |                                                          |

and once per input ``classifier``: ``D C``, and ``D²`` more with a dense layer before it. Embeddings are a look-up and
cost 0, but for a projection to the model's width (``embeddings``, ``n E D``). A gated feed-forward costs ``3 n D F``.
A model that lost heads for good (``kept_heads``) is counted with those that it has; g costs ``D`` for each of them,
with soft selection ``D H`` where any is left. A layer with a local window w computes fewer scores than n²: for
stretches of w queries the keys that one of them can reach (``local_scores``). Pooling, softmax, gates, norms and
activations are elementwise or sums (of the order of ``n D`` and ``n² k``) and are not counted, as in the usual
counters. A model with its own nets in place of f and g costs what those cost; the formula is that of the defaults.

With first-token pooling the packed execution computes in the last layer only what the classifier reads: keys and
values ``2 n D d k``, and the query ``D d k``, scores and values ``n d k`` each (at most w + 1 of the n with a window),
output ``d D k`` and the feed-forward of one token. An input without tokens has no first token, but its row passes the
feed-forward all the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..configuration import BudgetFormerConfig


def breakdown(
    config: BudgetFormerConfig, lengths: ArrayLike, heads: ArrayLike, *, whole: bool = False
) -> dict[str, NDArray[np.int64]]:
    """Multiply-adds of the packed execution by part, each (B,), summed over layers.

    ``lengths`` (B,) or one number: real tokens, special ones included. ``heads`` (B, L), (L,) or one number: heads
    kept. ``whole``: the last layer is computed for all tokens whatever the pooling, and all scores whatever the window,
    as the reference does. Raises ValueError naming the argument when a value is impossible or the shapes do not fit.
    """
    n_B = _whole("lengths", lengths, 0, None)
    if n_B.ndim > 1:
        raise ValueError(f"lengths must be one number or one per input, got shape {list(n_B.shape)}")
    n_B = np.atleast_1d(n_B)
    k_BL = _heads_by_layer(config, heads, len(n_B))
    n_B = np.broadcast_to(n_B, (max(len(n_B), len(k_BL)),))
    width, size, layers = config.hidden_size, config.head_size, config.num_hidden_layers
    once_B = np.ones_like(n_B)
    has_budget_net = config.budgeted and config.fixed_budget is None
    short = config.skips_to_first_token and not whole
    k_B = k_BL[:, : layers - short].sum(axis=1)
    windows = [None if whole else config.window(layer) for layer in range(layers - short)]
    scores = {window: local_scores(n_B, window) for window in set(windows)}
    scores_B = sum((scores[w] * k_BL[:, layer] for layer, w in enumerate(windows)), start=0 * n_B) * size
    feed_forward = width * config.intermediate_size * (3 if config.is_gated_act else 2)
    pooler = width**2 if config.classifier_activation else 0
    parts = {
        "projections": 3 * n_B * width * size * k_B,
        "scores": scores_B,
        "values": scores_B,
        "output": n_B * size * width * k_B,
        "budget_net": once_B * (layers * (width**2 + width) if has_budget_net else 0),
        "relevance_net": once_B * (width * _scored(config) if config.budgeted else 0),
        "feed_forward": (layers - short) * n_B * feed_forward,
        "classifier": once_B * (width * config.num_labels + pooler),
    }
    if config.embedding_width != width:
        parts["embeddings"] = n_B * config.embedding_width * width
    if short:
        last_B = k_BL[:, -1] * (n_B > 0)
        window = config.window(layers - 1)
        seen_B = n_B if window is None else np.minimum(n_B, window + 1)
        parts["projections"] = parts["projections"] + (2 * n_B + 1) * width * size * last_B
        parts["scores"] = parts["scores"] + seen_B * size * last_B
        parts["values"] = parts["values"] + seen_B * size * last_B
        parts["output"] = parts["output"] + size * width * last_B
        parts["feed_forward"] = parts["feed_forward"] + feed_forward
    return parts


def local_scores(lengths: NDArray[np.int64], window: int | None) -> NDArray[np.int64]:
    """Scores per head that the packed execution computes for inputs of these lengths, (B,); ``n²`` without a window."""
    if window is None:
        return lengths**2
    step = max(window, 1)
    found = {}
    for n in np.unique(lengths).tolist():
        starts = np.arange(0, n, step)
        stops = np.minimum(starts + step, n)
        reach = np.minimum(stops + window, n) - np.maximum(starts - window, 0)
        found[n] = n * n if n <= window + 1 else int(((stops - starts) * reach).sum())
    return np.array([found[n] for n in lengths.tolist()], dtype=np.int64)


def executed_macs(
    config: BudgetFormerConfig, lengths: ArrayLike, heads: ArrayLike, *, whole: bool = False
) -> NDArray[np.int64]:
    """Multiply-adds of the packed execution, (B,); see ``breakdown`` for the arguments."""
    return np.sum(list(breakdown(config, lengths, heads, whole=whole).values()), axis=0)


def dense_macs(config: BudgetFormerConfig, lengths: ArrayLike, *, whole: bool = False) -> NDArray[np.int64]:
    """The same model with all the heads that it has, without padding, (B,): what ``executed_macs`` is compared with.

    A budgeted model is counted with its nets; the full-attention twin, ``config.dense_twin()``, has none.
    """
    return executed_macs(config, lengths, config.num_attention_heads, whole=whole)


def padded_macs(config: BudgetFormerConfig, lengths: ArrayLike, padded_length: int) -> NDArray[np.int64]:
    """What the reference execution does per input, (B,): all heads on the padded grid.

    ``padded_length`` is the number of columns of the batch; it must be at least the longest of ``lengths``.
    """
    n_B = np.atleast_1d(_whole("lengths", lengths, 0, None))
    if n_B.size and padded_length < n_B.max():
        raise ValueError(f"padded_length must be at least the longest text ({n_B.max()}), got {padded_length}")
    return dense_macs(config, np.full_like(n_B, padded_length), whole=True)


def paper_macs(config: BudgetFormerConfig, *, length: int, rows: int, budget: float | None = None) -> float:
    """The accounting of arXiv 2604.22583: the attention block only, every row at padded ``length`` N, times ``rows``.

    Without ``budget`` the Transformer, ``L · (4 N D² + 2 N² D + H N²)``; with it the BudgetFormer,
    ``L · (4 N D² + s (2 N² D + H N²) + D² + D + D H)``. Projections of unselected heads are paid in full, the
    feed-forward is left out, and heads that a model lost for good are counted too, since the paper has none such;
    ``executed_macs`` counts what this implementation does.
    """
    layers, heads, width = config.num_hidden_layers, config.num_attention_heads, config.hidden_size
    projections = 4 * length * width**2
    attention = 2 * length**2 * width + heads * length**2
    if budget is None:
        return float(rows * layers * (projections + attention))
    if not 0 <= budget <= 1:
        raise ValueError(f"budget must lie in [0, 1], got {budget}")
    nets = width**2 + width + width * heads
    return float(rows * layers * (projections + budget * attention + nets))


def _scored(config: BudgetFormerConfig) -> int:
    """Heads that the nets g of all layers score: with soft selection the dropped ones too, in a layer that has any."""
    all_heads = config.num_attention_heads
    return sum((all_heads if config.selection == "soft" else own) if own else 0 for own in config.heads_per_layer)


def _heads_by_layer(config: BudgetFormerConfig, heads: ArrayLike, batch: int) -> NDArray[np.int64]:
    """Heads kept, (B, L) or (1, L); one number means as many of them as a layer has."""
    layers = config.num_hidden_layers
    k = _whole("heads", heads, 0, config.num_attention_heads)
    if k.ndim == 0:
        return np.minimum(np.full((1, layers), k), np.array(config.heads_per_layer, dtype=np.int64))
    if k.shape[-1] != layers or k.ndim > 2 or (k.ndim == 2 and batch != 1 and len(k) not in (1, batch)):
        raise ValueError(
            f"heads must be one number or have shape [{layers}] or [{batch}, {layers}] (inputs, layers), "
            f"got {list(k.shape)}"
        )
    k_BL, own_L = np.atleast_2d(k), np.array(config.heads_per_layer, dtype=np.int64)
    if (k_BL > own_L).any():
        layer = int((k_BL > own_L).any(axis=0).argmax())
        raise ValueError(f"heads must be at most {own_L[layer]} in layer {layer}, got {k_BL[:, layer].max()}")
    return k_BL


def _whole(name: str, values: ArrayLike, low: int, high: int | None) -> NDArray[np.int64]:
    """``values`` as int64; refuses fractions and values outside the range."""
    array = np.asarray(values)
    with np.errstate(invalid="ignore"):
        whole = array.astype(np.int64)
    wrong = (whole != array) | (whole < low) | (False if high is None else whole > high)
    if np.any(wrong):
        limit = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name} must be whole numbers {limit}, got {array[wrong].flat[0]}")
    return whole
