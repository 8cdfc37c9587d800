"""Embeddings and encoder layers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer

from . import method
from .attention import AttentionParts, BudgetedSelfAttention
from .configuration import BudgetFormerConfig
from .execution import TokenLayout

FEED_FORWARD_ROWS = 512
"""Packed tokens that pass the feed-forward together."""


class BudgetFormerEmbeddings(nn.Module):
    """Word embedding · √D (sinusoidal positions only) + position + optional segment embedding, dropout."""

    position_table: Tensor

    def __init__(self, config: BudgetFormerConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        self.sinusoidal = config.position_embedding_type == "sinusoidal"
        if self.sinusoidal:
            table = sinusoids(config.max_position_embeddings, size)
            self.register_buffer("position_table", table, persistent=False)
        else:
            self.position_embeddings = nn.Embedding(config.max_position_embeddings, size)
        self.segment_embeddings = nn.Embedding(config.type_vocab_size, size) if config.type_vocab_size else None
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None, mask_BN: Tensor) -> Tensor:
        """Real tokens are numbered from 0, on whichever side the padding is. Returns (B, N, D)."""
        place_BN = (mask_BN.long().cumsum(dim=1) - 1).clamp(min=0)
        try:
            x = self.word_embeddings(input_ids)
        except IndexError as error:
            size = self.word_embeddings.num_embeddings
            raise ValueError(
                f"input_ids must lie between 0 and {size - 1} (vocab_size {size}), got {int(input_ids.min())} to "
                f"{int(input_ids.max())}: the tokenizer is not the one of this model"
            ) from error
        if self.sinusoidal:
            x = x * math.sqrt(x.shape[-1]) + F.embedding(place_BN, self.position_table).to(x.dtype)
        else:
            x = x + self.position_embeddings(place_BN)
        if self.segment_embeddings is not None:
            token_type_ids = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
            x = x + self.segment_embeddings(token_type_ids.clamp(max=self.segment_embeddings.num_embeddings - 1))
        return self.dropout(x)


def sinusoids(length: int, width: int) -> Tensor:
    """``sin(n / 10000^(2i/D))`` and ``cos`` of it in alternation (Vaswani et al. 2017), (length, width)."""
    angle = torch.arange(length).unsqueeze(1) / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width]


class BudgetFormerLayer(GradientCheckpointingLayer):
    """Budgeted attention and feed-forward, each with residual, LayerNorm after (post) or before (pre)."""

    def __init__(self, config: BudgetFormerConfig, parts: AttentionParts | None = None) -> None:
        super().__init__()
        parts = (parts if config.budgeted else None) or AttentionParts()
        width, heads = config.hidden_size, config.num_attention_heads
        self.pre_norm = config.norm_position == "pre"
        self.attention = BudgetedSelfAttention(
            hidden_size=width,
            num_heads=heads,
            selection=config.selection,
            min_heads=config.min_heads,
            fixed_budget=config.fixed_budget,
            budgeted=config.budgeted,
            sigma_max=config.sigma_max,
            tau_max=config.tau_max,
            tau_min=config.tau_min,
            gamma=config.gamma,
            dropout=config.attention_probs_dropout_prob,
            execution=config.execution,
            pooling=parts.pooling,
            budget_net=parts.budget_net(width) if parts.budget_net and config.fixed_budget is None else None,
            relevance_net=parts.relevance_net(width, heads) if parts.relevance_net else None,
        )
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = ACT2FN[config.hidden_act]
        self.feed_forward = nn.Linear(config.intermediate_size, config.hidden_size)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self, x: Tensor, layout: TokenLayout, request: dict[str, Any]
    ) -> tuple[Tensor, method.HeadDecision | None, Tensor | None]:
        """Tokens as ``layout`` says; with ``first_only`` in the request, the first token of every input (B, D)."""
        first_only = request.get("first_only", False)
        attended = self.attention(self.attention_norm(x) if self.pre_norm else x, layout=layout, **request)
        x = layout.first(x) if first_only else x
        x = x + self.dropout(attended.hidden)
        if self.pre_norm:
            x = x + self.dropout(self._feed_forward(self.feed_forward_norm(x)))
        else:
            x = self.attention_norm(x)
            x = self.feed_forward_norm(x + self.dropout(self._feed_forward(x)))
        return x, attended.decision, attended.maps

    def _feed_forward(self, x: Tensor) -> Tensor:
        """Packed tokens (T, D) go through piece by piece, so that the wide middle stays in the processor's cache."""
        pieces = x.split(FEED_FORWARD_ROWS) if x.dim() == 2 and not x.requires_grad else (x,)
        done = [self.feed_forward(self.activation(self.intermediate(piece))) for piece in pieces]
        return done[0] if len(done) == 1 else torch.cat(done)
