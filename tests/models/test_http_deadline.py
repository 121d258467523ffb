"""One deadline covers a whole exchange, however a server spreads its reply."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from tests.models.embedding_server import EmbeddingServer, well

from lorelog.core.errors import ModelUnavailable
from lorelog.models.http import Endpoint, HttpReply

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECES = 20


@pytest.fixture
def serve() -> Iterator[Callable[[list[bytes]], str]]:
    """Start a server that sends pieces of a reply, a tenth of a second apart."""
    stopping = threading.Event()
    threads: list[threading.Thread] = []

    def start(pieces: list[bytes]) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.settimeout(20)

        def answer() -> None:
            with listening, suppress(OSError):
                channel, _ = listening.accept()
                with channel:
                    channel.recv(1 << 16)
                    for piece in pieces:
                        channel.sendall(piece)
                        if stopping.wait(0.1):
                            return

        threads.append(threading.Thread(target=answer))
        threads[-1].start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield start
    stopping.set()
    for thread in threads:
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    "pieces",
    [
        [GOOD[place : place + 1] for place in range(len(GOOD))],
        [b"HTTP/1.1 100 Continue\r\n\r\n"] * PIECES + [GOOD],
        [GOOD[:17], *[b"X: y\r\n"] * PIECES, GOOD[17:]],
        [CHUNKED, b"2;", *[b"a"] * PIECES, b"\r\n{}\r\n0\r\n\r\n"],
        [CHUNKED, b"2\r\n{}\r\n0\r\n", *[b"X: y\r\n"] * PIECES, b"\r\n"],
    ],
    ids=["all of it", "continue", "headers", "a chunk's size", "trailers"],
)
def test_an_answer_that_drips_is_left(pieces: list[bytes], serve: Callable[[list[bytes]], str]) -> None:
    """A reply whose pieces arrive steadily but too late ends at the deadline."""
    endpoint = Endpoint(serve(pieces), 0.5)
    with pytest.raises(ModelUnavailable, match=r"did not answer within 0\.5 s"):
        endpoint.post("x", b"{}", {})


def test_the_same_answer_in_time_is_taken(serve: Callable[[list[bytes]], str]) -> None:
    """Pieces that all arrive in time are one reply."""
    for pieces in ([GOOD[:20], GOOD[20:]], [CHUNKED, b"1\r\n{\r\n", b"1\r\n}\r\n0\r\n\r\n"]):
        endpoint = Endpoint(serve(pieces), 20)
        assert endpoint.post("x", b"{}", {}) == HttpReply(200, b"{}")
        endpoint.close()


@pytest.mark.slow
def test_a_silent_address_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the first of two addresses is silent, the second is tried within the same time."""
    server = EmbeddingServer(well)
    full = socket.create_server(("127.0.0.1", 0), backlog=0)
    waiting = [socket.socket() for _ in range(4)]  # until nobody else is let in
    for client in waiting:
        client.setblocking(False)
        client.connect_ex(full.getsockname())
    time.sleep(0.05)
    answering = int(server.url.removesuffix("/v1").rpartition(":")[2])
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in (full.getsockname()[1], answering)
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    endpoint = Endpoint("http://two.test/v1", 4)
    try:
        reply = endpoint.post("embeddings", b'{"input": ["a"], "encoding_format": "float"}', {})
    finally:
        endpoint.close()
        server.stop()
        for client in (*waiting, full):
            client.close()
    assert reply.status == 200


@pytest.mark.parametrize(
    "said",
    ["-5", "0", "nan", "-inf", "soon", "", "Mon, 01 Jan 2001 00:00:00 GMT", "Fri, 31 Dec 99999 23:59:59 GMT", "1" * 99],
)
def test_an_invalid_retry_after_is_replaced(said: str) -> None:
    """A Retry-After in the past or below one does not use up six attempts at once; one that is too long ends the request."""
    assert HttpReply(429, b"", said).retry_delay(0.5) == (0.5 if len(said) < 99 else float("1" * 99))
