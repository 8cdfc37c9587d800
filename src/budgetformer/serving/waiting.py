"""The texts that wait: taken from all requests in turn, so that a large one does not keep a small one waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..data.encoding import Encoded


@dataclass(eq=False, kw_only=True)
class Job:
    """The inputs of one request: which wait, and what is asked of them. ``owner`` is whoever waits for the answers."""

    encoded: Encoded
    arrived: float
    budget: float | None = None
    max_budget: float | None = None
    details: bool = False
    owner: Any = None
    waiting: deque[int] = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = deque(sorted(range(len(self.encoded.input_ids)), key=self.length))

    def length(self, number: int) -> int:
        """Tokens of an input."""
        return len(self.encoded.input_ids[number])


@dataclass(frozen=True, kw_only=True)
class Part:
    """The inputs of one job that go into a batch."""

    job: Job
    numbers: Sequence[int]


class Waiting:
    """A queue of jobs. Not for several threads."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self.tokens = 0

    def __len__(self) -> int:
        return sum(len(job.waiting) for job in self._jobs)

    def add(self, job: Job) -> None:
        """Queue all inputs of a job."""
        self._jobs.append(job)
        self.tokens += sum(map(job.length, job.waiting))

    def drop(self, job: Job) -> int:
        """Take a job out; returns how many of its inputs were still waiting."""
        if job in self._jobs:
            self._jobs.remove(job)
        left = len(job.waiting)
        self.tokens -= sum(map(job.length, job.waiting))
        job.waiting.clear()
        return left

    def oldest(self) -> float:
        """When the job that has waited longest arrived."""
        return min(job.arrived for job in self._jobs)

    def take(self, batch_tokens: int) -> list[Part]:
        """The next batch: one input of each job in turn, shortest first, as long as inputs × longest fits.

        A job that did not fit stands in front the next time, where its input is taken in any case.
        """
        taken: dict[Job, list[int]] = {}
        longest = count = 0
        turn = deque(self._jobs)
        while turn:
            job = turn.popleft()
            size = max(longest, job.length(job.waiting[0]))
            if count and size * (count + 1) > batch_tokens:
                continue
            longest, count = size, count + 1
            taken.setdefault(job, []).append(job.waiting.popleft())
            if job.waiting:
                turn.append(job)
        self.tokens -= sum(job.length(number) for job, numbers in taken.items() for number in numbers)
        left = [job for job in self._jobs if job.waiting]
        self._jobs = deque([job for job in left if job not in taken] + [job for job in left if job in taken])
        return [Part(job=job, numbers=numbers) for job, numbers in taken.items()]
