"""The method of arXiv 2604.22583 as pure functions, in the paper's order.

Legend: B inputs, N tokens (with padding), D model width, H heads, L layers; ``progress`` is t/T in [0, 1]. Every choice
(pooling, budget, scores, relevance, floor, ranking) is made in float32 or wider: half precision creates no ties.

By Faye, Mbaye, Azzag, Lebbah. τ(t), α(t), β(t) and the gates are our reading (docs/method.md), straight-through ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ROUNDING_TOLERANCE = 1e-5
"""Share of one head that ``heads_kept`` forgives, so that 0.3 · 10 and 3 · 0.1 · 10 are both 3."""

SELECTIONS = ("straight_through", "soft")


def pooled_input(x_BND: Tensor, mask_BN: Tensor) -> Tensor:
    """``x̄_b = mean over real tokens of X_b`` in float32; an input without real tokens gives zeros.

    ``mask_BN`` is true at real tokens. Padding is neither added nor counted. Returns (B, D).
    """
    mask_BN1 = mask_BN.unsqueeze(-1)
    total_BD = torch.where(mask_BN1, x_BND.float(), 0.0).sum(dim=1)
    return total_BD / mask_BN1.sum(dim=1).clamp(min=1)


def budget(budget_logits_B: Tensor) -> Tensor:
    """``s_b = sigmoid(f(x̄_b))``, the share of heads that input b is worth, in (0, 1). Returns (B,)."""
    return torch.sigmoid(budget_logits_B.float())


def requested_budget(
    learned_B: Tensor, asked: float | Tensor | None = None, max_budget: float | Tensor | None = None
) -> Tensor:
    """The share that decides ``k``: ``asked`` replaces the learned one, ``max_budget`` caps it.

    Both are one number or one per input, in (0, 1]. Raises ValueError that names field and value.
    """
    share_B = learned_B if asked is None else share("budget", asked, learned_B)
    return share_B if max_budget is None else torch.minimum(share_B, share("max_budget", max_budget, learned_B))


def share(field: str, value: float | Tensor, like_B: Tensor) -> Tensor:
    """Check ``value`` as a share of heads in (0, 1] and expand it to one float64 number per input."""
    if isinstance(value, int | float) and 0 < value <= 1:
        return like_B.new_full(like_B.shape, value, dtype=torch.float64)
    share_B = torch.as_tensor(value, dtype=torch.float64, device=like_B.device)
    if share_B.dim() > 1 or (share_B.dim() == 1 and len(share_B) != len(like_B)):
        raise ValueError(
            f"{field} must be one number or one per input ({len(like_B)}), got shape {list(share_B.shape)}"
        )
    if not bool(((share_B > 0) & (share_B <= 1)).all()):
        raise ValueError(f"{field} must lie in (0, 1], got {value}")
    return share_B.expand(like_B.shape)


def noisy_scores(scores_BH: Tensor, noise_BH: Tensor | None, *, sigma_max: float, progress: float) -> Tensor:
    """``z_b = g(x̄_b) + ε · σ_max · (1 − t/T)``; ``noise_BH`` is ε ~ N(0, I) in training and None otherwise."""
    return scores_BH.float() if noise_BH is None else scores_BH.float() + noise_BH * (sigma_max * (1.0 - progress))


def temperature(progress: float, *, tau_min: float, tau_max: float, gamma: float, floored: bool = False) -> float:
    """``τ(t) = τ_min + (τ_max − τ_min) · exp(−γ t/T)``; ``floored``: ``max(τ_min, τ_max · exp(−γ t/T))``."""
    fall = math.exp(-gamma * progress)
    return max(tau_min, tau_max * fall) if floored else tau_min + (tau_max - tau_min) * fall


def relevance(scores_BH: Tensor, tau: float, dropped_Bh: Tensor | None = None) -> Tensor:
    """``p_b = softmax(z_b / τ)`` in float32; finite for every τ > 0. ``dropped_Bh``: scores of heads that only count.

    The maximum is subtracted before the division, so a τ near zero gives a hard choice and not NaN.
    """
    scores = (scores_BH if dropped_Bh is None else torch.cat([scores_BH, dropped_Bh], dim=-1)).float()
    p = torch.softmax((scores - scores.amax(-1, keepdim=True)) / max(tau, torch.finfo(torch.float32).tiny), dim=-1)
    return p if dropped_Bh is None else p[:, : scores_BH.shape[-1]]


def heads_kept(share_B: Tensor, num_heads: int, min_heads: int) -> Tensor:
    """``k_b = clamp(⌊s_b · H⌋, min_heads, H)``, the one rounding rule; int64, (B,).

    ``⌊·⌋`` forgives ``ROUNDING_TOLERANCE``: a product that misses a whole number by rounding counts as that number.
    """
    return torch.floor(share_B.double() * num_heads + ROUNDING_TOLERANCE).long().clamp(min_heads, num_heads)


def ranks(scores_BH: Tensor) -> Tensor:
    """0-based rank of every head by relevance, ties to the lower head index; int64, (B, H).

    Ranks follow z, with which p strictly rises, so that heads whose p underflows stay in order.
    """
    order_BH = torch.sort(scores_BH.float(), dim=-1, descending=True, stable=True).indices
    return torch.argsort(order_BH, dim=-1)


def selected(ranks_BH: Tensor, k_B: Tensor) -> Tensor:
    """The ``k_b`` most relevant heads of every input, exactly ``k_b``; bool, (B, H)."""
    return ranks_BH < k_B.unsqueeze(-1)


def soft_gates(share_B: Tensor, relevance_BH: Tensor, num_heads: int | None = None) -> Tensor:
    """``gate_bh = s_b · H · p_bh``, the paper's gate: all heads in training, the kept ones in inference."""
    return share_B.float().unsqueeze(-1) * (num_heads or relevance_BH.shape[-1]) * relevance_BH


