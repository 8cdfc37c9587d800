"""The BudgetFormer encoder and its text classifier as ``transformers`` models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import ModelOutput
from transformers.utils import logging

from . import method
from .attention import BudgetedSelfAttention
from .configuration import BudgetFormerConfig
from .execution import TokenLayout, gradients_wanted, resolve
from .objective import TrainingStatistics, classification_loss, regularisers

logger = logging.get_logger(__name__)


@dataclass
class BudgetFormerModelOutput(ModelOutput):
    """``last_hidden_state`` (B, N, D), ``pooler_output`` (B, D); on request the fields of ``BudgetFormerClassifierOutput``."""

    last_hidden_state: Tensor | None = None
    pooler_output: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    budgets: Tensor | None = None
    heads: Tensor | None = None
    relevance: Tensor | None = None
    gates: Tensor | None = None
    kept: Tensor | None = None


@dataclass
class BudgetFormerClassifierOutput(ModelOutput):
    """``loss`` (with labels) and ``logits`` (B, classes); the others on request.

    With ``output_budgets``: ``budgets`` (B, L) learned s, ``heads`` (B, L) kept, ``relevance`` (B, L, H) p,
    ``gates`` (B, L, H), ``kept`` (B, L, H) bool. With ``output_attentions``: a (B, H, N, N) map per layer.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    budgets: Tensor | None = None
    heads: Tensor | None = None
    relevance: Tensor | None = None
    gates: Tensor | None = None
    kept: Tensor | None = None


class BudgetFormerEmbeddings(nn.Module):
    """Word embedding · √D (sinusoidal positions only) + position + optional segment embedding, dropout."""

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

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None) -> Tensor:
        length = input_ids.shape[1]
        x = self.word_embeddings(input_ids)
        if self.sinusoidal:
            x = x * math.sqrt(x.shape[-1]) + self.position_table[:length].to(x.dtype)
        else:
            x = x + self.position_embeddings.weight[:length]
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

    def __init__(self, config: BudgetFormerConfig) -> None:
        super().__init__()
        self.pre_norm = config.norm_position == "pre"
        self.attention = BudgetedSelfAttention(
            hidden_size=config.hidden_size,
            num_heads=config.num_attention_heads,
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
        if self.pre_norm:
            attended = self.attention(self.attention_norm(x), layout=layout, **request)
            x = x + self.dropout(attended.hidden)
            x = x + self._feed_forward(self.feed_forward_norm(x))
        else:
            attended = self.attention(x, layout=layout, **request)
            x = self.attention_norm(x + self.dropout(attended.hidden))
            x = self.feed_forward_norm(x + self._feed_forward(x))
        return x, attended.decision, attended.maps

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.feed_forward(self.activation(self.intermediate(x))))


class BudgetFormerPreTrainedModel(PreTrainedModel):
    """Initialisation and loading shared by the encoder and the classifier."""

    config_class = BudgetFormerConfig
    base_model_prefix = "budgetformer"
    supports_gradient_checkpointing = True
    _no_split_modules = ["BudgetFormerLayer"]
    accepts_loss_kwargs = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        std = self.config.initializer_range
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=std)
            if module.padding_idx is not None:
                module.weight[module.padding_idx].zero_()
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, BudgetFormerEmbeddings) and module.sinusoidal:
            module.position_table.copy_(sinusoids(*module.position_table.shape))

    def set_progress(self, progress: float) -> None:
        """Set training progress t/T in [0, 1] for noise, temperature and loss weights."""
        for module in self.modules():
            if isinstance(module, BudgetedSelfAttention | BudgetFormerForSequenceClassification):
                module.progress = progress


