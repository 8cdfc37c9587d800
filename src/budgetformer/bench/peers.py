"""What a model is compared with: a BERT of the same shape, as its users run it.

The weights are random, for speed does not depend on them; so its labels mean nothing and are not compared. The
tokenizer is the model's own, so that everybody works on the same tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerBase, pipeline

from ..answers import Pair
from ..configuration import BudgetFormerConfig
from ..extras import how_to_install
from ..quiet import quiet_exporters

Answer = Callable[[Sequence[str | Pair]], Sequence[Any]]
"""Classifies inputs in order."""


def dense_bert(config: BudgetFormerConfig) -> BertForSequenceClassification:
    """A BERT classifier with the sizes of ``config``, scaled-dot-product attention, random weights, in evaluation."""
    shape = BertConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        max_position_embeddings=config.text_limit,
        num_labels=config.num_labels,
        pad_token_id=config.pad_token_id,
        attn_implementation="sdpa",
    )
    return BertForSequenceClassification(shape).eval()


def pipeline_answer(
    model: BertForSequenceClassification, tokenizer: PreTrainedTokenizerBase, *, batch_size: int
) -> Answer:
    """``transformers.pipeline`` with a batch size: batches in order of arrival, padded to their longest."""
    quiet = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        pipe = pipeline("text-classification", model=model, tokenizer=tokenizer, device=model.device)
    finally:
        transformers.logging.set_verbosity(quiet)

    def answer(inputs: Sequence[str | Pair]) -> Sequence[Any]:
        given = [{"text": i.text, "text_pair": i.pair} if isinstance(i, Pair) else i for i in inputs]
        limit = model.config.max_position_embeddings
        return pipe(given, batch_size=batch_size, truncation=True, max_length=limit)

    return answer


def batched_answer(
    model: BertForSequenceClassification, tokenizer: PreTrainedTokenizerBase, *, batch_size: int
) -> Answer:
    """A plain loop over batches in order of arrival, padded to their longest: no pipeline, nothing else to pay."""

    @torch.inference_mode()
    def answer(inputs: Sequence[str | Pair]) -> Sequence[Any]:
        limit, labels = model.config.max_position_embeddings, []
        for start in range(0, len(inputs), batch_size):
            given = _tokens(tokenizer, inputs[start : start + batch_size], limit, "pt").to(model.device)
            labels.extend(model(**given).logits.argmax(dim=-1).tolist())
        return labels

    return answer


def onnx_files(model: BertForSequenceClassification, folder: Path) -> dict[str, Path]:
    """``model`` as ONNX in float32 and, by dynamic quantisation, in int8. Raises ImportError without the extra."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError as error:
        raise ImportError(f"ONNX Runtime is not installed; {how_to_install('onnx')} ({error})") from error
    exact, small = folder / "dense.onnx", folder / "dense-int8.onnx"
    ids = torch.ones(2, 8, dtype=torch.long)
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=model.config.max_position_embeddings)
    with quiet_exporters():
        torch.onnx.export(
            _LogitsOnly(model).eval(),
            (ids, torch.ones_like(ids)),
            exact,
            input_names=["input_ids", "attention_mask"],
            output_names=["logits"],
            dynamic_shapes=({0: batch, 1: length}, {0: batch, 1: length}),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
        quantize_dynamic(exact, small, weight_type=QuantType.QInt8)
    return {"float32": exact, "int8": small}


def onnx_answer(
    file: Path, tokenizer: PreTrainedTokenizerBase, *, batch_size: int, max_length: int, sort: bool
) -> Answer:
    """ONNX Runtime on all threads of torch; ``sort`` puts inputs of like length into one batch."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def answer(inputs: Sequence[str | Pair]) -> Sequence[Any]:
        order = list(range(len(inputs)))
        if sort:
            order.sort(key=lambda i: len(_words(inputs[i])))
        answers: list[Any] = [None] * len(inputs)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            given = _tokens(tokenizer, [inputs[i] for i in rows], max_length, "np")
            feed = {name: given[name].astype(np.int64) for name in ("input_ids", "attention_mask")}
            logits = session.run(["logits"], feed)[0]
            for row, label in zip(rows, logits.argmax(axis=-1), strict=True):
                answers[row] = int(label)
        return answers

    return answer


def _tokens(tokenizer: PreTrainedTokenizerBase, some: Sequence[str | Pair], limit: int, tensors: str) -> Any:
    texts = [i.text if isinstance(i, Pair) else i for i in some]
    pairs = [i.pair for i in some if isinstance(i, Pair)] or None
    return tokenizer(texts, pairs, padding=True, truncation=True, max_length=limit, return_tensors=tensors)


class _LogitsOnly(torch.nn.Module):
    """The exporter wants tensors in and a tensor out."""

    def __init__(self, model: BertForSequenceClassification) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def _words(item: str | Pair) -> str:
    return item.text + item.pair if isinstance(item, Pair) else item
