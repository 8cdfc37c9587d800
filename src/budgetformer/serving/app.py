"""The HTTP application: routes, errors in one form, and its life from loading to leaving."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message

from ..model_folder import check_folder, load_config
from ..version import __version__
from .access import REVISION, AccessLog
from .explain_schemas import ExplainResponse, explain_model
from .explanations import explain
from .guards import GuardedRoute, WorkRoute
from .measured import measured
from .page import FILES, page_routes
from .problems import Problem, from_validation
from .schemas import ClassifyResponse, ErrorResponse, ModelResponse, StatusResponse, request_model
from .service import Gone, Service, describe
from .settings import ServingSettings
from .writing import Written

log = logging.getLogger("budgetformer.serving")
REFUSALS = {
    400: "The body is not JSON.",
    401: "The API key is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "Too many bytes, texts or characters.",
    415: "The content is not application/json.",
    422: "A field is wrong; it is named.",
    429: "The queue is full; Retry-After says when to come again.",
    500: "An input could not be answered.",
    503: "The server is loading or leaving.",
    504: "Not answered in time.",
}
HEADERS = {REVISION: {"description": "Of the model that answered: see /model.", "schema": {"type": "string"}}}
STARTUP_FAILURE = 3
"""The exit code by which a worker tells that starting it again would not help."""


def create_app(settings: ServingSettings) -> FastAPI:
    """The application for one model folder. Raises ValueError for a folder that cannot be served.

    ``app.state.failure`` is the reason when the model could not be loaded; the server then leaves by itself.
    """
    config = load_config(check_folder(settings.folder))
    service = Service(settings)
    app = FastAPI(
        title="BudgetFormer",
        version=__version__,
        description="Classifies texts and spends attention heads per input.",
        docs_url=None,  # both pages would load their parts from outside
        redoc_url=None,
        redirect_slashes=False,  # the way back would lead around a proxy that speaks TLS
        lifespan=_life,
        openapi_tags=[{"name": "work"}, {"name": "state"}],
    )
    app.state.service, app.state.failure = service, None
    app.include_router(_state_routes(service))
    app.include_router(_guarded_routes(service))
    work = APIRouter(route_class=WorkRoute, tags=["work"])
    work.add_api_route(
        "/classify",
        _classify(service, request_model(config, settings)),
        methods=["POST"],
        response_model=None,
        responses=_responses(ClassifyResponse, *REFUSALS, keyed=settings.api_key is not None),
        openapi_extra=_security(settings),
    )
    work.add_api_route(
        "/explain",
        _explain(service, explain_model(config, settings)),
        methods=["POST"],
        response_model=None,
        responses=_responses(ExplainResponse, *REFUSALS, keyed=settings.api_key is not None),
        openapi_extra=_security(settings),
    )
    app.include_router(work)
    app.include_router(page_routes())
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, partial(_on_validation, budgeted=bool(config.budgeted)))
    app.add_exception_handler(Gone, _on_gone)
    app.add_exception_handler(Exception, _on_error)
    paths = frozenset({*FILES, "/openapi.json", "/health", "/ready", "/model", "/metrics", "/classify", "/explain"})
    app.add_middleware(AccessLog, service=service, paths=paths)
    if settings.api_key is not None:
        schemes = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        document = app.openapi()  # kept by FastAPI and given out as it is now
        document["components"]["securitySchemes"] = schemes
    return app


def _state_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["state"])

    @router.head("/health", include_in_schema=False)
    @router.get("/health", response_model=StatusResponse, summary="Answers as long as the server lives")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @router.head("/ready", include_in_schema=False)
    @router.get(
        "/ready",
        response_model=StatusResponse,
        responses={503: {"model": StatusResponse, "description": "Loading, failed or leaving."}},
        summary="Whether a request would be answered: after a first prediction, until the server leaves",
    )
    async def ready() -> JSONResponse:
        return JSONResponse({"status": service.status}, status_code=200 if service.status == "ready" else 503)

    return router


def _guarded_routes(service: Service) -> APIRouter:
    keyed = service.settings.api_key is not None
    router = APIRouter(route_class=GuardedRoute, tags=["state"])
    extra = _security(service.settings)

    @router.get(
        "/model",
        response_model=None,
        responses=_responses(ModelResponse, 401, 503, keyed=keyed),
        summary="Labels, sizes, measured accuracy and cost, limits",
        openapi_extra=extra,
    )
    async def model() -> JSONResponse:
        service.require_ready()
        return JSONResponse(describe(service, version=__version__, training=measured))

    @router.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses=_responses(None, 401, keyed=keyed),
        summary="Figures for Prometheus",
        openapi_extra=extra,
    )
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type="text/plain")

    return router


def _classify(service: Service, model: type[Any]) -> Callable[..., Any]:
    async def classify(body: Any, request: Request) -> Response:
        """Classify texts or pairs, in their order."""
        return _answer(request, await service.classify(body, gone=partial(_disconnected, request)))

    classify.__annotations__["body"] = model
    return classify


def _explain(service: Service, model: type[Any]) -> Callable[..., Any]:
    async def explained(body: Any, request: Request) -> Response:
        """What the model did with one text or pair: every head's relevance, and maps of the most relevant ones."""
        return _answer(request, await explain(service, body, gone=partial(_disconnected, request)))

    explained.__name__ = "explain"
    explained.__annotations__["body"] = model
    return explained


