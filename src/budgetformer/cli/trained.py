"""What a finished training says on screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..configuration import BudgetFormerConfig
from ..curve import default_sentence
from .pruning import print_pruning
from .tables import figures_table, show

if TYPE_CHECKING:
    from ..training import TrainingResult


def report(result: TrainingResult) -> None:
    """Figures on the validation rows, how sure they are, and the next commands."""
    metrics, output = result.metrics, result.output
    rows = [
        ("accuracy", f"{metrics.get('accuracy', float('nan')):.4f}"),
        ("macro-F1", f"{metrics.get('macro_f1', float('nan')):.4f}"),
    ]
    if "mean_heads" in metrics:
        rows.append(("heads per layer and text", f"{metrics['mean_heads']:.2f}"))
        rows.append(("mean budget", f"{metrics['mean_budget']:.3f} (share of heads, before rounding down)"))
    rows.append(("time", f"{result.seconds:.1f} s"))
    show(figures_table(f"On the {result.validation_rows:,} validation rows", rows))
    if result.pruning is not None:
        print_pruning(result.pruning)
    if result.best_update is not None:
        print(f"The best state was chosen on these rows (update {result.best_update:,}): new rows may fare worse.")
    if "mean_budget" in metrics:
        config = BudgetFormerConfig.from_pretrained(output)
        if config.fixed_budget is None and metrics["mean_budget"] > config.s_max + 0.01:
            print(
                f"note: the mean budget {metrics['mean_budget']:.3f} lies above the wanted {config.s_max:g}: train "
                "longer, or with a larger --gate-learning-rate or --alpha-max"
            )
    if result.choice is not None:
        for sentence in (*result.choice.sentences(), default_sentence(result.choice)):
            print(sentence)
    print(f"\nModel folder: {output}")
    print(f"Next: budgetformer evaluate {output} --data FILE (other rows), or budgetformer predict {output} 'a text'")
