"""``Classifier``: texts in; label, scores, heads and cost out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch

from .answers import Pair, Prediction, Request, check_input
from .configuration import BudgetFormerConfig
from .data.encoding import Encoded, TextEncoder, collate
from .metering.macs import dense_macs, executed_macs, padded_macs
from .model_folder import check_folder, check_vocabulary, load_config, load_tokenizer
from .modeling import BudgetFormerForSequenceClassification
from .precision import Precision, apply_precision, check_precision, precision_of
from .side_by_side import side_by_side
from .windows import prepared_windows

__all__ = ["NO_TOKENS", "Classifier", "Pair", "Prediction", "Request", "pick_device"]

FEWEST, MOST, LEAST_TOKENS = 3, 8, 1024
"""A window is cut into so many batches for each worker, unless they would hold fewer tokens than that: many even out
what the workers have to do, few keep the products large."""
ENOUGH = 4096 * 384**2
"""Tokens of a batch times D² from which more are not asked for; from a few trials on two cores, without rows."""
NO_TOKENS = "the text has no tokens; the answer is the model's answer to an empty text"


class Classifier:
    """A trained model folder, ready to classify.

    The answer to a text does not depend on the batch it comes in (but for ``macs`` of the reference execution, which
    computes padding up to the longest text of a batch). Inputs are read in windows, sorted by length,
    batched by tokens, and answered in their own order.

    Example:
        >>> clf = Classifier.from_pretrained("runs/news")
        >>> clf(["Shares rose after the bank's report.", "The striker scored twice."], max_budget=0.5)
    """

    def __init__(
        self,
        *,
        model: BudgetFormerForSequenceClassification,
        tokenizer: Any,
        batch_tokens: int = 4096,
        window: int = 1024,
        ahead: bool | None = None,
        workers: int | None = None,
        precision: Precision | None = None,
    ) -> None:
        for name, value in (("batch_tokens", batch_tokens), ("window", window), ("workers", workers)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        check_vocabulary(tokenizer, model.config)
        self.model, self.tokenizer = model.eval(), tokenizer
        self.precision = precision or precision_of(model)
        self.encoder = TextEncoder(
            tokenizer=tokenizer,
            max_length=model.config.text_limit,
            uses_segments=model.config.type_vocab_size > 1,
        )
        self.batch_tokens, self.window = batch_tokens, window
        self.workers = workers or (torch.get_num_threads() if self.model.device.type == "cpu" else 1)
        self.ahead = self.model.device.type != "cpu" if ahead is None else ahead

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        device: str = "auto",
        precision: str = "float32",
        execution: str = "auto",
        max_length: int | None = None,
        **options: Any,
    ) -> Classifier:
        """Load a model folder without network.

        Args:
            device: "auto" (a GPU when there is one), "cpu", "cuda", "cuda:1", …
            precision: "float32", "bf16", "int8" (CPU) or "auto", the fastest here (``self.precision`` says which).
            execution: "auto", "reference", "packed" or "cuda".
            max_length: tokens that texts are cut to, in place of the model's own limit; at most its positions.
            options: ``batch_tokens`` (padded tokens per batch), ``window`` (inputs sorted together), ``ahead`` (read
                and tokenise the next window while this one is computed; by default on a GPU, since on a CPU both want
                the same cores), ``workers`` (batches that are computed at a time, each on its share of torch's threads;
                by default one for every thread on a CPU).

        Raises ValueError or OSError that name the folder and what is wrong with it.
        """
        folder = check_folder(folder)
        check_precision(precision)
        config = load_config(folder)
        tokenizer = load_tokenizer(folder, config)
        if max_length is not None:
            _check_length(max_length, config, tokenizer)
            config.model_max_length = tokenizer.model_max_length = max_length
        model = load_weights(folder, config)
        model.to(device=torch.device(pick_device(device)), dtype=torch.float32)
        chosen = apply_precision(model.eval(), precision, execution=execution)
        model.set_execution(execution)
        return cls(model=model, tokenizer=tokenizer, precision=chosen, **options)

    @property
    def config(self) -> BudgetFormerConfig:
        """The model's configuration."""
        return self.model.config

    @property
    def labels(self) -> list[str]:
        """Class names in the order of the model's outputs."""
        return [self.config.id2label[i] for i in range(self.config.num_labels)]

    @overload
    def __call__(self, inputs: str | Pair, **request: Any) -> Prediction: ...
    @overload
    def __call__(self, inputs: Iterable[str | Pair], **request: Any) -> list[Prediction]: ...
    def __call__(self, inputs: str | Pair | Iterable[str | Pair], **request: Any) -> Prediction | list[Prediction]:
        """Classify one input (a Prediction) or several (a list in their order).

        Keyword arguments are those of ``Request``: ``budget``, ``max_budget``, ``policy``, ``details``. A budget is
        one number for all inputs, or a list with one per input, None where the input decides itself.
        """
        if isinstance(inputs, str | Pair):
            return next(self.stream([inputs], **request))
        if isinstance(inputs, tuple) and len(inputs) == 2 and all(isinstance(x, str) for x in inputs):
            raise ValueError("a tuple of two texts could be a pair or two inputs: use Pair(a, b) or a list [a, b]")
        return list(self.stream(inputs, **request))

    def stream(self, inputs: Iterable[str | Pair], **request: Any) -> Iterator[Prediction]:
        """Classify any number of inputs in order, holding one window in memory; a wrong request is refused at once."""
        asked = Request(**request)
        if isinstance(inputs, str | Pair | bytes | Mapping | Set) or not isinstance(inputs, Iterable):
            raise ValueError(f"inputs must be texts or Pairs in an order, such as a list, got {type(inputs).__name__}")
        if asked.inputs is not None and isinstance(inputs, Sequence) and len(inputs) != asked.inputs:
            raise ValueError(_other_number(asked, str(len(inputs))))
        for name in ("budget", "max_budget", "policy"):
            if not self.config.budgeted and getattr(asked, name) is not None:
                raise ValueError(f"{name} has no effect: this model has full attention and always uses all heads")
        return self._answers(inputs, asked)

    def _answers(self, inputs: Iterable[str | Pair], asked: Request) -> Iterator[Prediction]:
        def check(item: Any, number: int) -> None:
            check_input(item, number)
            if asked.inputs is not None and number >= asked.inputs:
                raise ValueError(_other_number(asked, f"more than {asked.inputs}"))

        done = 0
        windows = prepared_windows(inputs, self.encode, size=self.window, check=check, ahead=self.ahead)
        for items, encoded in windows:
            yield from self._window(encoded, asked, start=done)
            done += len(items)
        if asked.inputs is not None and done < asked.inputs:
            raise ValueError(_other_number(asked, str(done)))

    def encode(self, items: list[str | Pair]) -> Encoded:
        """Token ids as in training. Raises ValueError when pairs and single texts are mixed."""
        texts = [i.text if isinstance(i, Pair) else i for i in items]
        pairs = [i.pair for i in items if isinstance(i, Pair)]
        if 0 < len(pairs) < len(items):
            raise ValueError("single texts and pairs cannot be mixed in one call: the model was trained on one of them")
        if items and self.config.text_columns and bool(pairs) != bool(self.config.pair_column):
            takes = "pairs: use Pair(text, other)" if self.config.pair_column else "single texts, not on pairs"
            raise ValueError(f"the model was trained on {takes}")
        return self.encoder.encode(texts, pairs or None)

    def _window(self, encoded: Encoded, asked: Request, *, start: int) -> list[Prediction]:
        count = len(encoded.input_ids)
        order = sorted(range(count), key=lambda i: -len(encoded.input_ids[i]))
        answers: list[Prediction | None] = [None] * count
        batches = list(self._batches(order, encoded))

        def work(batch: list[int]) -> list[Prediction]:
            return self.answer(encoded.select(batch), asked, rows=[start + index for index in batch])

        for batch, found in zip(batches, side_by_side(work, batches, workers=self.workers), strict=True):
            for index, answer in zip(batch, found, strict=True):
                answers[index] = answer
        assert None not in answers
        return answers  # type: ignore[return-value]

    def _batches(self, order: list[int], encoded: Encoded) -> Iterator[list[int]]:
        """Stretches of ``order``, the longest inputs first, so that no worker is left with them at the end."""
        lengths = [len(ids) for ids in encoded.input_ids]
        largest, smallest = (-(-sum(lengths) // (pieces * self.workers)) for pieces in (FEWEST, MOST))
        wanted = min(largest, max(smallest, ENOUGH // self.config.hidden_size**2))
        limit = min(self.batch_tokens, max(LEAST_TOKENS, wanted))
        batch: list[int] = []
        for index in order:
            if batch and lengths[batch[0]] * (len(batch) + 1) > limit:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    def dense_macs(self, predictions: Sequence[Prediction]) -> list[int]:
        """Multiply-adds of the same inputs with all heads, executed in the same way: what ``macs`` is compared with.

        An execution that computes all heads and padding gives what it spent.
        """
        if not self.model.execution_path.PACKED:
            return [p.macs for p in predictions]
        return dense_macs(self.config, [p.tokens for p in predictions]).tolist()

    @torch.inference_mode()
    def answer(self, part: Encoded, asked: Request, *, rows: Sequence[int] | None = None) -> list[Prediction]:
        """Answers to encoded inputs, all in one batch, in their order.

        ``rows`` are their numbers in the lists of ``asked``; by default 0, 1, ….
        """
        device = self.model.device
        rows = range(len(part.input_ids)) if rows is None else rows
        tensors = {k: v.to(device) for k, v in collate(part, pad_token_id=self.config.pad_token_id).items()}
        request = asked.forward_arguments(rows, device, default=self.config.default_budget)
        output = self.model(**tensors, **request, output_budgets=True, return_dict=True)
        scores_BC = torch.softmax(output.logits.float(), dim=-1).cpu().numpy().astype(float)
        if not np.isfinite(scores_BC).all():
            raise ValueError("the model's scores are not numbers: its weights are damaged or too large")
        scores_BC = scores_BC / scores_BC.sum(axis=-1, keepdims=True)
        lengths = [len(ids) for ids in part.input_ids]
        if output.heads is None:
            heads_BL = np.tile(np.array(self.config.heads_per_layer, dtype=int), (len(lengths), 1))
            budgets_BL: np.ndarray | None = None
        else:
            heads_BL = output.heads.cpu().numpy()
            budgets_BL = output.budgets.float().cpu().numpy()
        if self.model.execution_path.PACKED:
            macs_B = executed_macs(self.config, lengths, heads_BL)
        else:
            macs_B = padded_macs(self.config, lengths, tensors["input_ids"].shape[1])
        labels = self.labels
        answers = []
        for i, row in enumerate(scores_BC):
            best = int(row.argmax())
            answer = Prediction(
                label=labels[best],
                score=float(row[best]),
                scores={name: float(p) for name, p in zip(labels, row, strict=True)},
                heads=[int(h) for h in heads_BL[i]],
                budgets=[] if budgets_BL is None else [float(s) for s in budgets_BL[i]],
                macs=int(macs_B[i]),
                tokens=lengths[i],
                truncated=part.truncated[i],
                reason=NO_TOKENS if part.empty[i] else None,
            )
            if asked.details and output.relevance is not None:
                relevance, kept = output.relevance[i].cpu().numpy(), output.kept[i].cpu().numpy()
                answer = replace(answer, relevance=relevance, kept=kept)
            answers.append(answer)
        return answers


def load_weights(folder: Path, config: BudgetFormerConfig) -> BudgetFormerForSequenceClassification:
    """The model of a folder; ValueError names the folder and what cannot be used."""
    try:
        return BudgetFormerForSequenceClassification.from_pretrained(folder, config=config, local_files_only=True)
    except Exception as problem:  # a damaged file can fail anywhere in the reading
        named = isinstance(problem, ValueError) and str(folder) in str(problem)
        if named or isinstance(problem, MemoryError) or "allocate memory" in str(problem):
            raise
        raise ValueError(f"model folder {folder} cannot be loaded ({problem}); copy the whole folder anew") from problem


def _other_number(asked: Request, got: str) -> str:
    return f"the list of budgets is for {asked.inputs} inputs, got {got}; give one number or None for each input"


def _check_length(max_length: int, config: BudgetFormerConfig, tokenizer: Any) -> None:
    least, most = tokenizer.num_special_tokens_to_add(pair=False) + 1, config.max_position_embeddings
    if not least <= max_length <= most:
        raise ValueError(f"max_length must be between {least} and {most}, the model's positions, got {max_length}")


def pick_device(name: str | torch.device) -> str:
    """``auto`` is a GPU when there is one. Raises ValueError for a device that this machine does not have."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda", "mps"):
        raise ValueError(f"device must be auto, cpu, cuda, cuda:N or mps, got {name!r}")
    number = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}[device.type]
    if (device.index or 0) >= number:
        raise ValueError(
            f"device {str(name)!r} is not there: torch {torch.__version__} sees {number} {device.type} devices; "
            "use cpu or auto"
        )
    return str(name)
