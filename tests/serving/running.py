"""A server as its user starts it: a process of its own, asked over HTTP."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from budgetformer import Pair, Prediction

from ..cli.commands import ENTRY, environment

PATIENCE = 120.0
KEY = "a-key-for-tests"
KEYED = {"X-API-Key": KEY}


class Running:
    """``budgetformer serve FOLDER --port 0 …``, until the block ends. Its log goes to ``log``."""

    def __init__(self, folder: Path, *options: object, log: Path, wait: bool = True, **variables: str) -> None:
        self.log, self.wait = log, wait
        self.seen: list[int] = []
        arguments = ["serve", str(folder), "--port", "0", *map(str, options)]
        entry = [sys.executable, "-W", "error", *ENTRY[1:]]
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [*entry, *arguments],
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                encoding="utf-8",
                env=environment(**variables),
            )
        self.client: httpx.Client

    def __enter__(self) -> Running:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://"), self.log.read_text(encoding="utf-8")
        self.url = line.split()[2]
        self.client = httpx.Client(base_url=self.url, timeout=PATIENCE, headers=KEYED)
        if self.wait:
            self.until(lambda: self.client.get("/ready").status_code == 200)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def until(self, true: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Wait for something that must come true within ``patience`` seconds while the server lives."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            self.lives()
            try:
                if true():
                    return
            except httpx.ConnectError:
                pass
            time.sleep(0.02)
        raise AssertionError(f"it did not happen; the end of the log: {self.end_of_log()}")

    def lives(self) -> None:
        """Fail with the exit code and the end of the log when the server has ended."""
        code = self.process.poll()
        assert code is None, f"the server ended with {code}; the end of the log: {self.end_of_log()}"

    def end_of_log(self) -> str:
        """What a failed test shows of the log."""
        return self.log.read_text(encoding="utf-8")[-3000:]

    def classify(self, *texts: str, **fields: Any) -> list[dict[str, Any]]:
        """The answers to texts; fails unless the status is 200."""
        return self.answers({"texts": list(texts)} | fields)

    def answers(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The answers to a body."""
        response = self.client.post("/classify", json=body)
        assert response.status_code == 200, response.text
        return strict(response)["answers"]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE)

    def lines(self) -> list[dict[str, Any]]:
        """The log; before it the command may have said something in words."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if not line.startswith(("warning: ", "note: "))]


def strict(response: httpx.Response) -> dict[str, Any]:
    """The JSON of an answer, which must be JSON and nothing more."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    assert response.headers["content-type"] == "application/json"
    return json.loads(response.content.decode("utf-8"), parse_constant=refuse)


def refused(response: httpx.Response, *statuses: int) -> dict[str, Any]:
    """The reason that a request was refused with."""
    assert response.status_code in statuses, (response.status_code, response.text)
    reason = strict(response)
    assert set(reason) == {"error", "fields"}
    assert reason["error"]
    assert "\n" not in reason["error"]
    return reason


def equal(answer: dict[str, Any], alone: Prediction) -> None:
    """The server's answer is the classifier's."""
    for name in ("label", "heads", "macs", "tokens", "truncated", "reason"):
        assert answer[name] == getattr(alone, name), name
    assert list(answer["scores"]) == list(alone.scores)
    assert all(math.isclose(answer["scores"][n], p, abs_tol=1e-5) for n, p in alone.scores.items())
    assert answer["score"] == answer["scores"][answer["label"]]


def body_of(items: list[str | Pair], **fields: Any) -> dict[str, Any]:
    """A request for these inputs."""
    if isinstance(items[0], Pair):
        return {"pairs": [{"text": i.text, "pair": i.pair} for i in items if isinstance(i, Pair)]} | fields
    return {"texts": items} | fields
