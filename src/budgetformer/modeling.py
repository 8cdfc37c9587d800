"""The BudgetFormer encoder and its text classifier as ``transformers`` models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.utils import logging

from . import method
from .attention import AttentionParts
from .configuration import IGNORED, BudgetFormerConfig
from .execution import TokenLayout, gradients_wanted, resolve
from .layers import BudgetFormerEmbeddings, BudgetFormerLayer, Pooler, layer_norm
from .objective import TrainingStatistics, classification_loss, distillation_loss, regularisers
from .outputs import BudgetFormerClassifierOutput, BudgetFormerModelOutput, Wanted
from .pretrained import BudgetFormerPreTrainedModel

logger = logging.get_logger(__name__)


class BudgetFormerModel(BudgetFormerPreTrainedModel):
    """The encoder: token ids to hidden states, with a head decision per input and layer."""

    optional_prefixes = ("classifier.",)

    def __init__(self, config: BudgetFormerConfig, *, parts: AttentionParts | None = None) -> None:
        super().__init__(config)
        self.embeddings = BudgetFormerEmbeddings(config)
        self.layers = nn.ModuleList(
            [BudgetFormerLayer(config, parts, index=i) for i in range(config.num_hidden_layers)]
        )
        self.final_norm = layer_norm(config, config.hidden_size) if config.norm_position == "pre" else None
        self.pooler = Pooler(config) if config.classifier_activation else None
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.embeddings.word_embeddings = value

    def encode(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        policy: method.Policy | Sequence[method.Policy] | None = None,
        need_maps: bool = False,
        pooled_only: bool = False,
        **request: Any,
    ) -> Encoded:
        """Run the layers; see ``forward`` for the arguments. Returns everything, decisions included.

        ``pooled_only``: nothing but ``pooled_BD`` will be read, so with first-token pooling on packed tokens the last
        layer computes the first tokens alone and ``states`` ends before it.
        """
        check_length(input_ids, self.config.max_position_embeddings)
        if isinstance(policy, Sequence) and len(policy) != len(self.layers):
            raise ValueError(f"policy must be one or one per layer ({len(self.layers)}), got {len(policy)}")
        mask_BN = input_ids != self.config.pad_token_id if attention_mask is None else attention_mask.bool()
        request = request if self.training else self.config.asked(request)
        gradients = self.training or gradients_wanted(self.parameters())
        x = self.embeddings(input_ids, token_type_ids, mask_BN)
        size = self.config.head_size
        path = resolve(self.config.execution, gradients=gradients, device=x.device, dtype=x.dtype, head_size=size)
        layout = TokenLayout(mask_BN, packed=path.PACKED, execution=path.NAME)
        x = self.embeddings.project(layout.pack(x) if layout.packed else x)
        own_B = None
        if policy is None and self.training and self.all_heads:
            policy = method.dense_policy()
        elif policy is None and self.config.head_choice == "random":
            policy = method.random_policy()
        elif policy is None and self.training and self.config.budgeted and self.config.budget_sampling > 0:
            sampled_B = self._sampled_budgets(len(input_ids), input_ids.device)
            policy, own_B = method.sampled_policy(sampled_B), sampled_B.isnan()
        keys_B = None if policy is None else _input_keys(input_ids, mask_BN)
        states, decisions, maps = [x], [], []
        shortcut = pooled_only and layout.packed and self.config.skips_to_first_token
        for index, layer in enumerate(self.layers):
            keys = None if keys_B is None else keys_B + index * 1_000_003
            first_only = shortcut and index == len(self.layers) - 1
            extra: dict[str, Any] = {"policy": method.policy_of(policy, index), "need_maps": need_maps}
            extra |= {"keys": keys, "first_only": first_only}
            x, decision, layer_maps = layer(x, layout, {**request, **extra})
            states.append(x)
            decisions.append(decision)
            maps.append(layer_maps)
        if self.final_norm is not None:
            x = self.final_norm(x)
            states[-1] = x
        if shortcut:
            pooled_BD = x * (layout.lengths_B > 0).unsqueeze(-1).to(x.dtype)
            states.pop()
        elif self.config.pooling == "first":
            pooled_BD = layout.first(x)
        else:
            pooled_BD = (layout.mean(x) if layout.packed else method.pooled_input(x, mask_BN)).to(x.dtype)
        pooled_BD = pooled_BD if self.pooler is None else self.pooler(pooled_BD)
        return Encoded(
            layout=layout,
            own_B=own_B,
            states=states,
            pooled_BD=pooled_BD,
            decisions=[d for d in decisions if d is not None],
            maps=tuple(maps) if need_maps else None,
        )

    def _sampled_budgets(self, rows: int, device: torch.device) -> Tensor:
        """A random budget j/H for a share of the rows, NaN for the others, (rows,)."""
        heads = self.config.num_attention_heads
        drawn_B = torch.randint(1, heads + 1, (rows,), device=device) / heads
        sampled_B = torch.rand(rows, device=device) < self.config.budget_sampling
        return torch.where(sampled_B, drawn_B, torch.nan)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        budget: float | Tensor | None = None,
        max_budget: float | Tensor | None = None,
        rescale_gates: bool = False,
        policy: method.Policy | Sequence[method.Policy] | None = None,
        output_budgets: bool = False,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> BudgetFormerModelOutput | tuple[Any, ...]:
        """Encode a batch. ``budget``, ``max_budget`` and ``policy`` (one, or one per layer) as in ``method``.

        ``attention_mask`` is 1 at real tokens; without it, these are the tokens other than ``pad_token_id``.
        """
        wanted = Wanted.of(self.config, output_attentions, output_hidden_states, return_dict, kwargs)
        encoded = self.encode(
            input_ids,
            attention_mask,
            token_type_ids,
            budget=budget,
            max_budget=max_budget,
            rescale_gates=rescale_gates,
            policy=policy,
            need_maps=wanted.maps,
        )
        output = BudgetFormerModelOutput(
            last_hidden_state=encoded.grid(encoded.states[-1]),
            pooler_output=encoded.pooled_BD,
            **encoded.extras(budgets=output_budgets, hidden_states=wanted.hidden_states),
        )
        return output if wanted.return_dict else output.to_tuple()


@dataclass(kw_only=True)
class Encoded:
    """What the encoder computed for one batch; tokens as ``layout`` says.

    ``own_B`` tells the inputs that used their own budget from those that were given a random one; None: all did.
    """

    layout: TokenLayout
    own_B: Tensor | None
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

    def __init__(self, config: BudgetFormerConfig, *, parts: AttentionParts | None = None) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.statistics = TrainingStatistics()
        self.budgetformer = BudgetFormerModel(config, parts=parts)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        teacher_logits: Tensor | None = None,
        *,
        budget: float | Tensor | None = None,
        max_budget: float | Tensor | None = None,
        rescale_gates: bool = False,
        policy: method.Policy | Sequence[method.Policy] | None = None,
        output_budgets: bool = False,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> BudgetFormerClassifierOutput | tuple[Any, ...]:
        """Classify a batch; ``attention_mask``, budgets and policy as in ``BudgetFormerModel.forward``.

        ``labels`` (B,) are class indices, -100 for rows without one. The loss in training is
        ``task + α(t)·budget + λ·price + β(t)·entropy``, in evaluation the task loss alone. With ``teacher_logits``
        (B, classes) the training loss gains ``distillation · KL(teacher ‖ model)``.
        ``num_items_in_batch``: labelled rows of the whole update when gradients are accumulated.
        """
        wanted = Wanted.of(self.config, output_attentions, output_hidden_states, return_dict, kwargs)
        encoded = self.budgetformer.encode(
            input_ids,
            attention_mask,
            token_type_ids,
            budget=budget,
            max_budget=max_budget,
            rescale_gates=rescale_gates,
            policy=policy,
            need_maps=wanted.maps,
            pooled_only=not wanted.maps and not wanted.hidden_states,
        )
        logits = self.classifier(self.dropout(encoded.pooled_BD))
        loss = None
        if labels is not None:
            loss = classification_loss(logits, labels, self.config, rows=num_items_in_batch)
            if self.training:
                self.statistics.add_answers(logits, labels)
                taught = None if teacher_logits is None else distillation_loss(logits, teacher_logits)
                loss = self._training_loss(loss, encoded, labels, num_items_in_batch, taught)
        output = BudgetFormerClassifierOutput(
            loss=loss,
            logits=logits,
            **encoded.extras(budgets=output_budgets, hidden_states=wanted.hidden_states),
        )
        return output if wanted.return_dict else output.to_tuple()

    def _training_loss(
        self, task: Tensor, encoded: Encoded, labels: Tensor, rows: Tensor | int | None, taught: Tensor | None
    ) -> Tensor:
        known = (labels != IGNORED).sum()
        share = 1.0 if rows is None else known / max(rows, 1)
        mean_task = task if rows is None else task * max(rows, 1) / known.clamp(min=1)
        if not encoded.decisions:
            self.statistics.add(task=mean_task)
            return task
        if self.progress is None:
            self.set_progress(0.0)
            logger.warning(
                "Training without a schedule: t/T stays 0, so noise, temperature and loss weights never change. "
                "Add budgetformer.BudgetSchedule() to the Trainer's callbacks, or call model.set_progress(t / T)."
            )
        budget_BL, relevance_BLH, kept_BLH = (encoded.stack(f) for f in ("budget_B", "relevance_BH", "kept_BH"))
        assert budget_BL is not None
        assert relevance_BLH is not None
        terms = regularisers(budget_BL, relevance_BLH, self.config, self.progress or 0.0)
        terms |= {} if taught is None else {"distillation_loss": self.config.distillation * taught}
        # Before the budgets begin the nets f and g get gradients of 0, which several processes need to stay in step.
        terms = {name: term * 0.0 for name, term in terms.items()} if self.all_heads else terms
        if encoded.own_B is not None and kept_BLH is not None and bool(encoded.own_B.any()):
            kept_BLH = kept_BLH[encoded.own_B]
        self.statistics.add(task=mean_task, budgets=budget_BL, relevance=relevance_BLH, kept=kept_BLH, **terms)
        return task + share * torch.stack(list(terms.values())).sum()


def check_length(input_ids: Tensor, limit: int) -> None:
    """Refuse a batch that is longer than the model's limit."""
    if input_ids.shape[1] > limit:
        raise ValueError(
            f"input_ids has {input_ids.shape[1]} tokens per text and the model takes {limit} "
            "(max_position_embeddings): cut the texts with tokenizer(..., truncation=True), "
            "in a pipeline with pipe(text, truncation=True)"
        )


def _input_keys(input_ids: Tensor, mask_BN: Tensor) -> Tensor:
    """A number per input that depends on its real tokens and their places only."""
    place_BN = mask_BN.long().cumsum(dim=1) * 2654435761 % 1_000_003
    return ((input_ids + 1) * place_BN * mask_BN).sum(dim=1)