class BudgetFormerModel(BudgetFormerPreTrainedModel):
    """The encoder: token ids to hidden states, with a head decision per input and layer."""

    def __init__(self, config: BudgetFormerConfig) -> None:
        super().__init__(config)
        self.embeddings = BudgetFormerEmbeddings(config)
        self.layers = nn.ModuleList([BudgetFormerLayer(config) for _ in range(config.num_hidden_layers)])
        self.final_norm = (
            nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps) if config.norm_position == "pre" else None
        )
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.embeddings.word_embeddings = value

    def encode(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        policy: method.Policy | None = None,
        need_maps: bool = False,
        **request: Any,
    ) -> Encoded:
        """Run the layers; see ``forward`` for the arguments. Returns everything, decisions included."""
        check_length(input_ids, self.config.max_position_embeddings)
        mask_BN = (
            input_ids.new_ones(input_ids.shape, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        )
        gradients = self.training or gradients_wanted(self.parameters())
        path = resolve(self.config.execution, gradients=gradients, device=input_ids.device)
        layout = TokenLayout(mask_BN, packed=path.PACKED)
        x = self.embeddings(input_ids, token_type_ids)
        x = layout.pack(x) if layout.packed else x
        keys_B = None if policy is None else _input_keys(input_ids, mask_BN)
        states, decisions, maps = [x], [], []
        for index, layer in enumerate(self.layers):
            keys = None if keys_B is None else keys_B + index * 1_000_003
            x, decision, layer_maps = layer(
                x, layout, {**request, "policy": policy, "keys": keys, "need_maps": need_maps}
            )
            states.append(x)
            decisions.append(decision)
            maps.append(layer_maps)
        if self.final_norm is not None:
            x = self.final_norm(x)
            states[-1] = x
        if self.config.pooling == "first":
            pooled_BD = layout.first(x)
        else:
            pooled_BD = (layout.mean(x) if layout.packed else method.pooled_input(x, mask_BN)).to(x.dtype)
        return Encoded(
            layout=layout,
            states=states,
            pooled_BD=pooled_BD,
            decisions=[d for d in decisions if d is not None],
            maps=tuple(maps) if need_maps else None,
        )

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        budget: float | Tensor | None = None,
        max_budget: float | Tensor | None = None,
        rescale_gates: bool = False,
        policy: method.Policy | None = None,
        output_budgets: bool = False,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> BudgetFormerModelOutput | tuple[Any, ...]:
        """Encode a batch. ``attention_mask`` is 1 at real tokens; ``budget`` / ``max_budget`` as in ``method``."""
        encoded = self.encode(
            input_ids,
            attention_mask,
            token_type_ids,
            budget=budget,
            max_budget=max_budget,
            rescale_gates=rescale_gates,
            policy=policy,
            need_maps=bool(output_attentions),
        )
        output = BudgetFormerModelOutput(
            last_hidden_state=encoded.grid(encoded.states[-1]),
            pooler_output=encoded.pooled_BD,
            **encoded.extras(budgets=output_budgets, hidden_states=bool(output_hidden_states)),
        )
        return output.to_tuple() if return_dict is False else output


@dataclass(kw_only=True)
class Encoded:
    """What the encoder computed for one batch; tokens as ``layout`` says."""

    layout: TokenLayout
    states: list[Tensor]
    pooled_BD: Tensor
    decisions: list[method.HeadDecision]
    maps: tuple[Tensor | None, ...] | None

    def grid(self, x: Tensor) -> Tensor:
        """Tokens on the padded grid, zeros at padding."""
        return self.layout.unpack(x) if self.layout.packed else torch.where(self.layout.mask_BN.unsqueeze(-1), x, 0.0)

    def stack(self, field: str) -> Tensor | None:
        """One field of all layers' decisions, layers on axis 1; None with full attention."""
        return torch.stack([getattr(d, field) for d in self.decisions], dim=1) if self.decisions else None

    def extras(self, *, budgets: bool, hidden_states: bool) -> dict[str, Any]:
        """The optional output fields that were asked for."""
        fields: dict[str, Any] = {"attentions": self.maps}
        if budgets:
            fields |= {"budgets": self.stack("budget_B"), "heads": self.stack("heads_B")}
            fields |= {name: self.stack(f"{name}_BH") for name in ("relevance", "gates", "kept")}
        if hidden_states:
            fields["hidden_states"] = tuple(self.grid(x) for x in self.states)
        return fields


class BudgetFormerForSequenceClassification(BudgetFormerPreTrainedModel):
    """The encoder with dropout and one Linear layer on the pooled output."""

    def __init__(self, config: BudgetFormerConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.progress: float | None = None
        self.statistics = TrainingStatistics()
        self.budgetformer = BudgetFormerModel(config)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        *,
        budget: float | Tensor | None = None,
        max_budget: float | Tensor | None = None,
        rescale_gates: bool = False,
        policy: method.Policy | None = None,
        output_budgets: bool = False,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> BudgetFormerClassifierOutput | tuple[Any, ...]:
        """Classify a batch.

        ``labels`` (B,) are class indices, -100 for rows without one. The loss in training is
        ``task + α(t)·budget + λ·price + β(t)·entropy``, in evaluation the task loss alone.
        ``num_items_in_batch``: labelled rows of the whole update when gradients are accumulated.
        """
        encoded = self.budgetformer.encode(
            input_ids,
            attention_mask,
            token_type_ids,
            budget=budget,
            max_budget=max_budget,
            rescale_gates=rescale_gates,
            policy=policy,
            need_maps=bool(output_attentions),
        )
        logits = self.classifier(self.dropout(encoded.pooled_BD))
        loss = None
        if labels is not None:
            loss = classification_loss(logits, labels, self.config, rows=num_items_in_batch)
            if self.training:
                loss = self._training_loss(loss, encoded, labels, num_items_in_batch)
        output = BudgetFormerClassifierOutput(
            loss=loss,
            logits=logits,
            **encoded.extras(budgets=output_budgets, hidden_states=bool(output_hidden_states)),
        )
        return output.to_tuple() if return_dict is False else output

    def _training_loss(self, task: Tensor, encoded: Encoded, labels: Tensor, rows: Tensor | int | None) -> Tensor:
        if not encoded.decisions:
            self.statistics.add(task=task, rows=len(labels))
            return task
        if self.progress is None:
            self.progress = 0.0
            logger.warning(
                "Training without a schedule: t/T stays 0, so noise, temperature and loss weights never change. "
                "Add budgetformer.training.BudgetSchedule() to the Trainer's callbacks, or call model.set_progress(t / T)."
            )
        budget_BL, relevance_BLH, kept_BLH = (encoded.stack(f) for f in ("budget_B", "relevance_BH", "kept_BH"))
        terms = regularisers(budget_BL, relevance_BLH, self.config, self.progress)
        share = 1.0 if rows is None else len(labels) / rows
        self.statistics.add(
            task=task, rows=len(labels), budgets=budget_BL, relevance=relevance_BLH, kept=kept_BLH, **terms
        )
        return task + share * sum(terms.values())


def check_length(input_ids: Tensor, limit: int) -> None:
    """Refuse a batch that is longer than the model's limit."""
    if input_ids.shape[1] > limit:
        raise ValueError(
            f"input_ids has {input_ids.shape[1]} tokens per text and the model takes {limit} "
            "(max_position_embeddings): cut the texts, e.g. tokenizer(..., truncation=True)"
        )


def _input_keys(input_ids: Tensor, mask_BN: Tensor) -> Tensor:
    """A number per input that depends on its real tokens and their places only."""
    place_N = torch.arange(1, input_ids.shape[1] + 1, device=input_ids.device) * 2654435761 % 1_000_003
    return ((input_ids + 1) * place_N * mask_BN).sum(dim=1)
