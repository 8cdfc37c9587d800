"""Runs an exported file as a program would that knows nothing of this package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from transformers import AutoTokenizer

from budgetformer import Pair


class Runtime:
    """ONNX Runtime with what the file says about itself and the tokenizer beside it."""

    def __init__(self, file: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 4
        self.session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.said: dict[str, str] = self.session.get_modelmeta().custom_metadata_map
        self.inputs = [given.name for given in self.session.get_inputs()]
        self.tokenizer = AutoTokenizer.from_pretrained(file.parent)

    def run(self, **feed: np.ndarray) -> dict[str, np.ndarray]:
        """All outputs by name."""
        names = [output.name for output in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, feed), strict=True))

    def encode(self, items: list[str | Pair]) -> dict[str, np.ndarray]:
        """The inputs of the graph, texts cut as the metadata say."""
        texts = [i.text if isinstance(i, Pair) else i for i in items]
        pairs = [i.pair for i in items if isinstance(i, Pair)] or None
        limit = int(self.said["max_length"])
        given = self.tokenizer(texts, pairs, padding=True, truncation=True, max_length=limit, return_tensors="np")
        return {name: given[name].astype(np.int64) for name in self.inputs}

    def scores(self, items: list[str | Pair]) -> list[dict[str, float]]:
        """A probability per label."""
        logits_BC = self.run(**self.encode(items))["logits"].astype(np.float64)
        exp_BC = np.exp(logits_BC - logits_BC.max(axis=-1, keepdims=True))
        labels = json.loads(self.said["labels"])
        return [dict(zip(labels, map(float, row), strict=True)) for row in exp_BC / exp_BC.sum(axis=-1, keepdims=True)]


def read(said: dict[str, str], name: str) -> Any:
    """A value that is not plain text."""
    return json.loads(said[name])
