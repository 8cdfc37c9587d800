"""What a finished training says on screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..calling import program
from ..configuration import BudgetFormerConfig
from ..curve import default_sentence
from .pruning import print_pruning
from .tables import figures_table, millions, show

if TYPE_CHECKING:
    from ..training import TrainingResult


def _print_passed_over(result: TrainingResult) -> None:
    """The most accurate state, when it was not kept because its budget lay outside the interval."""
    config = BudgetFormerConfig.from_pretrained(result.output)
    seen = [row for row in result.history if "eval_accuracy" in row and "eval_mean_budget" in row]
    better = [row for row in seen if row["eval_accuracy"] > result.metrics.get("accuracy", 1.0)]
    if not better or not config.budgeted or config.fixed_budget is not None:  # a fixed budget is never held against it
        return
    best = max(better, key=lambda row: float(row["eval_accuracy"]))
    if not config.s_min - 0.01 <= best["eval_mean_budget"] <= config.s_max + 0.01:
        print(
            f"note: update {best['step']:,} was more accurate ({best['eval_accuracy']:.4f}), but its mean budget "
            f"{best['eval_mean_budget']:.3f} lay outside the wanted {config.s_min:g} to {config.s_max:g}"
        )


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
    if "macs" in metrics:
        macs, dense = metrics["macs"], metrics["macs_dense"]
        share = f", {macs / dense:.1%} of those with all heads" if macs < dense else ""
        rows.append(("multiply-adds per text", f"{millions(macs)}{share}"))
    rows.append(("time", f"{result.seconds:.1f} s"))
    title = f"On the {result.validation_rows:,} validation row{'s' if result.validation_rows != 1 else ''}"
    show(figures_table(title, rows))
    if result.pruning is not None:
        print_pruning(result.pruning)
    if result.best_update is not None:
        print(f"The best state was chosen on these rows (update {result.best_update:,}): new rows may fare worse.")
        _print_passed_over(result)
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
    print(f"Next: {program()} evaluate {output} --data FILE (other rows), or {program()} predict {output} 'a text'")
