"""Ray Data runs the workers: hands the parts out, and hands a part out again when its worker died."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import asdict
from typing import Any

from .failures import Failure
from .parts import Part
from .worker import PartScorer, WorkerPlan

RETRIES = 3
"""How often a part is handed out again after its worker died; more would start workers without end."""
BLOCKS = 4096
"""At most so many pieces for Ray to keep account of; with more parts than that a piece has several."""


def score(parts: Sequence[Part], plan: WorkerPlan, *, workers: int) -> Generator[int, None, None]:
    """Answer every part on the cluster that is connected; gives the records of each as it is done, in any order.

    Each of ``workers`` has a model of its own and ``plan.threads`` processors. The first failure in a worker is raised
    here as the plain engine would raise it; ChildProcessError when workers die again and again. Close the generator
    before Ray is left.
    """
    import ray

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    rows: list[dict[str, Any]] = [{"part": part.number} | asdict(part.stretch) for part in parts]
    answered = ray.data.from_items(rows, override_num_blocks=min(len(rows), BLOCKS)).map(
        PartScorer,
        fn_constructor_args=(plan,),
        # fewer than all at the start and the end, so that nothing waits for a machine that has gone
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=workers, initial_size=workers),
        num_cpus=plan.threads,
        max_restarts=-1,
        max_task_retries=RETRIES,
    )
    found = iter(answered.iter_rows())
    try:
        try:
            for row in found:
                if row["failure"]:
                    raise Failure.read(row["failure"]).error()
                yield row["records"]
        finally:  # Ray Data's threads end before Ray does: one that asked it afterwards would end the process
            found.close()
            if answered._current_executor is not None:
                answered._current_executor.shutdown(force=False)
    except ray.exceptions.RayError as problem:
        raise ChildProcessError(
            f"workers died {RETRIES + 1} times over the same part ({str(problem).splitlines()[0]}): is there memory "
            "for a model in each? What is complete is kept: go on with the same command, fewer --workers and --resume"
        ) from problem
