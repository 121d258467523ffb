"""The HTTP client: one deadline for an exchange, limits on concurrency, and no key in a message."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.embedding_server import EmbeddingServer, well
from tests.threads import in_threads

from lorelog.core.errors import ModelUnavailable
from lorelog.models.http import Credentials, Endpoint, HttpReply, RateLimiter

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
        endpoint.post("x", {})


def test_the_same_answer_in_time_is_taken(serve: Callable[[list[bytes]], str]) -> None:
    """Pieces that all arrive in time are one reply."""
    for pieces in ([GOOD[:20], GOOD[20:]], [CHUNKED, b"1\r\n{\r\n", b"1\r\n}\r\n0\r\n\r\n"]):
        endpoint = Endpoint(serve(pieces), 20)
        assert endpoint.post("x", {}) == HttpReply(200, b"{}")
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
    endpoint = Endpoint("http://two.test/v1", 4, Credentials("key", "THE_VARIABLE"))
    try:
        reply = endpoint.post("embeddings", {"input": ["a"], "encoding_format": "float"})
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


def test_googles_own_word_for_the_wait_is_understood() -> None:
    """Google's retry delay in the body is honoured."""
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.6s"}]
    body = json.dumps({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details}}).encode()
    assert HttpReply(429, body).retry_delay(0.5) == 0.6


KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=80)
STATUSES = st.sampled_from([200, 302, 400, 401, 402, 404, 422, 429, 500])


@given(KEYS, STATUSES, st.text(max_size=40), st.booleans())
def test_a_refusal_never_shows_the_key(key: str, status: int, around: str, broken: object) -> None:
    """The key is not shown plain, escaped or in a URL, even in an incomplete reply."""
    account = Endpoint("http://host.test/v1", 1, Credentials(key, "THE_VARIABLE"))
    percent = "".join(f"%{ord(letter):02X}" for letter in key)
    for written in (key, quote(key, safe=""), quote(key), key.replace("/", "\\/"), json.dumps(key), percent):
        body = json.dumps({"error": {"message": f"{around}{written}{around}"}}).encode()
        body = body[:-2] if broken else body
        refused = account.error_for_reply(HttpReply(status, body), "embed")
        said = f"{refused.message} {refused.hint} {account.server_message(body)}"
        if key not in f"host.test THE_VARIABLE {around}":
            assert key not in said
            assert key not in unquote(said)


def test_no_more_go_at_once_than_are_allowed() -> None:
    """The limit on concurrent requests holds for any number of threads."""
    pace, lock = RateLimiter(3), threading.Lock()
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        with pace.slot():
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.01)
            with lock:
                inside -= 1

    assert in_threads(lambda _: work(), 12) == []
    assert most == 3


def test_a_hold_halves_and_good_answers_bring_back() -> None:
    """After a 429 the concurrency is halved, but never zero; each good reply raises it by one, up to the initial limit."""
    pace = RateLimiter(4)
    allowed = [pace._allowed]
    for step in (pace.back_off, pace.back_off, pace.back_off):
        step(0)
        allowed.append(pace._allowed)
    for _ in range(5):
        pace.recover()
        allowed.append(pace._allowed)
    assert allowed == [4, 2, 1, 1, 2, 3, 4, 4, 4]


def test_a_hold_is_for_everyone() -> None:
    """No slot is granted before the delay is over, not even for an urgent request."""
    pace = RateLimiter(4)
    pace.back_off(0.3)
    until = time.monotonic() + 0.3
    for urgent in (False, True):
        with pace.slot(urgent=urgent):
            assert time.monotonic() >= until


def test_a_question_passes_texts() -> None:
    """An urgent request does not wait for a slot."""
    pace = RateLimiter(1)
    with pace.slot(), pace.slot(urgent=True):
        pass
