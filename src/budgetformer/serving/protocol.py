"""HTTP before there is a request: its head has limits in bytes and time, and what is no HTTP gets an answer in JSON."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_BYTES = 65_536
"""Of the request line and header lines of one request."""
SECONDS = 30.0
"""From the first byte of a head to its last one; also how long a new connection may say nothing."""
TOO_LONG = f"at most {MOST_BYTES} bytes of request line and headers"
OF_UPGRADES = (b"upgrade", b"http2-settings")


class LimitedHead(HttpToolsProtocol):
    """uvicorn's protocol with what it lacks.

    It would hold a head without end, from a client that sends it as slowly as it likes. And it takes the body of a
    request that offers another protocol (Java's client offers HTTP/2 with the first one) for that protocol, though we
    speak none: here an offer is passed over, as HTTP says.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_head, self._begun, self._head_bytes = True, False, 0
        self._refused = False
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there; it has ``SECONDS`` to say what it wants."""
        super().connection_made(transport)
        self._late = self.loop.call_later(SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes of it."""
        if self._refused or self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        self._head_bytes += len(data) if self._in_head else 0
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self.send_400_response("not an HTTP request")
        if not self._in_head or self._refused:
            return
        if self._head_bytes > MOST_BYTES:
            self._refuse(431, TOO_LONG)
        elif self._begun and self._late is None:
            self._late = self.loop.call_later(SECONDS, self._too_slow)

    def on_message_begin(self) -> None:
        """The first byte of a head."""
        self._begun = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A request begins."""
        if self.parser.should_upgrade():
            return  # it is read again without the offer
        if self._size() > MOST_BYTES:  # it came in one piece
            self._refuse(431, TOO_LONG)
            raise httptools.HttpParserError(TOO_LONG)
        self._in_head, self._begun, self._head_bytes = False, False, 0
        self._stop_clock()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Its body is whole; what follows is the next head."""
        if not self._in_head:
            self._in_head = True
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What follows is no HTTP."""
        self._refuse(400, msg)

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            method = self.parser.get_method()
            if method == b"CONNECT":
                raise httptools.HttpParserError("this is no proxy") from None
            lines = [method + b" " + self.url + b" HTTP/1.1"]
            lines += [name + b": " + value for name, value in map(_without_offer, self.headers) if value]
            self.parser = httptools.HttpRequestParser(self)
            self._feed(b"\r\n".join([*lines, b"", data[offer.args[0] :]]))

    def _size(self) -> int:
        """Bytes of the head that was read, without its spaces and line ends."""
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _too_slow(self) -> None:
        self._late = None
        if self._begun:
            self._refuse(408, "the head of the request did not arrive in time")
        elif not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        """Answer and close; while an earlier request waits for its answer, close after that instead."""
        self._stop_clock()
        self._refused = True
        if self.transport.is_closing():
            return
        of_its_body = not self._in_head and not self.pipeline and self.cycle and not self.cycle.response_started
        if self.cycle is None or self.cycle.response_complete or of_its_body:
            body = json.dumps({"error": message, "fields": []}).encode()
            head = (f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "content-type: application/json")
            lines = "\r\n".join([*head, f"content-length: {len(body)}", "connection: close", "", ""])
            self.transport.write(lines.encode() + body)
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def _without_offer(header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """A header line with an empty value where it only offers another protocol."""
    name, value = header
    if name in OF_UPGRADES:
        return name, b""
    if name == b"connection":
        words = [word.strip() for word in value.split(b",")]
        return name, b", ".join(word for word in words if word.lower() not in OF_UPGRADES)
    return header
