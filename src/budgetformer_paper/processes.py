"""Several processes under ``torchrun``: all of them train, the first one decides, measures and writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed

from budgetformer.training import Interrupted

Value = TypeVar("Value")
PATIENCE = timedelta(days=2)
"""How long processes wait for the first one, which measures while they do nothing."""


class FirstFailed(RuntimeError):
    """What the first process was to do failed there; raised in the others."""


class ProcessFailed(RuntimeError):
    """A training failed in this process and perhaps in no other, so that they cannot go on together."""


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Which process of how many this one is; alone without ``torchrun``."""

    rank: int = 0
    count: int = 1

    @classmethod
    def of_environment(cls) -> Processes:
        """As the launcher says."""
        return cls(rank=int(os.environ.get("RANK", "0")), count=int(os.environ.get("WORLD_SIZE", "1")))

    @property
    def is_first(self) -> bool:
        """Whether this one decides and writes."""
        return self.rank == 0

    @contextmanager
    def joined(self, device: str) -> Iterator[None]:
        """The processes know each other inside the block: NCCL on GPUs, one each, and gloo otherwise."""
        if self.count == 1:
            yield
            return
        on_gpu = device.startswith("cuda")
        if on_gpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        torch.distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=PATIENCE)
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()

    def first(self, make: Callable[[], Value]) -> Value:
        """What ``make`` gives in the first process, in all of them; its errors too, as FirstFailed in the others."""
        if self.count == 1:
            return make()
        error, said = None, list[Any]([None, None])
        if self.is_first:
            try:
                said[0] = make()
            except Exception as raised:
                error, said[1] = raised, str(raised)
        torch.distributed.broadcast_object_list(said)
        if error is not None:
            raise error
        if said[1] is not None:
            raise FirstFailed(said[1])
        value: Value = said[0]
        return value

    @contextmanager
    def together(self) -> Iterator[None]:
        """A training of all processes. Raises ProcessFailed for errors that the others may not have."""
        try:
            yield
        except (ArithmeticError, Interrupted):  # a loss or gradient that is no number, of which all processes know
            raise
        except Exception as error:
            if self.count == 1:
                raise
            raise ProcessFailed(f"{type(error).__name__} in process {self.rank}: {error}") from error

    def share(self, batch: int) -> int:
        """Rows of a batch for each process. Raises ValueError for a batch that cannot be shared evenly."""
        if batch % self.count:
            raise ValueError(
                f"a batch of {batch} rows cannot be shared evenly by {self.count} processes, which would change the "
                f"updates: start a number that divides {batch}"
            )
        return batch // self.count
