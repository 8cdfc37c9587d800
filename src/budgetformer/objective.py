"""The training loss of a BudgetFormer classifier, and the statistics of a training step."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from . import method
from .configuration import IGNORED, BudgetFormerConfig


def classification_loss(
    logits: Tensor, labels: Tensor, config: BudgetFormerConfig, *, rows: Tensor | int | None = None
) -> Tensor:
    """``(1/n) Σ_i w_{y_i} · CE_smooth(logits_i, y_i)`` over rows with a label; 0 when there is none.

    n is ``rows`` (all labelled rows of an update) or the labelled rows of the batch. Smoothing spreads its share
    evenly over all classes and the class weight multiplies the row, so that a heavy class cannot pull the
    smoothed part of other rows. With one class the loss is 0. Raises ValueError for a label outside the classes.
    """
    known = labels != IGNORED
    outside = known & ((labels < 0) | (labels >= logits.shape[-1]))
    if bool(outside.any()):
        raise ValueError(f"labels must be {IGNORED} or 0..{logits.shape[-1] - 1}, got {int(labels[outside][0])}")
    per_row = F.cross_entropy(
        logits.float(), labels, reduction="none", ignore_index=IGNORED, label_smoothing=config.label_smoothing
    )
    if config.class_weights is not None:
        weights = torch.as_tensor(config.class_weights, dtype=per_row.dtype, device=per_row.device)
        per_row = per_row * weights[labels.clamp(min=0)]
    return per_row.sum() / (known.sum().clamp(min=1) if rows is None else max(rows, 1))


def distillation_loss(logits: Tensor, teacher_logits: Tensor) -> Tensor:
    """``mean_b KL(softmax(teacher_b) ‖ softmax(logits_b))`` in float32; the teacher's logits are constants."""
    teacher = teacher_logits.detach().float().log_softmax(dim=-1)
    return F.kl_div(logits.float().log_softmax(dim=-1), teacher, reduction="batchmean", log_target=True)


def regularisers(
    budget_BL: Tensor, relevance_BLH: Tensor, config: BudgetFormerConfig, progress: float
) -> dict[str, Tensor]:
    """The terms that join the task loss in training, by name.

    ``budget_loss = α(t) · mean_b Σ_l v²``, ``price_loss = λ · mean_b Σ_l s``,
    ``entropy_loss = β(t) · mean_{b,l} Σ_h p log p``. The upper end of the interval is ``method.ceiling``.
    """
    alpha = method.budget_weight(progress, alpha_base=config.alpha_base, alpha_max=config.alpha_max)
    beta = method.entropy_weight(progress, beta_max=config.beta_max, end=config.beta_end)
    s_max = method.ceiling(progress, s_max=config.s_max, s_max_start=config.s_max_start, until=config.ceiling_until)
    violation = method.budget_violation(budget_BL, s_min=config.s_min, s_max=s_max)
    return {
        "budget_loss": alpha * violation,
        "price_loss": config.budget_price * method.budget_price(budget_BL),
        "entropy_loss": beta * method.negative_entropy(relevance_BLH),
    }


class TrainingStatistics:
    """Sums over training steps since the last ``pop``; tensors stay on the device until then."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._steps = 0
        self._trained: Tensor | None = None

    def add(
        self,
        *,
        task: Tensor,
        budgets: Tensor | None = None,
        relevance: Tensor | None = None,
        kept: Tensor | None = None,
        **terms: Tensor,
    ) -> None:
        """Add one forward pass: losses, and per layer budget, heads, entropy and use of every head."""
        new = {"task_loss": task.detach().float()} | {k: v.detach().float() for k, v in terms.items()}
        if budgets is not None and relevance is not None and kept is not None:
            new["budget"] = budgets.detach().mean(dim=0)
            new["entropy"] = method.entropy(relevance.detach()).mean(dim=0)
            new["use"] = kept.float().mean(dim=0)
        self._add(new)
        self._steps += 1

    def add_answers(self, logits: Tensor, labels: Tensor) -> None:
        """Add how many rows of a forward pass have a label, and how many of these the model found."""
        found = logits.detach().argmax(dim=-1) == labels  # no class is IGNORED, so a row without a label is not found
        self._add({"found_of": torch.stack([found.sum(), (labels != IGNORED).sum()]).float()})

    def _add(self, new: dict[str, Tensor]) -> None:
        for name, value in new.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value

    def watch(self, loss: Tensor) -> None:
        """Note the loss that is trained on, which may hold more than the model's own terms, for ``not_finite``."""
        loss = loss.detach().float()
        self._trained = loss if self._trained is None else self._trained + loss

    def not_finite(self) -> Tensor | None:
        """Whether a loss since the last ``pop`` is NaN or infinite, on its device; None when there was none."""
        losses = [value for value in self._sums.values() if value.dim() == 0]
        losses += [] if self._trained is None else [self._trained]
        return ~torch.isfinite(torch.stack(losses)).all() if losses else None

    def pop(self) -> dict[str, float]:
        """Means since the last call under the names that are logged; empty when nothing was added."""
        means = {name: (value / max(self._steps, 1)).cpu() for name, value in self._sums.items()}
        self._sums, self._steps, self._trained = {}, 0, None
        logged = {name: float(value) for name, value in means.items() if value.dim() == 0}
        if "found_of" in means and means["found_of"][1] > 0:
            logged["accuracy"] = float(means["found_of"][0] / means["found_of"][1])
        if "budget" not in means:
            return logged
        heads_L = means["use"].sum(dim=-1)
        logged |= {"mean_budget": float(means["budget"].mean()), "mean_heads": float(heads_L.mean())}
        for layer in range(len(heads_L)):
            logged[f"layer_{layer}/budget"] = float(means["budget"][layer])
            logged[f"layer_{layer}/heads"] = float(heads_L[layer])
            logged[f"layer_{layer}/entropy"] = float(means["entropy"][layer])
            logged[f"layer_{layer}/effective_heads"] = float(means["entropy"][layer].exp())
            logged[f"layer_{layer}/distinct_heads"] = float((means["use"][layer] > 0).sum())
        return logged