def _answer(request: Request, written: Written) -> Response:
    request.scope["state"]["log"] |= {"texts": written.texts, **written.timings}
    return Response(written.body, media_type="application/json")


async def _disconnected(request: Request) -> None:
    """Ends when the client is gone; the body must have been read before."""
    message: Message = {"type": ""}
    while message["type"] != "http.disconnect":
        message = await request.receive()


def _responses(model: Any, *codes: int, keyed: bool) -> dict[int | str, dict[str, Any]]:
    found: dict[int | str, dict[str, Any]] = {} if model is None else {200: {"model": model, "headers": HEADERS}}
    for code in codes:
        if code != 401 or keyed:
            found[code] = {"model": ErrorResponse, "description": REFUSALS[code]}
    return found


def _security(settings: ServingSettings) -> dict[str, Any] | None:
    return None if settings.api_key is None else {"security": [{"bearer": []}, {"key": []}]}


async def _on_problem(request: Request, error: Any) -> Response:
    return error.response()


async def _on_http(request: Request, error: Any) -> Response:
    message = str(error.detail)
    if error.status_code == 404:
        message = "there is nothing at this address; /openapi.json lists what there is"
    elif error.status_code == 405:
        allowed = Headers(error.headers).get("allow", "another method")
        message = f"this address takes no {request.method}; use {allowed}"
    return Problem(error.status_code, message, headers=error.headers).response()


async def _on_validation(request: Request, error: Any, *, budgeted: bool) -> Response:
    return from_validation(error.errors(), budgeted=budgeted).response()


async def _on_gone(request: Request, error: Any) -> Response:
    return Response(status_code=499)


async def _on_error(request: Request, error: Any) -> Response:
    return Problem(500, "something unexpected went wrong; the server's log says where").response()


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    loop = asyncio.get_running_loop()
    batching = loop.create_task(service.batcher.run())
    loading = loop.create_task(_load(app))
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    leaving: list[asyncio.Task[None]] = []

    async def leave(number: int, frame: Any) -> None:
        await service.leave()
        _pass_on(before[number], number, frame)

    def on_signal(number: int, frame: Any) -> None:
        if leaving or service.status == "leaving":  # asked twice: not everybody's answer is waited for
            _pass_on(before[number], number, frame)
        else:
            service.status = "leaving"
            loop.call_soon_threadsafe(lambda: leaving.append(loop.create_task(leave(number, frame))))

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for task in (batching, loading, *leaving):
            task.cancel()
        service.engine.close()
        service.metrics.close()


def _pass_on(handler: Any, number: int, frame: Any) -> None:
    if callable(handler):
        handler(number, frame)


async def _load(app: FastAPI) -> None:
    service: Service = app.state.service
    try:
        await service.load()
    except Exception as problem:
        service.status, app.state.failure = "failed", problem
        log.error("the model cannot be loaded", extra={"problem": f"{type(problem).__name__}: {problem}"})
        if service.settings.workers > 1:
            os._exit(STARTUP_FAILURE)  # an ordered end would let the parent start it again
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        described = describe(service, version=__version__, training=measured)
        shown = ("name", "device", "precision", "execution", "threads")
        log.info("ready", extra={("model" if name == "name" else name): described[name] for name in shown})
