"""The page for people at ``/``: four files of the package, given out as they are, under a policy without exceptions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request, Response

FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page_routes() -> APIRouter:
    """Routes of the page's files. They tell nothing of the model, so they ask for no API key."""
    router = APIRouter(include_in_schema=False)
    for path, (name, kind) in FILES.items():
        content = files(__package__).joinpath("static", name).read_bytes()
        router.add_api_route(path, _sending(content, kind), methods=["GET", "HEAD"], name=name)
    return router


def _sending(content: bytes, kind: str) -> Callable[..., Any]:
    headers = HEADERS | {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}

    async def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    return send