def straight_through_gates(scores_BH: Tensor, share_B: Tensor, ranks_BH: Tensor, kept_BH: Tensor) -> Tensor:
    """1 on the kept heads and 0 on the others, with a gradient to both nets at every k.

    ``soft_h = sigmoid((z_h − θ) / ½) + sigmoid((s·H − rank_h − 1) / ½)`` and
    ``gate_h = hard_h + (soft_h − stop_gradient(soft_h))``; θ is the midpoint between the k-th and the (k+1)-th largest
    score (the k-th when k = H, the largest when k = 0). The first term teaches g which heads, the second teaches f how
    many. The inner brackets keep the value exactly 0 or 1 in float32. Where no gradient is wanted soft is left out;
    scores that are no finite numbers give NaN in both cases.
    """
    if not (scores_BH.requires_grad or share_B.requires_grad):
        return kept_BH.to(scores_BH.dtype) + (scores_BH - scores_BH)
    num_heads = scores_BH.shape[-1]
    k_B1 = kept_BH.sum(dim=-1, keepdim=True)
    sorted_BH = torch.sort(scores_BH, dim=-1, descending=True, stable=True).values
    last_in_B1 = sorted_BH.gather(-1, (k_B1 - 1).clamp(min=0))
    first_out_B1 = sorted_BH.gather(-1, k_B1.clamp(max=num_heads - 1))
    theta_B1 = (last_in_B1 + first_out_B1) / 2
    which_BH = torch.sigmoid((scores_BH - theta_B1) / 0.5)
    how_many_BH = torch.sigmoid((share_B.float().unsqueeze(-1) * num_heads - ranks_BH - 1) / 0.5)
    soft_BH = which_BH + how_many_BH
    return kept_BH.to(soft_BH.dtype) + (soft_BH - soft_BH.detach())


@dataclass(frozen=True, kw_only=True)
class HeadDecision:
    """What one layer decided for a batch, per input.

    ``budget_B`` is the learned s, ``share_B`` what decided k (they differ when a budget was asked for),
    ``scores_BH`` z, ``relevance_BH`` p, ``kept_BH`` the selection, ``gates_BH`` the weights of the heads.
    """

    budget_B: Tensor
    share_B: Tensor
    scores_BH: Tensor
    relevance_BH: Tensor
    kept_BH: Tensor
    gates_BH: Tensor

    @property
    def heads_B(self) -> Tensor:
        """Number of heads kept per input."""
        return self.kept_BH.sum(dim=-1)


