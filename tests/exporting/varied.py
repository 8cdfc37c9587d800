"""A model whose texts choose as many different heads as can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from budgetformer import Classifier
from budgetformer.attention import budgeted_layers
from budgetformer.exporting.verification import random_batches

from ..model_folders import make_folder


@torch.no_grad()
def varied_folder(folder: Path, **changes: Any) -> Path:
    """A folder whose nets f and g are brought, layer by layer, to mean 0 and a spread of 2 over random tokens."""
    sizes = {"max_position_embeddings": 80, "num_attention_heads": 8, "hidden_size": 64}
    classifier = Classifier.from_pretrained(make_folder(folder, **(sizes | changes)), device="cpu")
    batch = random_batches(classifier.config)[-1]
    for layer in budgeted_layers(classifier.model):
        for net in (layer.budget_net, layer.relevance_net):
            if net is None:
                continue
            last = net if isinstance(net, torch.nn.Linear) else net[-1]
            given: list[torch.Tensor] = []
            handle = last.register_forward_hook(lambda _, __, output, seen=given: seen.append(output))
            classifier.model(**batch)
            handle.remove()
            scale = 2 / given[0].std(dim=0)
            last.weight.mul_(scale.unsqueeze(-1))
            last.bias.copy_((last.bias - given[0].mean(dim=0)) * scale)
    classifier.model.save_pretrained(folder)
    return folder
