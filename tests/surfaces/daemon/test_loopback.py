"""The daemon on a system without Unix sockets: a port on loopback, and a token in a private file."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.daemon.conftest import PATIENCE_S, Counter, last_answer, request

from lorelog.core.errors import DaemonError, DaemonNotRunning
from lorelog.light.daemon_connection import (
    TOKEN_BYTES,
    DaemonAddress,
    check_socket,
    connect,
    is_listening,
    read_endpoint,
)

Serve = Callable[..., Counter]


def echo(op: str, arguments: Any, caller: Any, progress: Any) -> dict[str, Any]:
    return {"op": op, "arguments": arguments}


@pytest.fixture
def address(home: Path) -> DaemonAddress:
    return DaemonAddress(str(home), loopback=True)


def knock(address: DaemonAddress, first: bytes) -> dict[str, Any]:
    """Connect to the port without our client, and return what the daemon answers to a request after `first`."""
    with socket.create_connection(("127.0.0.1", read_endpoint(address.socket)[0]), timeout=PATIENCE_S) as foreign:
        foreign.sendall(first + request("memory.search"))
        with foreign.makefile("rb") as lines:
            reply: dict[str, Any] = json.loads(lines.readline())
            return reply


def test_requests_are_answered_over_loopback(serve: Serve, address: DaemonAddress) -> None:
    """A client that reads the token's file is served on a port of loopback, many requests on one connection."""
    serve(echo, address=address)

    assert is_listening(address)
    descriptor = connect(address).detach()
    with socket.socket(fileno=descriptor) as connection:
        connection.settimeout(PATIENCE_S)
        for number in range(3):
            connection.sendall(request("one", {"n": number}))
            assert last_answer(connection)["result"] == {"op": "one", "arguments": {"n": number}}
        assert connection.getpeername()[0] == "127.0.0.1"


@pytest.mark.parametrize("first", [b"", b"0" * TOKEN_BYTES, b"x"])
def test_a_client_without_the_token_is_refused(serve: Serve, address: DaemonAddress, first: bytes) -> None:
    """Another user of the machine can connect to the port, and gets nothing but a refusal."""
    served: list[str] = []

    def record(op: str, arguments: Any, caller: Any, progress: Any) -> dict[str, Any]:
        served.append(op)
        return {}

    serve(record, address=address)

    reply = knock(address, first)

    assert reply["error"]["message"] == "this daemon belongs to another user"
    assert served == []
    assert is_listening(address)


def test_the_token_is_for_its_owner_only(serve: Serve, address: DaemonAddress) -> None:
    """The file with port and token has mode 0600, is a new one for each daemon, and goes with it."""
    counter = serve(echo, address=address)
    path = Path(address.socket)
    first = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    counter.stop()
    assert not path.exists()

    serve(echo, address=address)

    assert path.read_bytes().split()[1] != first.split()[1]


def test_a_file_without_a_port_is_not_a_daemon(address: DaemonAddress) -> None:
    """A killed daemon's file, a file with other content and no file mean that none runs; a directory is an error."""
    path = Path(address.socket)
    path.parent.mkdir(parents=True, mode=0o700)
    for content in (b"", b"nonsense", b"1 " + b"0" * TOKEN_BYTES):
        path.write_bytes(content)
        with pytest.raises(DaemonNotRunning):
            connect(address)
    path.unlink()
    assert not check_socket(address)
    path.mkdir()
    with pytest.raises(DaemonError, match="is not a socket"):
        check_socket(address)
