"""Serve a model folder over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ..extras import how_to_install
from . import options as o

NAME = "serve"
KEY_VARIABLE = "BUDGETFORMER_API_KEY"
LIMITS, BATCHES, LOAD = "Limits", "Batches", "Under load"
EXAMPLES = (
    "Examples:",
    "budgetformer serve runs/news",
    "budgetformer serve runs/news --port 9000 --precision int8 --workers 2",
    "budgetformer serve runs/news --host 0.0.0.0 --api-key-file /run/secrets/key --shed-budget 0.25",
    "Then: curl -s localhost:8000/classify -H 'Content-Type: application/json' "
    """-d '{"texts": ["Shares rose."], "max_budget": 0.5}'""",
    "In a browser: the page at /. Also GET /health, /ready, /model, /metrics, /openapi.json.",
    "SIGTERM finishes what was accepted and exits with 0.",
)


def run(
    folder: o.Folder,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0 takes a free one and prints it.")] = 8000,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            "--api-key-file", metavar="FILE", help=f"Ask for the key in this file. Default: that in ${KEY_VARIABLE}."
        ),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", rich_help_panel=o.RUNNING, help="Processes.")] = 1,
    threads: Annotated[
        int | None,
        typer.Option("--threads", rich_help_panel=o.RUNNING, help="Of each process. Default: cores / workers."),
    ] = None,
    precision: o.Precision = "float32",
    execution: o.Execution = "auto",
    device: o.Device = "auto",
    max_bytes: Annotated[int, typer.Option("--max-bytes", rich_help_panel=LIMITS, help="Of a body.")] = 1_048_576,
    max_texts: Annotated[int, typer.Option("--max-texts", rich_help_panel=LIMITS, help="Of a request.")] = 1024,
    max_characters: Annotated[
        int, typer.Option("--max-characters", rich_help_panel=LIMITS, help="Of a text.")
    ] = 100_000,
    max_requests: Annotated[
        int, typer.Option("--max-requests", rich_help_panel=LIMITS, help="Accepted and not answered yet.")
    ] = 256,
    max_queue: Annotated[
        int, typer.Option("--max-queue", rich_help_panel=LIMITS, help="Texts that wait; more are answered with 429.")
    ] = 4096,
    max_explain_tokens: Annotated[
        int,
        typer.Option("--max-explain-tokens", rich_help_panel=LIMITS, help="Of a text whose attention maps are wanted."),
    ] = 512,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", rich_help_panel=LIMITS, help="Give a request up after so long.")
    ] = 30.0,
    batch_tokens: Annotated[
        int, typer.Option("--batch-tokens", rich_help_panel=BATCHES, help="Padded tokens in a batch at most.")
    ] = 8192,
    max_wait_ms: Annotated[
        float, typer.Option("--max-wait-ms", rich_help_panel=BATCHES, help="A text waits so long for company at most.")
    ] = 2.0,
    shed_budget: Annotated[
        float | None,
        typer.Option(
            "--shed-budget",
            metavar="S",
            parser=o.share,
            rich_help_panel=LOAD,
            help="Cap all budgets while the queue is full.",
        ),
    ] = None,
    shed_at: Annotated[
        float | None,
        typer.Option(
            "--shed-at", metavar="SHARE", rich_help_panel=LOAD, help="Of the queue, from where on. Default: 0.5."
        ),
    ] = None,
    leave: Annotated[
        float,
        typer.Option("--leave", metavar="S", rich_help_panel=LOAD, help="After SIGTERM, answer 503 at least so long."),
    ] = 0.0,
) -> None:
    if shed_budget is None:
        o.refuse({"--shed-at": shed_at}, "without --shed-budget")
    from ..serving.settings import SHED_AT, ServingSettings, usable_cores
    from .outcome import warn

    settings = ServingSettings(
        folder=str(folder),
        host=host,
        port=port,
        api_key=_key(api_key_file),
        workers=workers,
        threads=threads,
        precision=precision,
        execution=execution,
        device=device,
        max_bytes=max_bytes,
        max_texts=max_texts,
        max_characters=max_characters,
        max_requests=max_requests,
        max_queue=max_queue,
        max_explain_tokens=max_explain_tokens,
        timeout_s=timeout,
        batch_tokens=batch_tokens,
        max_wait_ms=max_wait_ms,
        shed_budget=shed_budget,
        shed_at=SHED_AT if shed_at is None else shed_at,
        leave_s=leave,
    )
    if settings.threads_each * workers > usable_cores():
        warn(f"{settings.threads_each} threads in {workers} workers are more than the {usable_cores()} cores here")
    if host not in ("127.0.0.1", "::1", "localhost") and settings.api_key is None:
        warn(f"anyone who reaches {host} can use this server: there is no API key")
    _require_extra()
    from ..serving.server import bind, serve

    with bind(host, port) as listener:
        from ..inference import pick_device
        from ..model_folder import check_folder
        from ..precision import check_precision
        from .libraries import quiet_libraries

        check_folder(folder)
        check_precision(precision)
        pick_device(device)
        serve(settings, listener, prepare=quiet_libraries)


def _key(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(KEY_VARIABLE) or None
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise ValueError(f"--api-key-file {file} cannot be read: {problem}") from problem
    if not key:
        raise ValueError(f"--api-key-file {file} holds no key; write one into it")
    return key


def _require_extra() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise ValueError(f"{', '.join(missing)} is not installed; {how_to_install('serve')}")
