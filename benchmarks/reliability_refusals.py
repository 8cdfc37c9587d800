"""The part ``refusals`` of ``reliability.py``: requests that are the client's fault, of many kinds, among good ones."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from reliability_parts import Row, Setting
from reliability_servers import Server

GOOD = {"texts": ["nothing to see here"], "max_budget": 0.5}
LIMITS = ("--max-bytes", 100_000, "--max-texts", 64, "--max-characters", 5000)
WRONG: dict[str, list[Any]] = {
    "texts": [None, True, 3, -1.5, "x", {}, [], [None], ["a", 1], [[]], [{"text": "a"}], ["a"] * 65, ["x" * 5001]],
    "max_budget": [True, "0.5", [], {}, 0, -0.1, 1.0001, 9, 1e300],
    "budget": [0.5, 0, "all"],  # beside max_budget
    "details": [None, 1, "yes", []],
    "timeout_ms": [True, "1", 0, -1, 1e12, []],
    "pairs": [[], [{"text": "a", "pair": "b"}], "a"],
    "polcy": [1],
}
BODIES: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n",
    "a list": b"[]",
    "a text": b'"x"',
    "a number": b"3",
    "null": b"null",
    "not UTF-8": b'{"texts": ["\xff"]}',
    "UTF-16": '{"texts": ["a"]}'.encode("utf-16"),
    "half a surrogate pair": rb'{"texts": ["\ud800"]}',
    "NaN": b'{"texts": ["a"], "max_budget": NaN}',
    "Infinity": b'{"texts": ["a"], "max_budget": -Infinity}',
    "a number beyond range": b'{"texts": ["a"], "max_budget": 1e400}',
    "a number of 50,000 digits": b'{"texts": ["a"], "max_budget": ' + b"9" * 50_000 + b"}",
    "lists in lists": b"[" * 90_000,
    "objects in objects": b'{"texts":' * 9_000,
    "two values": b'{"texts": ["a"]} {}',
    "single quotes": b"{'texts': ['a']}",
    "a comment": b'{"texts": ["a"]} // yes',
    "a form": b"texts=a",
    "XML": b"<texts><a/></texts>",
    "too many bytes": b'{"texts": ["' + b"x" * 100_000 + b'"]}',
}
HEAD = b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
RAW: dict[str, bytes] = {
    "TLS to a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
    "no HTTP": b"hello\r\n\r\n",
    "CONNECT": b"CONNECT example.org:443 HTTP/1.1\r\n\r\n",
    "a version that is not": b"GET / HTTP/9.9\r\n\r\n",
    "bytes in the path": b"GET /\xff\xfe HTTP/1.1\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -5\r\n\r\n{}",
    "a length without end": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a broken chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a declared length over the limit": HEAD + b"Content-Length: 100001\r\n\r\n",
    "headers over the limit": b"GET /health HTTP/1.1\r\nX: " + b"a" * 70_000,
    "a null byte in a header": b"GET /health HTTP/1.1\r\nX: \x00\r\n\r\n",
}


@dataclass(frozen=True, kw_only=True)
class Bad:
    """A request that must be refused: over ``httpx``, or as ``raw`` bytes."""

    kind: str
    method: str = "POST"
    path: str = "/classify"
    content_type: str | None = "application/json"
    body: bytes = b""
    chunked: bool = False
    raw: bytes | None = None


def catalogue() -> Iterator[Bad]:
    """All of them."""
    whole = json.dumps(GOOD).encode()
    for end in range(len(whole)):
        yield Bad(kind=f"cut after {end} bytes", body=whole[:end])
    for field, values in WRONG.items():
        for value in values:
            yield Bad(kind=f"{field} {json.dumps(value)[:30]}", body=json.dumps(GOOD | {field: value}).encode())
    for kind, body in BODIES.items():
        yield Bad(kind=kind, body=body)
        yield Bad(kind=f"{kind}, in chunks", body=body, chunked=True)
        yield Bad(kind=f"{kind}, to /explain", body=body, path="/explain")
    yield Bad(kind="no field", body=b"{}")
    for kind in (None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json"):
        yield Bad(kind=f"content type {kind}", body=whole, content_type=kind)
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
        yield Bad(kind=f"method {method}", method=method)
    for path in ("/nowhere", "/classify/", "//classify", "/../etc/passwd", "/%00", "/%ff%fe", "/static/../app.py"):
        yield Bad(kind=f"path {path}", path=path, body=whole)
    for kind, raw in RAW.items():
        yield Bad(kind=kind, raw=raw)


def refusals(setting: Setting) -> Iterator[Row]:
    """Is every one answered with 4xx and a reason in JSON, the server alive, and good requests beside them right?"""
    bad = list(catalogue()) * setting.times
    random.Random(0).shuffle(bad)
    amiss: set[str] = set()
    answered = 0
    with setting.server("refusals", *LIMITS) as server:
        before = server.memory
        with setting.crowd(server, clients=2) as crowd, httpx.Client(base_url=server.url, timeout=60) as client:
            for one in bad:
                if _is_refused(one, client, server):
                    answered += 1
                else:
                    amiss.add(one.kind)
        after = server.memory
        alive = server.process.poll() is None and server.is_ready()
    figures = {"kinds": len({one.kind for one in bad}), "tried": len(bad), "refused": answered, "amiss": sorted(amiss)}
    good = {f"good_{name}": value for name, value in crowd.tally.row().items()}
    yield figures | {"alive": alive, "memory_before": before, "memory_after": after} | good


def _is_refused(bad: Bad, client: httpx.Client, server: Server) -> bool:
    if bad.raw is not None:
        status, kind, body = _raw(bad.raw, server.port)
    else:
        headers = {} if bad.content_type is None else {"Content-Type": bad.content_type}
        content = iter([bad.body]) if bad.chunked else bad.body
        response = client.request(bad.method, bad.path, content=content, headers=headers)
        status, kind, body = response.status_code, response.headers.get("content-type", ""), response.content
    try:
        reason = json.loads(body)
    except ValueError:
        return False
    return 400 <= status < 500 and kind == "application/json" and bool(reason.get("error"))


def _raw(sent: bytes, port: int) -> tuple[int, str, bytes]:
    """Status, content type and body of the answer; 0 without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        line.sendall(sent)
        with line.makefile("rb") as answer:
            status = answer.readline().split()
            headers = {}
            while header := answer.readline().strip():
                name, _, value = header.decode("latin-1").partition(": ")
                headers[name.lower()] = value
            body = answer.read(int(headers.get("content-length", 0)))
    return int(status[1]) if len(status) > 1 else 0, headers.get("content-type", ""), body
