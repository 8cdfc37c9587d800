"""The model card of a converted model: from which model, under which licence, and what its heads are set to."""

from __future__ import annotations

import torch

from ..configuration import BudgetFormerConfig
from ..method import heads_kept
from ..reporting.tables import markdown_escaped
from .source import Source


def conversion_card(source: Source, config: BudgetFormerConfig, *, ranked_rows: int | None = None) -> str:
    """Markdown with the Hub's metadata block. ``ranked_rows``: labelled rows that the heads were ranked on."""
    origin = source.origin
    head = ["---", "library_name: budgetformer"]
    head += ["pipeline_tag: text-classification"] if source.classifier else []
    head += [*origin.front_matter(), "tags:", "- budgetformer", "- adaptive-computation", "---", ""]
    kind = "text classifier" if source.classifier else "encoder without a classifier"
    lines = [
        f"# {markdown_escaped(origin.title)} as a BudgetFormer",
        "",
        f"A {kind} of {config.num_hidden_layers} layers of {config.num_attention_heads} heads and width "
        f"{config.hidden_size}, converted from {origin.words()} without training. Texts are cut to "
        f"{config.text_limit} tokens.",
        "",
        origin.licence_sentence(),
        "",
        "## Heads",
        "",
        *_heads(config, ranked_rows),
        "",
    ]
    if source.classifier:
        names = ", ".join(markdown_escaped(config.id2label[i]) for i in range(config.num_labels))
        lines += [f"Labels: {names}.", "", "## Use", "", *_use(config)]
    else:
        lines += ["It has no labels yet: train it before it can classify.", ""]
    return "\n".join([*head, *lines])


def heads_per_layer(config: BudgetFormerConfig) -> int:
    """Heads that every layer of a freshly converted model keeps."""
    share = torch.tensor([1.0 if config.fixed_budget is None else config.fixed_budget], dtype=torch.float64)
    return int(heads_kept(share, config.num_attention_heads, config.min_heads))


def _heads(config: BudgetFormerConfig, ranked_rows: int | None) -> list[str]:
    if ranked_rows is None:
        return [
            "Every layer keeps all heads with weight 1, so that it answers as the source within rounding. The order of "
            "the heads means nothing yet: with a smaller budget the choice is by chance until heads are ranked "
            "(`budgetformer convert --zero-shot`) or budgets are trained."
        ]
    return [
        f"The heads of every layer are ranked once for all texts, by the gradient of the loss with respect to each "
        f"head's gate on {ranked_rows:,} labelled rows, and every layer keeps the best "
        f"{heads_per_layer(config)} of {config.num_attention_heads} (a fixed budget of {config.fixed_budget:g}). "
        + ("" if config.kept_heads is None else "The others are not in this model. ")
        + "Nothing was trained, and accuracy was not measured: `budgetformer evaluate` does it on your rows."
    ]


def _use(config: BudgetFormerConfig) -> list[str]:
    return [
        "```python",
        f"from budgetformer import Classifier{', Pair' if config.pair_column else ''}",
        "",
        'clf = Classifier.from_pretrained("this folder")',
        'clf(["a text"])' if not config.pair_column else 'clf([Pair("a text", "another")])',
        "```",
        "",
    ]
