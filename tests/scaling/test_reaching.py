"""Where nothing listens, nobody waits; and a loopback address stays one where the cluster is on the loopback alone."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from budgetformer.scaling import reaching
from budgetformer.scaling.reaching import AS_GIVEN, settings_for


@pytest.fixture
def port() -> Iterator[int]:
    """Of a listener on the loopback alone."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_listener_on_the_loopback_alone_is_asked_there(host: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "_own_address", lambda: "127.0.0.9")  # this machine's too, and nothing listens there
    assert settings_for(f"{host}:{port}") == AS_GIVEN
    monkeypatch.setattr(reaching, "_own_address", lambda: None)
    assert settings_for(f"{host}:{port}") == AS_GIVEN


def test_a_listener_at_the_machines_own_address_is_asked_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "_own_address", lambda: "127.0.0.9")
    with socket.create_server(("127.0.0.9", 0)) as listener:
        port = listener.getsockname()[1]
        assert settings_for(f"127.0.0.1:{port}") == {}
        assert settings_for(f"127.0.0.9:{port}") == {}


def test_auto_is_left_to_ray() -> None:
    assert settings_for("auto") == {}


@pytest.mark.parametrize(
    "address", ["", "here", "10.0.0.1", ":6379", "10.0.0.1:0", "10.0.0.1:70000", "10.0.0.1:x", "a:²"]
)
def test_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(ValueError, match="--ray-address must be HOST:PORT") as refused:
        settings_for(address)
    assert repr(address) in str(refused.value)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "127.0.0.9", "ray://127.0.0.1", "no such host", "a" * 70 + ".example"]
)
def test_where_nothing_listens_it_is_said_at_once(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    with pytest.raises(ValueError, match="no cluster listens there") as refused:
        settings_for(f"{host}:{free}")
    assert f"{host}:{free}" in str(refused.value)
