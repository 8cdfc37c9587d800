"""Initialisation, complete loading and training progress, shared by the models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from .attention import BudgetedSelfAttention
from .configuration import BudgetFormerConfig
from .execution import resolve
from .execution.int8 import NO_REFERENCE, has_int8
from .head_pruning import heads_left, keep_heads
from .layers import BudgetFormerEmbeddings, sinusoids

FLOATS = ("F64", "F32", "F16", "BF16")


class BudgetFormerPreTrainedModel(PreTrainedModel):
    """Initialisation and loading shared by the encoder and the classifier."""

    config_class = BudgetFormerConfig
    base_model_prefix = "budgetformer"
    supports_gradient_checkpointing = True
    _no_split_modules = ["BudgetFormerLayer"]
    accepts_loss_kwargs = True
    optional_prefixes: tuple[str, ...] = ()
    progress: float | None = None
    all_heads = False

    def __init__(self, config: BudgetFormerConfig, *args: Any, **kwargs: Any) -> None:
        config.check()  # fields may have been set since it was made
        super().__init__(config, *args, **kwargs)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        std = self.config.initializer_range
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            # Scaled by √D in the model, so that words weigh as much as the sinusoids from the start.
            sinusoidal = self.config.position_embedding_type == "sinusoidal"
            nn.init.normal_(module.weight, std=self.config.embedding_width**-0.5 if sinusoidal else std)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                module.weight[module.padding_idx].zero_()
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, BudgetFormerEmbeddings) and module.sinusoidal:
            module.position_table.copy_(sinusoids(len(module.position_table), self.config.embedding_width))

    @classmethod
    def from_pretrained(cls, folder: str | Path, *args: Any, **kwargs: Any) -> Any:
        """Load completely or not at all, and from safetensors only; otherwise as in ``transformers``.

        Raises ValueError that names missing, unknown and wrongly shaped tensors, and those with NaN or infinity.
        """
        if kwargs.pop("use_safetensors", True) is not True:
            raise ValueError(f"{folder}: only safetensors are loaded, because other formats can run code")
        if kwargs.pop("ignore_mismatched_sizes", False):
            raise ValueError(
                f"{folder}: ignore_mismatched_sizes would leave tensors random; to train other classes, load "
                "BudgetFormerModel and put its state into a new classifier"
            )
        check_dtypes(folder)
        wants_info = kwargs.pop("output_loading_info", False)
        model, info = super().from_pretrained(
            folder, *args, use_safetensors=True, ignore_mismatched_sizes=True, output_loading_info=True, **kwargs
        )
        check_loaded(folder, info, optional=cls.optional_prefixes)
        check_finite(folder, model)
        return (model, info) if wants_info else model

    def save_pretrained(
        self,
        save_directory: str | Path,
        is_main_process: bool = True,
        state_dict: dict[str, Tensor] | None = None,
        **kwargs: Any,
    ) -> None:
        """As in ``transformers``, for shared and sliced tensors too: each is written whole under its own name.

        Raises ValueError for a model in int8, whose float weights are gone, and for fields of the configuration that
        could not be loaded again.
        """
        self.config.check()  # fields may have been set since it was made
        if has_int8(self):
            raise ValueError(
                f"{save_directory}: a model in int8 cannot be saved; save it in float32, and ask for int8 when it is "
                "loaded"
            )
        state_dict = self_contained(self.state_dict() if state_dict is None else state_dict)
        super().save_pretrained(save_directory, is_main_process, state_dict, **kwargs)

    def _set_gradient_checkpointing(
        self, enable: bool = True, gradient_checkpointing_func: Callable[..., Any] = checkpoint, **options: Any
    ) -> None:
        if enable and getattr(gradient_checkpointing_func, "keywords", {}).get("use_reentrant"):
            raise ValueError(
                "gradient checkpointing with use_reentrant=True loses the gradients of the head decisions; leave the "
                "option out or pass use_reentrant=False"
            )
        once = partial(gradient_checkpointing_func, use_reentrant=False)
        super()._set_gradient_checkpointing(enable=enable, gradient_checkpointing_func=once, **options)

    def set_execution(self, name: str) -> None:
        """Choose how attention is computed ("auto", "reference", "packed", "cuda"); results stay the same.

        Raises ValueError with the reason when the model cannot run so where it is and in its dtype.
        """
        self._path(name)
        self.config.execution = name
        for module in self.modules():
            if isinstance(module, BudgetedSelfAttention):
                module.execution = name

    @property
    def execution_path(self) -> ModuleType:
        """The module that computes attention in inference, where the model is and in its dtype."""
        return self._path(self.config.execution)

    def _path(self, name: str) -> ModuleType:
        if name == "reference" and has_int8(self):
            raise ValueError(f"execution='reference' cannot be taken: {NO_REFERENCE}")
        size = self.config.head_size
        return resolve(name, gradients=False, device=self.device, dtype=self.dtype, head_size=size)

    def prune_heads(self, heads: Mapping[int, Iterable[int]]) -> None:
        """Drop heads for good, in place: ``{layer: [heads]}``, by their numbers from 0, which stay as they are.

        The model answers as before wherever none of these heads was chosen; elsewhere the next best ones are taken.
        Budgets stay shares of the heads of before. ``config.kept_heads`` says what is left; make optimisers after it.
        Raises ValueError, with nothing changed, for heads that are not there and for a layer that would keep fewer than
        ``min_heads``.

        Example:
            >>> model.prune_heads({0: [2, 5], 3: [7]})
        """
        if has_int8(self):
            raise ValueError("heads are dropped from a model in float32 or bf16, and this one is in int8: load it anew")
        kept = [self.config.heads_of(layer) for layer in range(self.config.num_hidden_layers)]
        left = heads_left(kept, heads, min_heads=self.config.min_heads)
        layers = [module for module in self.modules() if isinstance(module, BudgetedSelfAttention)]
        for attention, own in zip(layers, left, strict=True):
            keep_heads(attention, own)
        if left != kept:
            self.config.kept_heads = left

    def set_progress(self, progress: float, *, all_heads: bool = False) -> None:
        """Set training progress t/T in [0, 1] for noise, temperature and loss weights.

        ``all_heads``: training has not come to the budgets yet: every head is kept, and the loss is that of the task.
        """
        for module in self.modules():
            if isinstance(module, BudgetedSelfAttention | BudgetFormerPreTrainedModel):
                module.progress = progress
            if isinstance(module, BudgetFormerPreTrainedModel):
                module.all_heads = all_heads


def self_contained(state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
    """``state_dict`` with a copy of every tensor that shares its memory or is not contiguous."""
    seen: set[int] = set()
    result = {}
    for name, tensor in state_dict.items():
        storage = tensor.untyped_storage()
        whole = tensor.is_contiguous() and storage.nbytes() == tensor.nbytes and storage.data_ptr() not in seen
        seen.add(storage.data_ptr())
        result[name] = tensor if whole else tensor.detach().clone(memory_format=torch.contiguous_format)
    return result


def check_dtypes(folder: str | Path) -> None:
    """Refuse files of a folder whose tensors are no plain floats, as quantisation leaves them, naming the tensors.

    Loading would turn the whole numbers into floats as they are, and the answers would mean nothing.
    """
    odd = []
    for file in sorted(path for path in Path(folder).glob("model*.safetensors") if path.is_file()):
        with safe_open(file, framework="pt") as tensors:
            kinds = {name: tensors.get_slice(name).get_dtype() for name in tensors.keys()}  # noqa: SIM118
        odd += [f"{name} ({kind})" for name, kind in kinds.items() if kind not in FLOATS]
    if odd:
        raise ValueError(
            f"{folder}: tensors that are no floats: {', '.join(odd[:8])}. Nothing was loaded: restore the original "
            "folder, and ask for int8 when it is loaded."
        )


def check_loaded(folder: str | Path, info: dict[str, Any], *, optional: tuple[str, ...]) -> None:
    """Refuse a load that was not complete, naming the tensors."""
    unknown = [k for k in info["unexpected_keys"] if not k.startswith(optional or ("\0",))]
    problems = [
        f"{what}: {', '.join(sorted(str(k[0] if isinstance(k, tuple) else k) for k in keys)[:8])}"
        for what, keys in (
            ("missing", info["missing_keys"]),
            ("unknown", unknown),
            ("of another shape than config.json says", info["mismatched_keys"]),
        )
        if keys
    ]
    if problems:
        raise ValueError(
            f"{folder}: the weights do not fit the configuration; tensors {'; '.join(problems)}. Nothing was loaded: "
            "restore the original folder."
        )


def check_finite(folder: str | Path, model: nn.Module) -> None:
    """Refuse weights that are no numbers, naming the tensors."""
    state = {name: tensor for name, tensor in model.state_dict().items() if not tensor.is_meta}
    bad = [name for name, tensor in state.items() if not bool(torch.isfinite(tensor).all())]
    if bad:
        raise ValueError(
            f"{folder}: tensors with NaN or infinity: {', '.join(bad[:8])}. Nothing was loaded: restore the original "
            "folder."
        )
