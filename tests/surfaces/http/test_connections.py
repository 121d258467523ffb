"""Clients that send slowly or hold many connections: closed in time, and nobody else is affected."""

from __future__ import annotations

import socket

import pytest
from tests.surfaces.http.conftest import Client, ServedNotes

from lorelog.surfaces.http import calls, server

HEAD = b"POST /api/call/stats HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture
def world(bare_world: ServedNotes) -> ServedNotes:
    """The project without its index: nothing here is about memories."""
    return bare_world


def read_all(connection: socket.socket) -> bytes:
    """Return everything until the server closes the connection."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize(
    "sent", [b"", b"GET", HEAD, HEAD + b"Content-Length: 10\r\n\r\n{", HEAD + b"Transfer-Encoding: chunked\r\n\r\n"]
)
def test_a_half_sent_request_is_closed_with_408(client: Client, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """Headers and bodies that do not arrive in time end the connection, also after a complete request."""
    monkeypatch.setattr(server, "HEADER_S", 0.1)
    monkeypatch.setattr(calls, "BODY_TIMEOUT_S", 0.1)
    connection = client.raw()
    if sent:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(sent)

    answer = read_all(connection)

    assert b"HTTP/1.1 408 Request Timeout\r\n" in answer
    assert answer.endswith(b'"hint":"send it at once"}}')
    assert client.get("/health").status == 200


def test_the_oldest_idle_connection_is_closed_beyond_the_limit(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit of an address, its oldest connection without a request is closed, and the new one is served."""
    monkeypatch.setattr(server, "MAX_PEER_CONNECTIONS", 3)
    held = [client.raw() for _ in range(3)]
    for connection in held[1:]:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")

    assert client.get("/health").status == 200
    assert read_all(held[0]).startswith(b"HTTP/1.1 408 ")
    held[2].sendall(b"Connection: close\r\n\r\n")
    assert read_all(held[2]).startswith(b"HTTP/1.1 200 ")
    held[1].close()
