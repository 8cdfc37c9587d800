"""Does a cluster listen at an address? Asked before any work: Ray itself waits there for minutes, without a word."""

from __future__ import annotations

import socket

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SECONDS = 10.0
"""For a connection."""
AS_GIVEN = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Keeps Ray from putting this machine's own address in the place of a loopback one."""


def settings_for(address: str) -> dict[str, str]:
    """What Ray's environment needs to find the cluster at ``address``: HOST:PORT, or auto, which Ray looks up itself.

    A loopback address stands for this machine: for the address by which others reach it where a cluster listens there,
    else for the loopback itself. Raises ValueError that says what to do when nothing listens.
    """
    if address == "auto":
        return {}
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ValueError(f"--ray-address must be HOST:PORT, such as 10.0.0.1:6379, or auto, got {address!r}")
    if host not in LOOPBACK:
        if listens(host, int(port)):
            return {}
    elif (own := _own_address()) and listens(own, int(port)):
        return {}
    elif listens(host, int(port)):
        return AS_GIVEN
    raise ValueError(
        f"--ray-address {address}: no cluster listens there; give the host and port that ray start --head has printed "
        "(6379 is usual), or leave it out"
    )


def listens(host: str, port: int) -> bool:
    """Whether a connection is accepted."""
    try:
        with socket.create_connection((host, port), timeout=SECONDS):
            return True
    except (OSError, UnicodeError):  # the latter for what can be no name of a machine
        return False


def _own_address() -> str | None:
    """By which other machines reach this one; None without a network. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 9))  # an address that is nobody's
        except OSError:
            return None
        return str(asked.getsockname()[0])
