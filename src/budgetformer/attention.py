"""Self-attention that decides, for every input, how many heads it is worth and which ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from . import method
from .execution import HeadWeights, Reach, TokenLayout, attend_first, gradients_wanted, resolve, resolve_layout
from .execution.int8 import Int8HeadWeights, Int8Linear
from .fewer_heads import BiasAlone, all_wide, checked_heads, no_heads, others_of, own_of, wide
from .float32_nets import in_float32


@dataclass(kw_only=True)
class AttentionOutput:
    """``hidden`` like the input; ``decision`` None with full attention; ``maps`` (B, H, N, N) on request."""

    hidden: Tensor
    decision: method.HeadDecision | None
    maps: Tensor | None


@dataclass(frozen=True, kw_only=True)
class AttentionParts:
    """Exchangeable parts of every layer of a model: how f, g and the pooling that feeds them are made.

    ``budget_net(width)`` makes a module (B, D) -> (B, 1), ``relevance_net(width, num_heads)`` one (B, D) -> (B, H),
    ``pooling(x_BND, mask_BN)`` gives (B, D). None keeps the paper's part. Pass the same parts when the model is
    loaded again: weights are saved, code is not.
    """

    budget_net: Callable[[int], nn.Module] | None = None
    relevance_net: Callable[[int, int], nn.Module] | None = None
    pooling: Callable[[Tensor, Tensor], Tensor] | None = None


def default_budget_net(width: int) -> nn.Module:
    """``f``: Linear D→D, ReLU, Linear D→1."""
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))


def default_relevance_net(width: int, num_heads: int) -> nn.Module:
    """``g``: Linear D→H."""
    return nn.Linear(width, num_heads)


class BudgetedSelfAttention(nn.Module):
    """Multi-head self-attention with a budget of heads per input; a torch module usable in any network.

    ``s = sigmoid(f(x̄))``, ``p = softmax((g(x̄) + noise) / τ)``, ``k = clamp(⌊s·H⌋, min_heads, H)`` heads are kept,
    ``out = concat_h(gate_h · Attn_h(X)) W_O + b_O`` (see ``budgetformer.method``; arXiv 2604.22583).

    Args:
        hidden_size, num_heads: D and H; D must be a multiple of H.
        selection: "straight_through" (0/1 gates) or "soft" (the paper's gates).
        min_heads: heads at least; with 0 an input may pass the layer with the output bias only.
        fixed_budget: a constant s instead of the budget net. budgeted=False: plain full attention.
        sigma_max, tau_max, tau_min, gamma, tau_floored: noise and temperature over training.
        pooling: ``(x_BND, mask_BN) -> (B, D)`` that feeds both nets; None is the mean over real tokens.
        budget_net, relevance_net: modules (B, D) -> (B, 1) and (B, D) -> (B, H) in place of f and g.
        dropout: on the attention weights. execution: how it is computed ("auto", "reference", "packed", "cuda").
        heads: the numbers of the heads that the layer has, rising; None: all. A budget stays a share of ``num_heads``.
        bias: whether the four projections have one. reach: which tokens see each other and how places are told apart.

    Training: set ``module.progress = t / T`` before each step (``BudgetSchedule`` does it in a Trainer) and add
    ``method.budget_violation`` and ``method.negative_entropy`` of the decisions to the loss. Without a value,
    training stays at t = 0; inference is always at t = T.

    Example:
        >>> layer = BudgetedSelfAttention(hidden_size=64, num_heads=8).eval()
        >>> out = layer(torch.randn(2, 10, 64), budget=0.25)
        >>> out.decision.heads_B
        tensor([2, 2])
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        selection: str = "straight_through",
        min_heads: int = 1,
        fixed_budget: float | None = None,
        budgeted: bool = True,
        sigma_max: float = 0.5,
        tau_max: float = 2.0,
        tau_min: float = 0.1,
        gamma: float = 5.0,
        tau_floored: bool = False,
        pooling: Callable[[Tensor, Tensor], Tensor] | None = None,
        budget_net: nn.Module | None = None,
        relevance_net: nn.Module | None = None,
        dropout: float = 0.0,
        execution: str = "auto",
        bias: bool = True,
        reach: Reach | None = None,
        heads: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        if hidden_size < 1 or num_heads < 1 or hidden_size % num_heads:
            raise ValueError(f"hidden_size must be a multiple of num_heads ({num_heads}), got {hidden_size}")
        if not 0 <= min_heads <= num_heads:
            raise ValueError(f"min_heads must lie between 0 and num_heads ({num_heads}), got {min_heads}")
        if selection not in method.SELECTIONS:
            raise ValueError(f"selection must be one of {', '.join(method.SELECTIONS)}, got {selection!r}")
        if fixed_budget is not None and not (0 < fixed_budget <= 1 or (fixed_budget == 0 and min_heads == 0)):
            raise ValueError(f"fixed_budget must lie in (0, 1], or be 0 with min_heads=0, got {fixed_budget}")
        if fixed_budget is not None and budget_net is not None:
            raise ValueError("give fixed_budget or budget_net, not both")
        if not budgeted and (fixed_budget, budget_net, relevance_net) != (None, None, None):
            raise ValueError("budgeted=False is full attention: it takes no fixed_budget, budget_net or relevance_net")
        for name, value in {"sigma_max": sigma_max, "gamma": gamma}.items():
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must be 0 or above, got {value}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {dropout}")
        if not (0 < tau_min <= tau_max):
            raise ValueError(f"tau_min must be above 0 and at most tau_max ({tau_max}), got {tau_min}")
        self.num_heads, self.min_heads, self.selection = num_heads, min_heads, selection
        self.fixed_budget, self.budgeted = fixed_budget, budgeted
        self.sigma_max, self.tau_max, self.tau_min, self.gamma = sigma_max, tau_max, tau_min, gamma
        self.tau_floored = tau_floored
        self.pooling, self.dropout, self.execution = pooling, dropout, execution
        self.progress: float | None = None
        self.reach = reach or Reach()
        if self.reach.rotary_theta is not None and hidden_size // num_heads % 2:
            raise ValueError(f"rotary places need heads of an even size, got {hidden_size} / {num_heads}")
        self.heads = checked_heads(heads, num_heads, min_heads)
        self.width, self.head_size = hidden_size, hidden_size // num_heads
        inner = self.head_size * len(self.heads)
        self.qkv = nn.Linear(hidden_size, 3 * inner, bias=bias) if inner else None
        self.output = nn.Linear(inner, hidden_size, bias=bias) if inner else BiasAlone(hidden_size, bias=bias)
        self.budget_net: nn.Module | None = None
        self.relevance_net: nn.Module | None = None
        # Soft gates are shares of the relevance of all heads, lost ones too; a net of one's own is left as it is.
        self.narrow_scores = selection == "straight_through" and relevance_net is None
        if budgeted:
            self.budget_net = None if fixed_budget is not None else budget_net or default_budget_net(hidden_size)
            scored = len(self.heads) if self.narrow_scores else num_heads
            if self.heads:
                self.relevance_net = relevance_net or default_relevance_net(hidden_size, scored)

    @property
    def weights(self) -> HeadWeights | Int8HeadWeights:
        """The projection weights of the layer's heads in the order that the execution paths take."""
        if isinstance(self.qkv, Int8Linear) and isinstance(self.output, Int8Linear):
            return Int8HeadWeights(num_heads=len(self.heads), qkv=self.qkv, output=self.output)
        assert isinstance(self.qkv, nn.Linear)
        assert isinstance(self.output, nn.Linear)
        return HeadWeights(
            num_heads=len(self.heads),
            qkv_weight=self.qkv.weight,
            qkv_bias=self.qkv.bias,
            output_weight=self.output.weight,
            output_bias=self.output.bias,
        )

    def temperature(self, progress: float) -> float:
        """τ at ``progress`` t/T."""
        return method.temperature(
            progress, tau_min=self.tau_min, tau_max=self.tau_max, gamma=self.gamma, floored=self.tau_floored
        )

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        layout: TokenLayout | None = None,
        budget: float | Tensor | None = None,
        max_budget: float | Tensor | None = None,
        rescale_gates: bool = False,
        policy: method.Policy | None = None,
        keys: Tensor | None = None,
        need_maps: bool = False,
        first_only: bool = False,
    ) -> AttentionOutput:
        """Attend within ``x`` (B, N, D); ``mask`` (B, N) is true or 1 at real tokens, all of them by default.

        ``budget`` replaces and ``max_budget`` caps the learned share, one number or one per input in (0, 1].
        ``layout`` is for callers that pack tokens themselves: then ``x`` is as ``layout`` says. ``first_only`` gives
        the output of every input's first token, (B, D), without maps; on packed tokens nothing else is computed.
        """
        if first_only and need_maps:
            raise ValueError("first_only gives no maps: ask for one of first_only and need_maps")
        own_layout = layout is None
        if layout is None:
            gradients = self.training or gradients_wanted([x, *self.parameters()])
            path = resolve(
                self.execution,
                gradients=gradients,
                device=x.device,
                dtype=x.dtype if self.qkv is None else self.qkv.weight.dtype,
                head_size=self.head_size,
            )
            mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask.bool()
            layout = TokenLayout(mask, packed=path.PACKED, execution=path.NAME)
            x = layout.pack(x) if layout.packed else x
        else:
            path = resolve_layout(layout)
        decision = self.decide(
            x, layout, budget=budget, max_budget=max_budget, rescale_gates=rescale_gates, policy=policy, keys=keys
        )
        if decision is None:
            # Not len(…), a Python number, which would fix the number of inputs of an exported graph.
            gates_BH = torch.ones(layout.mask_BN.shape[0], len(self.heads), device=x.device)
            kept_BH = gates_BH.bool()
        else:
            kept_BH, gates_BH = own_of(decision.kept_BH, self.heads), own_of(decision.gates_BH, self.heads)
        maps: Tensor | None = None
        if not self.heads:
            hidden = self.output(layout.first(x) if first_only else x)
            maps = x.new_zeros(*kept_BH.shape, *layout.mask_BN.shape[1:] * 2) if need_maps else None
        elif first_only and layout.packed:
            hidden = attend_first(x, layout, self.weights, kept_BH, gates_BH, reach=self.reach)
        else:
            hidden, maps = path.attend(
                x,
                layout,
                self.weights,
                kept_BH,
                gates_BH,
                reach=self.reach,
                dropout=self.dropout if self.training else 0.0,
                need_maps=need_maps,
            )
            hidden = layout.first(hidden) if first_only else hidden
        if own_layout and layout.packed and not first_only:
            hidden = layout.unpack(hidden)
        maps = None if maps is None else wide(maps, self.heads, self.num_heads)
        return AttentionOutput(hidden=hidden, decision=decision, maps=maps)

    def decide(self, x: Tensor, layout: TokenLayout, **request: Any) -> method.HeadDecision | None:
        """How many heads and which ones for every input of ``x``; None with full attention.

        Heads that the layer does not have are in its answer too: never kept, with relevance 0 and a score of -inf.
        """
        if not self.budgeted:
            asked = [name for name in ("budget", "max_budget", "policy") if request.get(name) is not None]
            if asked:
                raise ValueError(f"{asked[0]} has no effect: this is full attention (budgeted=False)")
            return None
        with torch.autocast(x.device.type, enabled=False):
            pooled_BD = self._pool(x, layout)
            scores_BH = None if self.relevance_net is None else in_float32(self.relevance_net, pooled_BD)
            if self.budget_net is None:
                budget_B = pooled_BD.new_full((pooled_BD.shape[0],), float(self.fixed_budget or 0.0))
            else:
                budget_B = method.budget(in_float32(self.budget_net, pooled_BD).squeeze(-1))
            if scores_BH is None:
                return no_heads(budget_B, self.num_heads, request)
            progress = (self.progress or 0.0) if self.training else 1.0
            noise_BH = torch.randn_like(scores_BH) if self.training and self.sigma_max > 0 else None
            scores_BH = method.noisy_scores(scores_BH, noise_BH, sigma_max=self.sigma_max, progress=progress)
            dropped_Bh = None
            if scores_BH.shape[-1] > len(self.heads):
                dropped_Bh = others_of(scores_BH, self.heads) if self.selection == "soft" else None
                scores_BH = own_of(scores_BH, self.heads)
            decision = method.decide(
                budget_B,
                scores_BH,
                selection=self.selection,
                min_heads=self.min_heads,
                tau=self.temperature(progress),
                training=self.training,
                asked=request.get("budget"),
                max_budget=request.get("max_budget"),
                rescale_gates=request.get("rescale_gates", False),
                policy=request.get("policy"),
                keys_B=request.get("keys"),
                num_heads=self.num_heads,
                dropped_Bh=dropped_Bh,
            )
            return all_wide(decision, self.heads, self.num_heads)

    def _pool(self, x: Tensor, layout: TokenLayout) -> Tensor:
        if self.pooling is not None:
            return self.pooling(layout.unpack(x) if layout.packed else x, layout.mask_BN).float()
        return layout.mean(x) if layout.packed else method.pooled_input(x, layout.mask_BN)


def budgeted_layers(module: nn.Module) -> Iterable[BudgetedSelfAttention]:
    """The budgeted attention layers inside ``module``, in order."""
    return (m for m in module.modules() if isinstance(m, BudgetedSelfAttention) and m.budgeted)
