"""Look at what a model does with one text: which heads ran, how relevant they were, and where they look.

Legend: L layers, H heads, N tokens, K heads per layer whose maps are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import method
from .answers import Pair, Prediction, Request
from .data.encoding import Encoded, collate
from .execution import TokenLayout, resolve_layout
from .explanation import Explanation, by_relevance
from .fewer_heads import wide
from .inference import Classifier

HEADS_SHOWN = 4
"""Heads per layer whose maps are kept when nothing is said, as in the paper's Figure 4."""


def explain(classifier: Classifier, text: str | Pair, *, heads: int | None = None, **request: Any) -> Explanation:
    """What ``classifier`` did with one text or ``Pair``.

    Args:
        heads: maps per layer, of the most relevant heads (of the first ones with full attention); at most
            ``HEADS_SHOWN`` when not given.
        request: as of ``Classifier``, such as ``budget=0.25``.

    The answer, the budgets and the heads kept are those of an ordinary call. Heads that were not kept are skipped in
    it, so they have no map there; theirs are computed here in addition, on the layer inputs of that very call, and
    nothing of them reaches the answer. It costs about one more answer with all heads; memory for all heads' maps is
    needed for one layer at a time. In int8 or bf16 the maps are those of the rounded products.

    Raises ValueError for a text that the model does not take, and for ``heads`` outside 1 to H.
    """
    if isinstance(text, list | tuple | set) or not isinstance(text, str | Pair):
        raise ValueError(f"explain takes one text or Pair, got {type(text).__name__}: {str(text)[:60]!r}")
    config = classifier.config
    count = config.num_attention_heads
    if not config.num_hidden_layers:
        raise ValueError("this model has no layers (num_hidden_layers 0), so there are no heads to explain")
    shown = min(HEADS_SHOWN, count) if heads is None else heads
    if isinstance(shown, bool) or not isinstance(shown, int) or not 1 <= shown <= count:
        raise ValueError(f"heads must be a whole number from 1 to {count}, the heads of this model, got {heads!r}")
    prediction = classifier(text, **request)
    return explain_encoded(
        classifier, text, encoded=classifier.encode([text]), prediction=prediction, heads=shown, **request
    )


@torch.inference_mode()
def explain_encoded(
    classifier: Classifier,
    text: str | Pair,
    *,
    encoded: Encoded,
    prediction: Prediction,
    heads: int,
    **request: Any,
) -> Explanation:
    """``explain`` for a text that is tokenised and answered already: ``encoded`` holds it alone."""
    config, model = classifier.config, classifier.model
    count, shown = config.num_attention_heads, heads
    batch = {k: v.to(model.device) for k, v in collate(encoded, pad_token_id=config.pad_token_id).items()}
    asked = Request(**request).forward_arguments([0], model.device, default=config.default_budget)
    output = model(**batch, **asked, output_budgets=True, output_hidden_states=True, return_dict=True)
    layers, length = config.num_hidden_layers, len(encoded.input_ids[0])
    there_LH = np.array([np.isin(range(count), config.heads_of(layer)) for layer in range(layers)])
    if output.kept is None:
        kept_LH, gates_LH = there_LH, there_LH.astype(float)
        relevance_LH = budget_L = None
    else:
        kept_LH, gates_LH, relevance_LH = (_array(output[name][0]) for name in ("kept", "gates", "relevance"))
        budget_L = _array(output.budgets[0])
    shown_LK = by_relevance(kept_LH, relevance_LH, there_LH)[:, :shown]
    entropy_LH = np.zeros((layers, count))
    maps_LKNN = np.zeros((layers, shown, length, length), dtype=np.float32)
    path = model.execution_path
    layout = TokenLayout(batch["attention_mask"].bool(), packed=path.PACKED, execution=path.NAME)
    for index, layer in enumerate(model.budgetformer.layers):
        maps_HNN = _maps_of_all_heads(layer, output.hidden_states[index], layout)
        entropy_LH[index] = _array(method.entropy(maps_HNN).mean(dim=-1))
        maps_LKNN[index] = _array(maps_HNN[torch.as_tensor(shown_LK[index].copy(), device=maps_HNN.device)])
    return Explanation(
        text=text.text if isinstance(text, Pair) else text,
        pair=text.pair if isinstance(text, Pair) else None,
        prediction=prediction,
        tokens=tuple(_name(classifier.tokenizer, i) for i in encoded.input_ids[0]),
        budget_L=budget_L,
        relevance_LH=relevance_LH,
        kept_LH=kept_LH,
        gates_LH=gates_LH,
        entropy_LH=entropy_LH,
        shown_LK=shown_LK,
        maps_LKNN=maps_LKNN,
        there_LH=there_LH,
    )


def _maps_of_all_heads(layer: Any, x_BND: Tensor, layout: TokenLayout) -> Tensor:
    """The maps (H, N, N) on a layer's input of one text, in float32, as if every head had been kept.

    Those of heads that the layer does not have are 0.
    """
    attention = layer.attention
    if not attention.heads:
        return x_BND.new_zeros(attention.num_heads, *layout.mask_BN.shape[1:] * 2, dtype=torch.float32)
    x = layout.pack(x_BND) if layout.packed else x_BND
    x = layer.attention_norm(x) if layer.pre_norm else x
    gates_BH = torch.ones(1, len(attention.heads), device=x.device)
    _, maps = resolve_layout(layout).attend(
        x, layout, attention.weights, gates_BH.bool(), gates_BH, reach=attention.reach, need_maps=True
    )
    return wide(maps, attention.heads, attention.num_heads)[0]


def _array(tensor: Tensor) -> np.ndarray:
    tensor = tensor.cpu()
    return (tensor if tensor.dtype == torch.bool else tensor.float()).numpy()


def _name(tokenizer: Any, token_id: int) -> str:
    """A token in readable letters; its name in the vocabulary where it is only a part of a letter."""
    name = str(tokenizer.convert_ids_to_tokens(token_id))
    read = str(tokenizer.decode([token_id], clean_up_tokenization_spaces=False)).strip()
    return read if read and "\ufffd" not in read else name
