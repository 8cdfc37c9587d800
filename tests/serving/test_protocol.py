"""What comes before a request, byte by byte: heads without end, slow ones, offers of other protocols, no HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import Any

import httpx
import psutil
import pytest
import uvicorn

from budgetformer.serving import protocol

from .running import KEY, Running

OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"


def request(text: str, extra: bytes = b"") -> bytes:
    body = json.dumps({"texts": [text]}).encode()
    lines = [b"POST /classify HTTP/1.1", b"Host: x", b"X-API-Key: " + KEY.encode(), b"Content-Type: application/json"]
    lines.append(b"Content-Length: " + str(len(body)).encode())
    return b"\r\n".join(lines) + b"\r\n" + extra + b"\r\n" + body


class Line:
    """A connection on which bytes are sent and whole answers read."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def read(self) -> tuple[int, dict[str, Any]]:
        """Status and JSON of the next answer."""
        status = int(self.file.readline().split()[1])
        headers: dict[str, str] = {}
        while line := self.file.readline().decode("ascii").strip():
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        assert headers["content-type"] == "application/json"
        return status, json.loads(self.file.read(int(headers["content-length"])))


@pytest.mark.parametrize("parts", [1, 7, 40])
def test_an_offer_of_another_protocol_is_passed_over(server: Running, parts: int) -> None:
    [expected] = server.classify("good film")
    sent = request("good film", OFFER)
    size = len(sent) // parts + 1
    with Line(server.url) as line:
        line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(sent), size):
            line.socket.sendall(sent[start : start + size])
        status, answer = line.read()
        assert (status, answer["answers"]) == (200, [expected])
        line.socket.sendall(request("good film"))
        assert line.read()[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\n\r\n",
        b"POST /classify HTTP/1.1\r\nX-API-Key: " + KEY.encode() + b"\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["tls", "connect", "version", "bytes in the path", "broken chunk"],
)
def test_what_is_no_http_is_refused_in_json(server: Running, sent: bytes) -> None:
    with Line(server.url) as line:
        line.socket.sendall(sent)
        status, reason = line.read()
        assert (status, set(reason)) == (400, {"error", "fields"})
        assert line.file.read() == b""


def test_what_follows_a_request_does_not_cost_its_answer(server: Running) -> None:
    with Line(server.url) as line:
        line.socket.sendall(request("good film") + b"\x00 no http \r\n\r\n")
        assert line.read()[0] == 200
        assert line.file.read() == b""


def test_a_head_without_end_is_refused_and_not_held(server: Running) -> None:
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    with Line(server.url) as line:
        line.socket.sendall(b"GET /health HTTP/1.1\r\nX-Long: ")
        sent = 0
        with contextlib.suppress(OSError):  # the server hangs up
            while sent < 60_000_000:
                line.socket.sendall(b"a" * 100_000)
                sent += 100_000
    assert sent < 60_000_000
    assert process.memory_info().rss < before + 20_000_000
    long = httpx.get(f"{server.url}/health", headers={"X-Long": "a" * 200_000})
    assert (long.status_code, set(long.json())) == (431, {"error", "fields"})
    assert httpx.get(f"{server.url}/health", headers={"X-Long": "a" * 20_000}).status_code == 200


def test_a_slow_head_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "SECONDS", 0.2)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    async def talk() -> tuple[bytes, bytes, bytes]:
        config = uvicorn.Config(app, http=protocol.LimitedHead, lifespan="off", log_config=None)
        config.load()
        server = uvicorn.Server(config)
        listening = await asyncio.get_running_loop().create_server(
            lambda: protocol.LimitedHead(config=config, server_state=server.server_state, app_state={}), "127.0.0.1"
        )
        port = listening.sockets[0].getsockname()[1]

        async def said(sent: bytes) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            answer = await asyncio.wait_for(reader.read(), 30)
            writer.close()
            await writer.wait_closed()
            return answer

        answers = await said(b""), await said(b"GET / HT"), await said(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP")
        listening.close()
        await listening.wait_closed()
        return answers

    silent, slow, second = asyncio.run(talk())
    assert silent == b""
    assert slow.startswith(b"HTTP/1.1 408 ")
    assert second.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in second


def test_a_head_that_comes_in_one_piece_has_the_same_limit() -> None:
    asked = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def said(sent: bytes) -> bytes:
        config = uvicorn.Config(app, http=protocol.LimitedHead, lifespan="off", log_config=None)
        config.load()
        state = uvicorn.Server(config).server_state
        ours, theirs = socket.socketpair()
        theirs.sendall(sent)
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: protocol.LimitedHead(config=config, server_state=state, app_state={}), ours
        )
        reader, writer = await asyncio.open_connection(sock=theirs)
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        await writer.wait_closed()
        return answer

    def head(path: str, letters: int) -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: {'a' * letters}\r\n\r\n".encode()

    assert asyncio.run(said(head("/short", 60_000))).startswith(b"HTTP/1.1 204 ")
    assert asyncio.run(said(head("/long", 100_000))).startswith(b"HTTP/1.1 431 ")
    assert asyncio.run(said(head(f"/{'b' * 100_000}", 1))).startswith(b"HTTP/1.1 431 ")
    assert asked == ["/short"]
