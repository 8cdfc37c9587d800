"""What happens before a body is parsed: key, readiness, kind and size of the content, strict JSON."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.requests import ClientDisconnect

from .problems import Problem
from .service import Gone, Service


class StrictRequest(Request):
    """A request whose body has an end, and whose JSON is that of RFC 8259.

    So no more than ``max_bytes`` are ever held, whatever the client declares; and there is no NaN, no half
    surrogate pair and no nesting without end.
    """

    async def body(self) -> bytes:
        """The body; ``Problem`` 413 when it is too long, before the rest of it is read."""
        if not hasattr(self, "_body"):
            most = self.app.state.service.settings.max_bytes
            declared = self.headers.get("content-length", "")
            if declared.isdecimal() and int(declared[:20]) > most:
                raise _too_long(most)
            chunks, size = [], 0
            async for chunk in self.stream():
                chunks.append(chunk)
                size += len(chunk)
                if size > most:
                    raise _too_long(most)
            self._body = b"".join(chunks)
        return self._body

    async def json(self) -> Any:
        """The parsed body; ``Problem`` 400 with the place of what is wrong."""
        try:
            return from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise Problem(400, f"not JSON: {error}", field="body") from None


def _too_long(most: int) -> Problem:
    return Problem(413, f"at most {most} bytes; send several requests", field="body")


class GuardedRoute(APIRoute):
    """A route that asks for the API key, if there is one, before anything else."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler behind the check."""
        handler = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            require_key(request)
            return await handler(request)

        return guarded


class WorkRoute(APIRoute):
    """A route that costs something: key, readiness, place, and the body are checked in this order."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler behind the checks."""
        handler = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            service: Service = request.app.state.service
            require_key(request)
            service.require_ready()
            _require_json(request)
            _refuse_query(request)
            with service.accepted():
                strict = StrictRequest(request.scope, request.receive)
                try:
                    async with asyncio.timeout(service.settings.timeout_s):
                        await strict.body()
                except ClientDisconnect:
                    raise Gone from None
                except TimeoutError:
                    raise Problem(408, "the body did not arrive in time", headers={"Connection": "close"}) from None
                return await handler(strict)

        return guarded


def require_key(request: Request) -> None:
    """Compare the key in ``Authorization: Bearer`` or ``X-API-Key`` in a time that does not depend on it."""
    key = request.app.state.service.settings.api_key
    if key is None:
        return
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    given = bearer.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
    if not hmac.compare_digest(_digest(given), _digest(key)):
        message = "this server asks for an API key: send it as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'"
        raise Problem(401, message, headers={"WWW-Authenticate": "Bearer"})


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _require_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, f"send JSON with Content-Type: application/json, got {kind[:60] or 'none'}")
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise Problem(415, f"send the body as it is, without Content-Encoding, got {coding[:60]}")


def _refuse_query(request: Request) -> None:
    """What is asked in the address would have no effect, and the answer would look as if it had one."""
    for name in ("budget", "max_budget", "details", "timeout_ms", "heads"):
        if name in request.query_params:
            raise Problem(422, "has no effect in the address: put it into the JSON of the body", field=name)
