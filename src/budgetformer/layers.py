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
from .execution import Reach, TokenLayout

FEED_FORWARD_ROWS = 512
"""Packed tokens that pass the feed-forward together."""


class BudgetFormerEmbeddings(nn.Module):
    """Word embedding · √D (sinusoidal positions only) + position + optional segment embedding, dropout.

    Encoders from elsewhere have a LayerNorm before the dropout and perhaps a Linear layer to the model's width after.
    """

    position_table: Tensor

    def __init__(self, config: BudgetFormerConfig) -> None:
        super().__init__()
        size = config.embedding_width
        self.offset = config.position_offset
        self.word_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        self.sinusoidal = config.position_embedding_type == "sinusoidal"
        if self.sinusoidal:
            table = sinusoids(config.max_position_embeddings, size)
            self.register_buffer("position_table", table, persistent=False)
        learned = config.position_embedding_type == "learned"
        rows = config.max_position_embeddings + config.position_offset
        self.position_embeddings = nn.Embedding(rows, size) if learned else None
        self.segment_embeddings = nn.Embedding(config.type_vocab_size, size) if config.type_vocab_size else None
        self.norm = layer_norm(config, size) if config.embedding_norm else None
        self.projection = nn.Linear(size, config.hidden_size) if size != config.hidden_size else None
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None, mask_BN: Tensor) -> Tensor:
        """Real tokens are numbered from 0, on whichever side the padding is. Returns (B, N, embedding width)."""
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
        elif self.position_embeddings is not None:
            x = x + self.position_embeddings(place_BN + self.offset)
        if self.segment_embeddings is not None:
            token_type_ids = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
            x = x + self.segment_embeddings(token_type_ids.clamp(max=self.segment_embeddings.num_embeddings - 1))
        return self.dropout(x if self.norm is None else self.norm(x))

    def project(self, x: Tensor) -> Tensor:
        """To the width of the model: apart from ``forward``, so that padding can be left out first."""
        return x if self.projection is None else self.projection(x)


def layer_norm(config: BudgetFormerConfig, width: int) -> nn.LayerNorm:
    """A LayerNorm as the configuration wants it."""
    return nn.LayerNorm(width, eps=config.layer_norm_eps, bias=config.norm_bias)


class Pooler(nn.Module):
    """``norm(act(W x + b))`` of the pooled tokens, (B, D) to (B, D): what some encoders put before the classifier."""

    def __init__(self, config: BudgetFormerConfig) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.pooler_dropout)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=config.classifier_bias)
        self.activation = ACT2FN[config.classifier_activation]
        self.norm = layer_norm(config, config.hidden_size) if config.classifier_norm else nn.Identity()

    def forward(self, pooled_BD: Tensor) -> Tensor:
        return self.norm(self.activation(self.dense(self.dropout(pooled_BD))))


class GatedActivation(nn.Module):
    """``act(a) · b`` of both halves of the last axis."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        acted, gate = x.chunk(2, dim=-1)
        return self.activation(acted) * gate


def sinusoids(length: int, width: int) -> Tensor:
    """``sin(n / 10000^(2i/D))`` and ``cos`` of it in alternation (Vaswani et al. 2017), (length, width)."""
    angle = torch.arange(length).unsqueeze(1) / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width]


class BudgetFormerLayer(GradientCheckpointingLayer):
    """Budgeted attention and feed-forward, each with residual, LayerNorm after (post) or before (pre)."""

    def __init__(self, config: BudgetFormerConfig, parts: AttentionParts | None = None, *, index: int = 0) -> None:
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
            tau_floored=config.tau_floored,
            dropout=config.attention_probs_dropout_prob,
            execution=config.execution,
            pooling=parts.pooling,
            budget_net=parts.budget_net(width) if parts.budget_net and config.fixed_budget is None else None,
            relevance_net=parts.relevance_net(width, heads) if parts.relevance_net else None,
            bias=config.attention_bias,
            heads=config.heads_of(index),
            reach=Reach(window=config.window(index), rotary_theta=config.rotary_theta(index)),
        )
        normless = config.skip_first_norm and index == 0
        self.attention_norm = nn.Identity() if normless else layer_norm(config, width)
        middle = config.intermediate_size * (2 if config.is_gated_act else 1)
        self.intermediate = nn.Linear(width, middle, bias=config.mlp_bias)
        activation = ACT2FN[config.hidden_act]
        self.activation = GatedActivation(activation) if config.is_gated_act else activation
        self.feed_forward = nn.Linear(config.intermediate_size, width, bias=config.mlp_bias)
        self.feed_forward_norm = layer_norm(config, width)
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
