"""What a command that trained says at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def report(output: Path, *, metrics: Mapping[str, float], seconds: float) -> None:
    """Print what was measured on the validation rows, whether the budgets came into their interval, and what next."""
    from ..configuration import BudgetFormerConfig
    from .tables import figures_table, show

    rows = [
        ("accuracy", f"{metrics.get('accuracy', float('nan')):.4f}"),
        ("macro-F1", f"{metrics.get('macro_f1', float('nan')):.4f}"),
    ]
    if "mean_heads" in metrics:
        rows.append(("heads per layer and text", f"{metrics['mean_heads']:.2f}"))
        rows.append(("mean budget", f"{metrics['mean_budget']:.3f}"))
    rows.append(("time", f"{seconds:.1f} s"))
    show(figures_table("On the validation rows", rows))
    if "mean_budget" in metrics:
        config = BudgetFormerConfig.from_pretrained(output)
        if config.fixed_budget is None and metrics["mean_budget"] > config.s_max + 0.01:
            print(
                f"\nnote: the mean budget {metrics['mean_budget']:.3f} lies above the wanted {config.s_max:g}: "
                "train longer, or with a larger --gate-learning-rate or --alpha-max"
            )
    print(f"\nModel folder: {output}")
    print(f"Next: budgetformer evaluate {output} --data FILE, or budgetformer predict {output} 'a text'")
