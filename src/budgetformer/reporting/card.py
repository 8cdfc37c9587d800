"""The model card, README.md of a model folder: what it is, and what was measured on what."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from huggingface_hub import CardData

from ..configuration import BudgetFormerConfig
from .intervals import wilson
from .origin import Origin
from .tables import Table, markdown_escaped

NOT_MEASURED = "not measured"


def model_card(*, config: BudgetFormerConfig, record: dict[str, Any]) -> str:
    """Markdown with the Hub's metadata block, from the configuration and the content of ``training.json``.

    ``record["source"]``, when there, is the ``Origin`` of the weights as JSON values.
    """
    origin = Origin(**record["source"]) if record.get("source") else None
    pair = "Pair(premise, hypothesis)" if config.pair_column else '"a text"'
    return "\n".join(
        [
            "---",
            "library_name: budgetformer",
            "pipeline_tag: text-classification",
            *(origin.front_matter() if origin else []),
            "tags:",
            "- budgetformer",
            "- adaptive-computation",
            *_examples(record["settings"].get("examples") or ()),
            "---",
            "",
            "# A BudgetFormer text classifier",
            "",
            *_model(config, record),
            "",
            "## Measured",
            "",
            *_measured(config, record),
            "",
            *(pruning_lines(record["pruning"]) if record.get("pruning") else ()),
            "## Training",
            "",
            *(origin.trained_from() if origin else []),
            *_training(record),
            "",
            "## Use",
            "",
            "```python",
            f"from budgetformer import Classifier{', Pair' if config.pair_column else ''}",
            "",
            'clf = Classifier.from_pretrained("this folder")',
            f"clf([{pair}]{', max_budget=0.5' if config.budgeted else ''})",
            "```",
            "",
            "## Limits",
            "",
            "The figures above hold for texts like those they were measured on. Nothing was measured about other "
            "sources, languages or times, nor about how errors fall on groups of people.",
            "The licence of the training data applies to what was learned from it"
            + (", and that of the source model to its weights." if origin else "."),
            "",
        ]
    )


def _examples(texts: Sequence[str]) -> list[str]:
    """Lines of the metadata block, as the Hub has them."""
    return CardData(widget=[{"text": text} for text in texts]).to_yaml().split("\n") if texts else []


def _model(config: BudgetFormerConfig, record: Mapping[str, Any]) -> list[str]:
    if not config.budgeted:
        kind = "Every layer computes all heads (full attention)."
    elif config.fixed_budget is not None:
        kind = f"Every layer keeps the same share of its heads, {config.fixed_budget:g}, chosen for each text."
    else:
        kind = (
            f"Every layer decides for each text how many heads it computes, and which ({config.selection} selection, "
            f"trained towards a share in [{config.s_min:g}, {config.s_max:g}])."
        )
    names = ", ".join(markdown_escaped(config.id2label[i]) for i in range(config.num_labels))
    return [
        f"{config.num_hidden_layers} layers, {config.num_attention_heads} heads, width {config.hidden_size}, "
        f"{record['parameters']:,} parameters. {kind}",
        f"Texts are cut to {config.text_limit} tokens.",
        "",
        f"{config.num_labels} classes, in order: {names}.",
    ]


def _measured(config: BudgetFormerConfig, record: Mapping[str, Any]) -> list[str]:
    measured, rows = record["validation"], record["data"]["validation_rows"]
    accuracy, heads = measured.get("accuracy"), measured.get("mean_heads")
    budget = measured.get("mean_budget")
    sure = ""
    if _known(accuracy) and rows:
        interval = wilson(accuracy, rows)
        sure = f" (95% interval {interval.low:.4f} to {interval.high:.4f})"
    cells = [
        ("Accuracy", f"{accuracy:.4f}{sure}" if _known(accuracy) else NOT_MEASURED),
        ("Macro-F1", f"{measured['macro_f1']:.4f}" if _known(measured.get("macro_f1")) else NOT_MEASURED),
    ]
    if config.budgeted:
        of = f" of {config.num_attention_heads}"
        cells += [
            ("Heads kept per layer and text", f"{heads:.2f}{of}" if _known(heads) else NOT_MEASURED),
            ("Mean budget", f"{budget:.3f}" if _known(budget) else NOT_MEASURED),
        ]
        per_layer = [measured.get(f"layer_{i}/heads") for i in range(config.num_hidden_layers)]
        if per_layer and all(map(_known, per_layer)):
            cells.append(("Heads kept by layer, from layer 0", ", ".join(f"{h:.2f}" for h in per_layer)))
    else:
        own = sorted(set(config.heads_per_layer))
        cells.append(("Heads computed per layer", f"{' or '.join(map(str, own))}, all"))
    cells.append(("Multiply-adds per text", _cost(measured)))
    table = Table(caption="", columns=("", ""), rows=cells)
    chosen = (
        "The checkpoint was chosen on the same rows, so these figures are somewhat too good for new texts; "
        "`budgetformer evaluate` measures on a file of your own."
        if record["settings"].get("keep_best", True)
        else "The last state of the training was kept, so these rows did not choose it."
    )
    return [f"On the validation part, {rows:,} rows. {chosen}", "", table.to_markdown()]


def pruning_lines(pruning: Mapping[str, Any]) -> list[str]:
    """Markdown about heads that were dropped for good, from ``training.json``."""
    before, after = pruning["heads"]
    if before == after:
        chosen = f"Each of the {before} heads was chosen by some of {pruning['rows']:,} rows, so that none was dropped."
        return ["## Heads dropped for good", "", chosen, ""]
    left = ", ".join(map(str, pruning["heads_by_layer"]))
    sizes, budget = pruning["parameters"], pruning.get("budget")
    asked = "" if budget is None else f", at the default budget of {budget:.7g},"
    lines = [
        "## Heads dropped for good",
        "",
        f"{before - after} of {before} heads were never chosen on {pruning['rows']:,} rows{asked} and are not in this "
        f"model. Left by layer, from layer 0: {left}. Parameters: {sizes[1]:,}, before {sizes[0]:,}. "
        "A budget is a share of the heads of before, of which a layer keeps at most those that it has.",
        "",
    ]
    other = pruning.get("held_out")
    if other:
        lines += [
            f"On {other['rows']:,} other rows {other['same_heads']:.2%} chose the same heads as before in all layers "
            f"and {other['same_labels']:.2%} got the same label; accuracy {other['accuracy_before']:.4f} before and "
            f"{other['accuracy_after']:.4f} after.",
            "",
        ]
    return lines


def _training(record: Mapping[str, Any]) -> list[str]:
    settings, data = record["settings"], record["data"]
    counts = data.get("classes") or {}
    by_class = ", ".join(f"{markdown_escaped(name)} {count:,}" for name, count in counts.items())
    cut = data.get("truncated")
    lines = [
        f"{data['train_rows']:,} rows{f' ({by_class})' if by_class else ''}"
        + (f", {cut:,} of them cut" if cut else "")
        + f"; {record['updates']:,} updates of {settings['batch_size']} × {settings['gradient_accumulation']} rows per "
        f"process, learning rate {settings['learning_rate']}, seed {settings['seed']}, {record['seconds']} s.",
        f"budgetformer {record['budgetformer']}, torch {record['torch']}, transformers {record['transformers']}. "
        "`training.json` holds every setting and the whole log.",
    ]
    return lines


def _cost(measured: Mapping[str, Any]) -> str:
    macs, dense = measured.get("macs", math.nan), measured.get("macs_dense", math.nan)
    if not _known(macs):
        return NOT_MEASURED
    share = f", {macs / dense:.1%} of those with all heads" if _known(dense) and dense > 0 and macs != dense else ""
    return f"{macs / 1e6:,.4g} M{share}"


def _known(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
