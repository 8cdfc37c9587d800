"""FSDP: the processes of a training share its parameters, gradients and optimiser state instead of each holding all.

In everything else training stays what it is; the numbers are those of one process with the whole batch.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import Trainer

from ..modeling import BudgetFormerForSequenceClassification

DEVICES = ("cuda",)
"""Where ``accelerate`` shards."""


def check_sharding(device: str, *, pretrained: bool) -> None:
    """Raise ValueError where ``fsdp`` cannot work: one process, no GPU, or a run that ranks the heads on its way."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        raise ValueError(
            "fsdp shares a model among several processes, and this is one: start the command with torchrun "
            "--nproc-per-node N -m budgetformer, or leave fsdp out"
        )
    if torch.device(device).type not in DEVICES:
        raise ValueError(
            f"fsdp needs a GPU for each process, and this run computes on {device}: leave it out, then each process "
            "holds the whole model"
        )
    if pretrained:
        raise ValueError(
            "fsdp trains from random weights only: a run that begins with a pretrained model ranks its heads, which "
            "needs it whole; leave fsdp out"
        )


def sharding_arguments() -> dict[str, Any]:
    """For ``TrainingArguments``: each layer is gathered when it computes; checkpoints hold whole tensors."""
    return {"fsdp": True, "fsdp_config": {"state_dict_type": "FULL_STATE_DICT"}}


def own_part(value: Tensor) -> Tensor:
    """What this process holds of a tensor that may be shared."""
    return value.to_local() if isinstance(value, DTensor) else value


def keep_float32(trainer: Trainer) -> None:
    """Leave the choice of formats to autocast (``mixed_precision``), as without FSDP.

    ``accelerate`` would round all weights to bf16 for the forward pass, those of f and g too, and sum gradients in it.
    """
    if trainer.is_fsdp_enabled:
        trainer.accelerator.state.fsdp_plugin.mixed_precision_policy = None


def mixed_precision(trainer: Trainer) -> AbstractContextManager[Any]:
    """Autocast to bf16 where it was asked for and FSDP would leave it out; elsewhere the Trainer sees to it."""
    if trainer.is_fsdp_enabled and trainer.args.bf16:
        return torch.autocast(trainer.args.device.type, torch.bfloat16)
    return nullcontext()


def whole_model(trainer: Trainer) -> Any:
    """The trained model with whole tensors, to be measured and written by the first process. All processes must call.

    Without FSDP it is the trainer's own. With it the other processes get one with untrained weights.
    """
    if not trainer.is_fsdp_enabled:
        return trainer.model
    state = trainer.accelerator.get_state_dict(trainer.model)
    made = BudgetFormerForSequenceClassification(trainer.model.config)
    if state:
        made.load_state_dict(state)
        made.to(trainer.args.device)
    return made.eval()
