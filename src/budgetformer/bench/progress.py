"""One bar that says which part of a bench is running and how far it is."""

from __future__ import annotations

from types import TracebackType

from tqdm.auto import tqdm


class StageBar:
    """``progress`` of ``bench`` on standard error, where that is a terminal; it begins anew with every stage."""

    def __init__(self) -> None:
        self._bar = tqdm(disable=None, leave=False, dynamic_ncols=True, unit="step")
        self._stage: tuple[str, int] | None = None

    def __enter__(self) -> StageBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def __call__(self, stage: str, done: int, steps: int) -> None:
        """Show ``done`` of the ``steps`` of a stage; what follows a colon in its name may change from step to step."""
        self._bar.set_description_str(stage, refresh=False)
        kind = (stage.partition(":")[0], steps)
        if kind != self._stage:
            self._stage = kind
            self._bar.reset(total=steps)
        self._bar.n = done
        if not self._bar.disable:
            self._bar.refresh()