Policy = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""A baseline: (share_B, scores_BH, keys_B) -> the same two, changed. ``keys_B`` identifies the inputs."""


def policy_of(policy: Policy | Sequence[Policy] | None, layer: int) -> Policy | None:
    """The policy of a layer, where ``policy`` is one for all layers or one for each."""
    return policy[layer] if isinstance(policy, Sequence) else policy


def decide(
    budget_B: Tensor,
    scores_BH: Tensor,
    *,
    selection: str,
    min_heads: int,
    tau: float,
    training: bool,
    asked: float | Tensor | None = None,
    max_budget: float | Tensor | None = None,
    rescale_gates: bool = False,
    policy: Policy | None = None,
    keys_B: Tensor | None = None,
    num_heads: int | None = None,
    dropped_Bh: Tensor | None = None,
) -> HeadDecision:
    """Everything between the two nets and the attention: how many heads, which ones, with what weight.

    ``scores_BH`` are the (noisy) scores z. With soft selection the gate keeps the learned s when a budget is asked for;
    ``rescale_gates`` puts the asked one there (the literal variant of the paper's Table III). A layer that lost heads
    has scores of the others; ``num_heads`` is the H of before, ``dropped_Bh`` scores that count in the softmax alone.
    """
    num_heads = num_heads or scores_BH.shape[-1]
    share_B = requested_budget(budget_B, asked, max_budget)
    if policy is not None:
        keys_B = torch.arange(share_B.shape[0], device=share_B.device) if keys_B is None else keys_B
        share_B, scores_BH = policy(share_B, scores_BH, keys_B)
    relevance_BH, ranks_BH = relevance(scores_BH, tau, dropped_Bh), ranks(scores_BH)
    kept_BH = selected(ranks_BH, heads_kept(share_B, num_heads, min_heads))
    if selection == "straight_through":
        gates_BH = straight_through_gates(scores_BH, share_B * (num_heads / scores_BH.shape[-1]), ranks_BH, kept_BH)
    elif selection == "soft":
        gates_BH = soft_gates(share_B if rescale_gates else budget_B, relevance_BH, num_heads)
        gates_BH = gates_BH if training else torch.where(kept_BH, gates_BH, 0.0)
    else:
        raise ValueError(f"selection must be one of {', '.join(SELECTIONS)}, got {selection!r}")
    return HeadDecision(
        budget_B=budget_B,
        share_B=share_B,
        scores_BH=scores_BH,
        relevance_BH=relevance_BH,
        kept_BH=kept_BH,
        gates_BH=gates_BH,
    )


def gated_output(heads_BHNd: Tensor, gates_BH: Tensor, weight_DD: Tensor, bias_D: Tensor | None) -> Tensor:
    """``concat_h(gate_bh · Attn_h(X_b)) W_O + b_O``; ``weight_DD`` is (out, in) as in ``torch.nn.Linear``."""
    gated_BHNd = heads_BHNd * gates_BH[:, :, None, None].to(heads_BHNd.dtype)
    return torch.nn.functional.linear(gated_BHNd.transpose(1, 2).flatten(2), weight_DD, bias_D)


def budget_weight(progress: float, *, alpha_base: float, alpha_max: float) -> float:
    """``α(t) = α_base + (α_max − α_base) · t/T``."""
    return alpha_base + (alpha_max - alpha_base) * progress


def ceiling(progress: float, *, s_max: float, s_max_start: float | None = None, until: float = 1.0) -> float:
    """The upper end of the interval (ours): from ``s_max_start`` at t = 0 linearly to ``s_max`` at t/T = ``until``."""
    start = s_max if s_max_start is None else s_max_start
    return s_max + (start - s_max) * max(0.0, 1.0 - progress / until)


def budget_violation(budget_BL: Tensor, *, s_min: float, s_max: float) -> Tensor:
    """``mean_b Σ_l v²`` with ``v = max(0, s_min − s) + max(0, s − s_max)``; times α(t) it is the budget loss."""
    violation_BL = (s_min - budget_BL).clamp(min=0) + (budget_BL - s_max).clamp(min=0)
    return violation_BL.square().sum(dim=-1).mean()


def budget_price(budget_BL: Tensor) -> Tensor:
    """``mean_b Σ_l s``; times λ it is what a head costs (ours; λ = 0 in the paper)."""
    return budget_BL.sum(dim=-1).mean()


def entropy_weight(progress: float, *, beta_max: float, end: float = -1.0) -> float:
    """``β(t) = β_max · (1 − (1 − end) t/T)``, by default ``1 − 2 t/T``: rewards spread first, concentration later."""
    return beta_max * (1.0 - (1.0 - end) * progress)


def entropy(relevance_BLH: Tensor) -> Tensor:
    """``−Σ_h p log p`` in nats per input and layer; 0 · log 0 is 0, with a finite gradient."""
    return -(relevance_BLH * relevance_BLH.clamp(min=torch.finfo(relevance_BLH.dtype).tiny).log()).sum(dim=-1)


def negative_entropy(relevance_BLH: Tensor) -> Tensor:
    """``mean_{b,l} Σ_h p log p``; times β(t) it is the entropy loss."""
    return -entropy(relevance_BLH).mean()


def dense_policy() -> Policy:
    """All heads for every input; with straight-through gates the gradients of f and g are 0."""
    return lambda share_B, scores_BH, keys_B: (torch.ones_like(share_B), scores_BH.detach() + 0.0 * scores_BH)


def fixed_policy(budget: float) -> Policy:
    """The same budget for every input, learned ranking."""
    return lambda share_B, scores_BH, keys_B: (share("budget", budget, share_B), scores_BH)


def sampled_policy(asked_B: Tensor) -> Policy:
    """Training of one checkpoint for every budget: where ``asked_B`` is not NaN it replaces the learned share."""
    return lambda share_B, scores_BH, keys_B: (torch.where(asked_B.isnan(), share_B, asked_B), scores_BH)


def random_policy(seed: int = 0) -> Policy:
    """The input's own relevance, randomly permuted among the heads: same budget, same gate sizes, other heads.

    The permutation depends on the seed and the input's key only, so it does not change with the batch.
    """

    def apply(share_B: Tensor, scores_BH: Tensor, keys_B: Tensor) -> tuple[Tensor, Tensor]:
        head_H = torch.arange(scores_BH.shape[-1], device=scores_BH.device)
        noise_BH = _mix(_mix(keys_B.unsqueeze(-1) + _mix(torch.full_like(keys_B[:1], seed + 1))) + head_H)
        return share_B, scores_BH.gather(-1, noise_BH.argsort(dim=-1, stable=True))

    return apply


def static_policy(ranking: list[int]) -> Policy:
    """One ranking for all inputs: ``ranking[0]`` is the head that every input uses first."""

    def apply(share_B: Tensor, scores_BH: Tensor, keys_B: Tensor) -> tuple[Tensor, Tensor]:
        order_H = torch.as_tensor(ranking, device=scores_BH.device)
        if sorted(ranking) != list(range(scores_BH.shape[-1])):
            raise ValueError(f"ranking must name each of the {scores_BH.shape[-1]} heads once, got {ranking}")
        descending_BH = torch.sort(scores_BH, dim=-1, descending=True, stable=True).values
        return share_B, torch.empty_like(scores_BH).scatter(-1, order_H.expand_as(scores_BH), descending_BH)

    return apply


def _mix(x: Tensor) -> Tensor:
    """A 31-bit integer hash (multiply and shift), so that a policy needs no random state."""
    x = (x ^ (x >> 15)) * 0x2C1B3C6D & 0x7FFFFFFF
    x = (x ^ (x >> 12)) * 0x297A2D39 & 0x7FFFFFFF
    return x ^ (x >> 15)
