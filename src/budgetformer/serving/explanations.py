"""What the server does with a text that is to be explained: the answer, and where its most relevant heads look.

It takes a place in the queue like a text, and the model's thread. Only one explanation is given to that thread at a
time, so that batches and explanations take turns however many people look at the page.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from ..explanation import Explanation
from .explain_schemas import MAP_TOKENS, ExplainRequest
from .problems import Problem
from .service import Gone, Service, first_of, row_of, written
from .writing import Written, array, value

log = logging.getLogger("budgetformer.serving")
MAP_DECIMALS = 4


async def explain(service: Service, body: ExplainRequest, *, gone: Callable[[], Coroutine[Any, Any, None]]) -> Written:
    """The answer to one text or pair, with every head. ``gone()`` ends when nobody waits any more."""
    settings = service.settings
    started = time.monotonic()
    until = started + min(settings.timeout_s, (body.timeout_ms or 3_600_000) / 1000)
    item = body.input
    service.check_sizes({"text" if isinstance(item, str) else "": item})
    if not service.classifier.config.num_hidden_layers:
        raise Problem(422, "this model has no layers, so there are no heads to explain")
    service.admit(1)
    left = asyncio.create_task(gone())
    turn: asyncio.Task[Any] | None = None
    places = 1
    try:
        encoded = await first_of(asyncio.wrap_future(service.engine.encode([item])), left, until)
        tokenised = time.monotonic()
        if (length := len(encoded.input_ids[0])) > settings.max_explain_tokens:
            said = f"at most {settings.max_explain_tokens} tokens can be explained, got {length}"
            raise Problem(413, said, field="text")
        turn = asyncio.create_task(service.explaining.acquire())
        await first_of(turn, left, until)
        service.batcher.release(1)
        places = 0
        begun = time.monotonic()
        asked = service.batcher.tightened(*body.asked)
        heads = min(body.heads, service.classifier.config.num_attention_heads)
        work = asyncio.wrap_future(service.engine.explain(item, encoded, asked, heads=heads))
        explanation = await _explained(work, left, until)
        seconds = {"tokenisation": tokenised - started, "queue": begun - tokenised}
        seconds["inference"] = time.monotonic() - begun
        service.metrics.stages(**seconds)

        def write() -> Written:
            [dense] = service.dense_macs([explanation.prediction])
            service.metrics.answers([explanation.prediction], dense=[dense], shed=asked.shed is not None)
            parts = {
                "answer": value(row_of(explanation.prediction, macs_dense=dense, shed=asked.shed, details=True)),
                "tokens": value(explanation.tokens[:MAP_TOKENS]),
                "layers": array(_layers(explanation)),
            }
            return written(parts, seconds, started=started, texts=1)

        return await first_of(asyncio.wrap_future(service.engine.write(write)), left, until)
    finally:
        left.cancel()
        if places:
            service.batcher.release(places)
        if turn is not None:
            _end_turn(service, turn)


async def _explained(work: asyncio.Future[Explanation], gone: asyncio.Future[Any], until: float) -> Explanation:
    try:
        return await first_of(work, gone, until)
    except (Problem, Gone):
        raise
    except Exception as error:  # this request fails, the server goes on
        log.error("an input could not be explained", extra={"kind": type(error).__name__})
        raise Problem(500, "the model could not explain this input", field="text") from None


def _end_turn(service: Service, turn: asyncio.Task[Any]) -> None:
    """Let the next one in; the turn may have come at the very moment in which it was given up."""
    if turn.done() and not turn.cancelled():
        service.explaining.release()
    else:
        turn.cancel()


def _layers(explanation: Explanation) -> list[dict[str, Any]]:
    maps_LKNN = explanation.maps_LKNN[:, :, :MAP_TOKENS, :MAP_TOKENS].round(MAP_DECIMALS)
    layers = replace(explanation, maps_LKNN=maps_LKNN).to_dict()["layers"]
    return [{name: layer[name] for name in ("layer", "budget", "heads_kept", "heads")} for layer in layers]
