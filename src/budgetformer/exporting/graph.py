"""From the model to an ONNX file, by ``torch.onnx``; batch and length stay free.

The traced execution is ``reference``: every head of the graph is computed for every token, padding included, and gates
of 0 close what a text did not choose. No choice of the example input is kept: the choice itself is part of the graph.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..configuration import BudgetFormerConfig
from ..extras import how_to_install
from ..modeling import BudgetFormerForSequenceClassification
from ..quiet import quiet_exporters
from ..version import __version__

OPSET = 18
"""Version of the ONNX operators that the graph uses."""
LARGEST = 2_000_000_000
"""Bytes of weights that fit into one ONNX file."""


def require_onnx() -> None:
    """Raise ValueError with the command that installs the extra, when it is missing."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as problem:
        raise ValueError(
            f"the ONNX format, with the check of the file, needs more; {how_to_install('onnx')} ({problem})"
        ) from problem


def input_names(config: BudgetFormerConfig) -> list[str]:
    """The inputs of the graph, each int64 (batch, length); the last only for a model that tells segments apart."""
    return ["input_ids", "attention_mask", *(["token_type_ids"] if config.type_vocab_size > 1 else [])]


def output_names(model: BudgetFormerForSequenceClassification, *, fixed: bool) -> list[str]:
    """``logits`` (batch, classes) and, where heads are chosen for each text, ``heads`` (batch, layers): how many."""
    chooses = model.config.budgeted and not fixed and model.config.num_hidden_layers > 0
    return ["logits", *(["heads"] if chooses else [])]


def write_graph(model: BudgetFormerForSequenceClassification, file: Path, *, fixed: bool) -> None:
    """Write ``model``, or one made by ``with_fixed_heads`` (``fixed``), as an ONNX file without metadata.

    Raises ValueError for weights above 2 GB, which one file cannot hold.
    """
    twin = copy.deepcopy(model).to(device="cpu", dtype=torch.float32).eval().requires_grad_(False)
    twin.config.execution = "reference"
    size = sum(p.numel() * p.element_size() for p in twin.parameters())
    if size > LARGEST:
        raise ValueError(f"the model has {size:,} bytes of weights and one ONNX file holds {LARGEST:,}")
    names, outputs = input_names(model.config), output_names(model, fixed=fixed)
    limit = model.config.text_limit
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=limit)
    example = torch.ones(2, min(8, limit), dtype=torch.long)
    with quiet_exporters():
        torch.onnx.export(
            _Graph(twin, outputs),
            tuple(example.clone() for _ in names),  # one object for two inputs would make them one
            file,
            input_names=names,
            output_names=outputs,
            dynamic_shapes=(tuple({0: batch, 1: length} for _ in names),),
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
            custom_translation_table={torch.ops.aten.sort.stable: _sort_stable()},
        )
    _strip(file)


class _Graph(nn.Module):
    """Tensors in, tensors out, as the exporter wants them."""

    def __init__(self, model: BudgetFormerForSequenceClassification, outputs: list[str]) -> None:
        super().__init__()
        self.model, self.outputs = model, outputs

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        output: Any = self.model(*tensors, output_budgets="heads" in self.outputs)
        return tuple(output[name] for name in self.outputs)


def _strip(file: Path) -> None:
    """Take out what the exporter says about every node: lines of source code and where it lies on this machine."""
    import onnx

    model = onnx.load(str(file))
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.initializer, *graph.value_info, *graph.input, *graph.output):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    model.producer_name, model.producer_version = "budgetformer", __version__
    onnx.save(model, str(file))


def _sort_stable() -> Any:
    """``aten.sort.stable``, descending along the last axis, which ``torch.onnx`` has no translation for.

    TopK of all elements is that: the ONNX standard puts the lower index first among equal elements.
    """
    from onnxscript import opset18

    def sort_stable(x: Any, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Any:
        assert dim == -1
        assert descending
        return opset18.TopK(x, opset18.Shape(x, start=-1), axis=-1, largest=1, sorted=1)

    return sort_stable
