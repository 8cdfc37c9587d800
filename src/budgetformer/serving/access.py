"""One log line and one entry in the metrics for every request, and a number by which the client can name it."""

from __future__ import annotations

import logging
import time
import uuid
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .service import Service

log = logging.getLogger("budgetformer.serving")
UNKNOWN = "(unknown)"
REVISION = "X-Model-Revision"
"""The header that says which model answered."""


class AccessLog:
    """ASGI middleware. The path is logged only where it is one of the server's own: others may quote anything."""

    def __init__(self, app: ASGIApp, service: Service, paths: frozenset[str]) -> None:
        self.app, self.service, self.paths = app, service, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection scope."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, number = time.monotonic(), 0, uuid.uuid4().hex
        noted: dict[str, Any] = {}
        scope.setdefault("state", {})["log"] = noted

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = number
                if revision := self.service.engine.revision:
                    headers[REVISION] = revision
                if self.service.status == "leaving":  # the next request shall find the server that comes after
                    headers["Connection"] = "close"
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            path = scope["path"]
            route = path if path in self.paths else UNKNOWN
            method = scope["method"] if scope["method"] in METHODS else "other"
            seconds = time.monotonic() - started
            status = status or 499  # the client left before there was an answer
            self.service.metrics.request(route=route, method=method, status=status, seconds=seconds)
            quiet = route in ("/health", "/ready", "/metrics") and status == 200
            fields = {"id": number, "method": method, "route": route, "status": status, "ms": round(1000 * seconds, 2)}
            log.log(logging.DEBUG if quiet else logging.INFO, "request", extra=fields | noted)


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})
