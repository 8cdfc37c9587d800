"""Parts of ``reliability.py``: load, memory, kill and restart, an orderly end, two versions swapped.

Each yields rows; a row's figures are explained in docs/reliability.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from reliability_servers import PATIENCE_S, Crowd, Model, Server
from serving import free_port

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What every part works with: two models of one shape, texts with known answers, a folder for logs, sizes."""

    models: tuple[Model, Model]
    texts: list[str]
    place: Path
    threads: int
    seconds: float
    clients: list[int]
    requests: int
    times: int

    def server(self, name: str, *options: object, model: int = 0) -> Server:
        """A server for one of the models."""
        return Server(self.models[model], "--threads", self.threads, *options, log=self.place / f"{name}.log")

    def crowd(self, server: Server, *, clients: int | None = None, retries: bool = True) -> Crowd:
        """Clients of one server."""
        number = max(self.clients) if clients is None else clients
        return Crowd(lambda: server.url, self.models, self.texts, clients=number, retries=retries)


def load(setting: Setting) -> Iterator[Row]:
    """How many requests a second, how fast, and is each one answered, once, with its own answer?"""
    most = setting.clients[-1] // 2  # so that the last level is more than it accepts
    with setting.server("load", "--max-requests", most) as server:
        for clients in setting.clients:
            with setting.crowd(server, clients=clients):
                time.sleep(min(1.0, setting.seconds))  # not counted
            started = time.monotonic()
            with setting.crowd(server, clients=clients) as crowd:
                time.sleep(setting.seconds)
            took = time.monotonic() - started
            figures = {"clients": clients, "max_requests": most, "seconds": took}
            yield figures | {"per_second": crowd.tally.answered / took} | crowd.tally.row()


def memory(setting: Setting) -> Iterator[Row]:
    """Does the process grow with the requests, when their lengths vary?"""
    generator = random.Random(1)
    words = sorted({word for text in setting.texts for word in text.split()})
    marks = [min(m, setting.requests) for m in (100, 500, 2000)]
    answered = 0
    with setting.server("memory") as server, httpx.Client(timeout=PATIENCE_S) as client:
        at_start, held = server.memory, {}
        for number in range(1, setting.requests + 1):
            text = " ".join(generator.choices(words, k=generator.randint(1, 400)))
            answered += client.post(f"{server.url}/classify", json={"texts": [text]}).status_code == 200
            if number in marks:
                held[number] = server.memory
        first, last = held[marks[1]], held[marks[2]]
        yield {
            "requests": setting.requests,
            "answered": answered,
            "memory_at_start": at_start,
            "memory_after": {str(mark): size for mark, size in held.items()},
            "growth": last / first - 1,
        }


def kill(setting: Setting) -> Iterator[Row]:
    """After kill -9 and a start on the same port: when is it ready again, and does a client that retries lose any?"""
    for _ in range(setting.times):
        with setting.server("kill") as server, setting.crowd(server) as crowd:
            time.sleep(setting.seconds / 4)
            before = crowd.tally.answered
            killed = time.monotonic()
            server.process.kill()
            server.process.wait()
            server.start()
            server.wait()
            ready = time.monotonic() - killed
            time.sleep(setting.seconds / 4)
        yield {"clients": max(setting.clients), "ready_after_s": ready, "answered_before": before} | crowd.tally.row()


def term(setting: Setting) -> Iterator[Row]:
    """SIGTERM under load, with clients that do not retry: is all that was accepted answered?"""
    for _ in range(setting.times):
        with setting.server("term") as server, setting.crowd(server, retries=False) as crowd:
            time.sleep(setting.seconds / 4)
            told = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            code = server.process.wait(timeout=PATIENCE_S)
            took = time.monotonic() - told
        lines = [json.loads(line) for line in server.log.read_text(encoding="utf-8").splitlines() if line[0] == "{"]
        server.log.unlink()
        asked = [line for line in lines if line.get("route") == "/classify" and line["status"] != 503]
        unanswered = [line for line in asked if line["status"] != 200 or line["id"] not in crowd.tally.numbers]
        figures = {"clients": max(setting.clients), "exit_code": code, "ended_after_s": took}
        yield figures | {"accepted": len(asked), "accepted_lost": len(unanswered)} | crowd.tally.row()


def swap(setting: Setting) -> Iterator[Row]:
    """Two versions behind a switch, under load: start the new one, wait until ready, switch, SIGTERM the old one."""
    with contextlib.ExitStack() as open_until_the_end, Switch() as switch:
        old = open_until_the_end.enter_context(setting.server("swap-0"))
        switch.target = old.port
        crowd = Crowd(lambda: switch.url, setting.models, setting.texts, clients=max(setting.clients), retries=True)
        codes = []
        with crowd:
            for number in range(1, setting.times + 1):
                time.sleep(setting.seconds / 4)
                new = open_until_the_end.enter_context(setting.server(f"swap-{number}", model=number % 2))
                switch.target = new.port
                old.process.send_signal(signal.SIGTERM)
                codes.append(old.process.wait(timeout=PATIENCE_S))
                old = new
            time.sleep(setting.seconds / 4)
        given = crowd.tally.revisions
        of_each = {f"of_version_{i}": given[model.revision] for i, model in enumerate(setting.models, start=1)}
        figures = {"clients": max(setting.clients), "swaps": setting.times, "exit_codes": codes}
        yield figures | of_each | crowd.tally.row()


class Switch:
    """A proxy that hands each new connection to ``target``, a port; those that are open stay where they are."""

    def __init__(self) -> None:
        self.target, self.port = 0, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Switch:
        self._thread.start()
        listening = asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
            writers.append(back)
            ways = [asyncio.create_task(_pump(reader, back)), asyncio.create_task(_pump(there, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # nobody listens there: the client sees a closed connection
        finally:
            for each in writers:
                each.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
