"""Runs the application: takes the port first, then one process or several, and gives back how it ended."""

from __future__ import annotations

import contextlib
import errno
import math
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from .logs import log_config
from .protocol import LimitedHead
from .settings import ServingSettings

SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"


def serve(settings: ServingSettings, listener: socket.socket, *, prepare: Callable[[], None] = lambda: None) -> None:
    """Serve at ``listener`` until SIGTERM or Ctrl-C; what was accepted is answered before this returns.

    ``prepare`` is called once in every process that loads the model; with several workers it must be picklable.

    Raises ValueError for a model folder that cannot be used, KeyboardInterrupt after Ctrl-C.
    """
    with _stopping() as stopped:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        print(f"listening on http://{shown}:{port} (description: /openapi.json, Ctrl-C to stop)", flush=True)
        if settings.workers > 1:
            _several(settings, listener, prepare)
        else:
            _one(settings, listener, prepare)
    if signal.SIGINT in stopped:
        raise KeyboardInterrupt


def bind(host: str, port: int) -> socket.socket:
    """A socket that has the address and does not listen yet: so nobody waits while the server starts.

    Raises ValueError that says what to do when the address cannot be had.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        listener = socket.socket(family, kind)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:
        reasons = {errno.EADDRINUSE: "is in use", errno.EACCES: "is not allowed to this user"}
        reason = reasons.get(getattr(error, "errno", None) or 0)
        if reason is not None:
            raise ValueError(f"port {port} on {host} {reason}; choose another one with --port") from error
        raise ValueError(f"cannot listen on --host {host}, --port {port}: {error}") from error
    return listener


def _one(settings: ServingSettings, listener: socket.socket, prepare: Callable[[], None]) -> None:
    app = make_app(settings, prepare)
    uvicorn.Server(_config(settings, app)).run(sockets=[listener])
    if app.state.failure is not None:
        raise ValueError(f"model folder {settings.folder} cannot be loaded ({app.state.failure})")


def _several(settings: ServingSettings, listener: socket.socket, prepare: Callable[[], None]) -> None:
    from ..model_folder import check_folder, load_config, load_tokenizer

    prepare()
    folder = check_folder(settings.folder)
    load_tokenizer(folder, load_config(folder))
    with tempfile.TemporaryDirectory(prefix="budgetformer-metrics-") as shared:
        os.environ[SHARED_METRICS] = shared
        config = _config(settings, partial(_worker_app, settings, prepare), factory=True, workers=settings.workers)
        _Workers(config, sockets=[listener]).run()


class _Workers(Multiprocess):
    """As in uvicorn, but for two things that follow the death of a worker.

    What it had waiting leaves the figures when its place is taken. And it is missed at once: uvicorn asks a worker over
    a pipe whose far end it keeps open itself, so one that dies between question and answer would never be heard to hang
    up, and be waited for until ``timeout_worker_healthcheck``.
    """

    def init_processes(self) -> None:
        super().init_processes()
        self._hang_up()

    def keep_subprocess_alive(self) -> None:
        from prometheus_client.multiprocess import mark_process_dead

        before = {process.pid for process in self.processes}
        self._hang_up()  # one that a signal added has not been asked yet
        super().keep_subprocess_alive()
        self._hang_up()
        for gone in before - {process.pid for process in self.processes}:
            mark_process_dead(gone)

    def _hang_up(self) -> None:
        for process in self.processes:
            process.child_conn.close()  # the worker has its own; closing twice does nothing


def _worker_app(settings: ServingSettings, prepare: Callable[[], None]) -> Any:
    threading.Thread(target=_leave_with_parent, name="parent", daemon=True).start()
    return make_app(settings, prepare)


def _leave_with_parent() -> None:
    """Stop in order when the parent is gone (killed, say): it could neither replace this worker nor free the port."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def make_app(settings: ServingSettings, prepare: Callable[[], None]) -> Any:
    """The application, made in the process that runs it."""
    from .app import create_app

    prepare()
    return create_app(settings)


def _config(settings: ServingSettings, app: Any, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="on",
        log_config=log_config(),
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=math.ceil(settings.timeout_s) + 5,  # by then every request has its answer
        ws="none",
        http=LimitedHead,
        timeout_worker_healthcheck=120,  # a worker imports torch before it answers
        **more,
    )


@contextlib.contextmanager
def _stopping() -> Iterator[list[int]]:
    """Which signals the server was stopped with; uvicorn raises them again after an orderly end."""
    stopped: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {n: signal.signal(n, lambda number, frame: stopped.append(number)) for n in numbers}
    try:
        yield stopped
    finally:
        sys.stdout.flush()
        for number, handler in before.items():
            signal.signal(number, handler)
