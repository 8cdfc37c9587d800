"""The model card, README.md of a model folder: what it is and what was measured."""

from __future__ import annotations

from typing import Any

from ..configuration import BudgetFormerConfig


def model_card(*, config: BudgetFormerConfig, record: dict[str, Any]) -> str:
    """Markdown with the Hub's metadata block, from the configuration and the content of ``training.json``."""
    settings, data, measured = record["settings"], record["data"], record["validation"]
    kind = (
        f"budgeted ({config.selection}, s in [{config.s_min}, {config.s_max}])" if config.budgeted else "full attention"
    )
    heads = measured.get("mean_heads", config.num_attention_heads)
    pair = "Pair(premise, hypothesis)" if config.pair_column else '"a text"'
    rows = [
        ("Accuracy", f"{measured.get('accuracy', float('nan')):.4f}"),
        ("Macro-F1", f"{measured.get('macro_f1', float('nan')):.4f}"),
        ("Heads per layer and text", f"{heads:.2f} of {config.num_attention_heads}"),
        ("Mean budget", f"{measured['mean_budget']:.3f}" if "mean_budget" in measured else "none, full attention"),
        ("Rows measured on", f"{data['validation_rows']:,} (validation part, also used to choose the checkpoint)"),
    ]
    per_layer = [
        f"layer {i}: {measured[f'layer_{i}/heads']:.2f}"
        for i in range(config.num_hidden_layers)
        if f"layer_{i}/heads" in measured
    ]
    lines = [
        "---",
        "library_name: budgetformer",
        "pipeline_tag: text-classification",
        "tags: [budgetformer, adaptive-computation]",
        "---",
        "",
        "# A BudgetFormer text classifier",
        "",
        f"{config.num_hidden_layers} layers, {config.num_attention_heads} heads, width {config.hidden_size}, "
        f"{record['parameters']:,} parameters; attention: {kind}. "
        f"Texts are cut to {config.max_position_embeddings} tokens.",
        f"Labels, in order: {', '.join(config.id2label[i] for i in range(config.num_labels))}.",
        "",
        "## Measured",
        "",
        "| | |",
        "| --- | --- |",
        *(f"| {name} | {value} |" for name, value in rows),
        "",
        *([f"Mean heads by layer: {', '.join(per_layer)}.", ""] if per_layer else []),
        "## Training",
        "",
        f"{data['train_rows']:,} rows, {record['updates']:,} updates of {settings['batch_size']} × "
        f"{settings['gradient_accumulation']} rows, learning rate {settings['learning_rate']}, "
        f"seed {settings['seed']}, "
        f"{record['seconds']} s; budgetformer {record['budgetformer']}, torch {record['torch']}, "
        f"transformers {record['transformers']}. `training.json` holds every setting and the whole log.",
        "",
        "## Use",
        "",
        "```python",
        f"from budgetformer import Classifier{', Pair' if config.pair_column else ''}",
        "",
        'clf = Classifier.from_pretrained("this folder")',
        f"clf([{pair}], max_budget=0.5)",
        "```",
        "",
        "The licence of the training data applies to what was learned from it.",
        "",
    ]
    return "\n".join(lines)
