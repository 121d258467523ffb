"""Every operation over HTTP: its reply, its errors, its progress, its end when nobody waits."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.surfaces.conftest import write
from tests.surfaces.http.conftest import JSON, Client, ServedNotes
from tests.threads import in_threads

from lorelog.core.errors import Cancelled, LorelogError, error_from_code
from lorelog.core.ports import Progress
from lorelog.operations.catalogue import all_operations
from lorelog.surfaces.http import calls

STREAM = {**JSON, "Accept": "text/event-stream"}


def events_of(body: str) -> list[tuple[str, Any]]:
    """Return the events of a stream, comments left out."""
    found = [
        dict(line.split(": ", 1) for line in event.split("\n"))
        for event in body.split("\n\n")
        if event[:1] not in "\n:"
    ]
    return [(event["event"], json.loads(event["data"])) for event in found]


def all_errors(top: type[LorelogError] = LorelogError) -> Iterator[type[LorelogError]]:
    yield top
    for kind in top.__subclasses__():
        yield from all_errors(kind)


def test_a_body_may_be_left_out(client: Client) -> None:
    """An operation without required fields is called by its short name and an empty body."""
    assert client.send("POST", "/api/call/stats", None, JSON).json["documents"] == 3


WRONG = [
    ("/api/call/serch", b"{}", 404, "not_found"),
    ("/api/call/memory.search", b"", 400, "usage"),
    ("/api/call/search", b"{", 400, "usage"),
    ("/api/call/search", b"[1]", 400, "usage"),
    ("/api/call/search", b'{"query": "\xff"}', 400, "usage"),
    ("/api/call/search", b'{"query": "\\ud800"}', 400, "usage"),
    ("/api/call/search", b'{"query": ' + b"[" * 100_000, 400, "usage"),
    ("/api/call/search", b'{"query": 5}', 400, "usage"),
    ("/api/call/search", b'{"query": "x", "qurey": 1}', 400, "usage"),
    ("/api/call/search", b'{"query": "x", "k": 0}', 400, "usage"),
    ("/api/call/search", b'{"query": "x", "since": "someday"}', 400, "usage"),
    ("/api/call/search", b'{"query": "x", "project": "/no/such/place"}', 404, "not_found"),
    ("/api/call/search", b'{"query": "x", "project": "a\\u0000b"}', 404, "not_found"),
    ("/api/call/search", b'{"query": "x", "tenant": "../.."}', 422, "config"),
    ("/api/call/expand", b'{"id": "zzz"}', 404, "not_found"),
    ("/api/call/", b"{}", 404, "not_found"),
    ("/api/call/a/b", b"{}", 404, "not_found"),
    ("/", b"{}", 405, "method"),
    ("/api/ops", b"{}", 405, "method"),
]


LATE = (b"project", b"tenant", b"zzz", b"since")
"""What only the operation itself can find wrong."""


def test_wrong_calls_are_told_as_objects(client: Client) -> None:
    """Each mistake has its status and an error with code, message and hint; what is wrong at a glance, before any stream."""
    for path, body, status, code in WRONG:
        late = any(word in body for word in LATE)
        for headers in (JSON,) if late else (JSON, STREAM):
            reply = client.send("POST", path, body, headers)

            assert (reply.status, reply.code) == (status, code), (path, body)
            assert set(reply.json["error"]) == {"code", "message", "hint"}


def test_every_error_has_its_status(world: ServedNotes) -> None:
    """An operation's error keeps its code, message and hint, under a status that fits; the table names only codes that there are."""
    assert [code for code in calls.STATUS_BY_CODE if error_from_code(code, "x").code != code] == []
    kinds = list(all_errors())
    failing = iter(kinds)

    def fail(*_: object) -> dict[str, Any]:
        raise next(failing)("it happened", hint="do this")

    client = world.serve(fail)
    for kind in kinds:
        reply = client.call("stats")

        assert reply.status == calls.STATUS_BY_CODE.get(kind.code, 500)
        assert reply.json == {"error": {"code": kind.code, "message": "it happened", "hint": "do this"}}
        assert ("retry-after" in reply.headers) == (reply.status == 503)


def test_operations_are_listed(client: Client) -> None:
    """/api/ops has every operation, with its schemas and with where it is offered."""
    listed = {operation["name"]: operation for operation in client.get("/api/ops").json["operations"]}

    assert set(listed) == set(all_operations())
    assert listed["memory.search"]["request"]["properties"]["query"]
    assert isinstance(listed["memory.reset"]["surfaces"]["http"], str)


def test_progress_is_streamed(client: Client, world: ServedNotes) -> None:
    """A long operation tells how far it has come, and ends with its reply."""
    for number in range(30):
        write(world.project / "notes" / f"n{number}.md", f"note {number}\n")

    reply = client.send("POST", "/api/call/index", b"{}", STREAM)
    *progress, (last, shape) = events_of(reply.text)

    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert {name for name, _ in progress} == {"progress"}
    assert all(set(data) == {"stage", "done", "total"} for _, data in progress)
    assert (last, shape["changed"], shape["files"]) == ("result", 30, 33)


def test_a_failure_ends_the_stream(client: Client) -> None:
    """What goes wrong on the way is the last event, with the usual object."""
    reply = client.send("POST", "/api/call/expand", b'{"id": "zzz"}', STREAM)

    ((name, data),) = events_of(reply.text)
    assert (reply.status, name, data["error"]["code"]) == (200, "error", "not_found")


@pytest.mark.slow
def test_a_quiet_stream_shows_that_it_lives(world: ServedNotes, monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is no progress, comments keep the connection alive."""
    monkeypatch.setattr(calls, "KEEPALIVE_S", 0.05)
    go_on = threading.Event()

    def wait(op: str, arguments: object, caller: object, progress: Progress | None = None) -> dict[str, Any]:
        go_on.wait(60)
        return {"done": True}

    with world.serve(wait).raw() as connection:
        connection.sendall(request("stats"))
        received = b""
        while received.count(b": working\n\n") < 3:
            received += connection.recv(65_536)
        go_on.set()
        while b"event: result" not in received:
            received += connection.recv(65_536)


def request(op: str, accept: str = "text/event-stream") -> bytes:
    return (
        f"POST /api/call/{op} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Accept: {accept}\r\nContent-Length: 2\r\n\r\n{{}}"
    ).encode()


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
def test_a_disconnected_client_cancels_its_operation(world: ServedNotes, accept: str) -> None:
    """A client that goes away in the middle has its operation cancelled at the next step, and frees its thread."""
    begun, ended = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def work(op: str, arguments: object, caller: object, progress: Progress | None = None) -> dict[str, Any]:
        assert progress is not None
        try:
            for step in range(100_000):
                progress("words", step, 100_000)
                begun.set()
                threading.Event().wait(0.005)
        except Cancelled as error:
            raised.append(error)
            raise
        finally:
            ended.set()
        return {}

    client = world.serve(work)
    with client.raw() as connection:
        connection.sendall(request("index", accept))
        assert begun.wait(60)
    assert ended.wait(60)
    assert [type(error) for error in raised] == [Cancelled]
    assert client.get("/health").status == 200


@pytest.mark.slow
def test_a_reader_that_does_not_read_costs_no_memory(world: ServedNotes) -> None:
    """Progress that nobody reads is passed over: the operation ends, and only the latest is kept."""
    told, ended = 0, threading.Event()

    def work(op: str, arguments: object, caller: object, progress: Progress | None = None) -> dict[str, Any]:
        nonlocal told
        assert progress is not None
        for step in range(20_000):
            progress("words" * 200, step, 20_000)
            told += 1
        ended.set()
        return {}

    with world.serve(work).raw() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.sendall(request("index"))
        assert ended.wait(60)
        received = b""
        while b"event: result" not in received:
            received += connection.recv(65_536)

    assert told == 20_000
    assert received.count(b"event: progress") < 1000


@pytest.mark.slow
def test_many_ask_at_once(client: Client, world: ServedNotes) -> None:
    """Sixteen clients that search and add at the same time are all answered, and everything added is found."""
    statuses: list[int] = []

    def ask(number: int) -> None:
        statuses.append(client.call("add", text=f"memory number {number} of walruses").status)
        statuses.append(client.call("search", query="walruses").status)

    assert in_threads(ask, 16) == []

    assert statuses == [200] * 32
    assert len(client.call("search", query="walruses", k=50).json["hits"]) >= 16


def test_metrics_are_prometheus_text(client: Client) -> None:
    """/metrics has the counters in the text format 0.0.4, each with its type, each line well formed."""
    client.call("search", query="redis")
    client.call("expand", id="zzz")

    reply = client.get("/metrics")

    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = reply.text.splitlines()
    assert 'lorelog_operations_total{op="memory.search"} 1' in lines
    assert 'lorelog_operation_errors_total{op="memory.expand"} 1' in lines
    kinds = {line.split(" ")[2]: line.split(" ")[3] for line in lines if line.startswith("# TYPE ")}
    for line in lines:
        if not line.startswith("#"):
            name, value = line.rpartition(" ")[::2]
            assert name.partition("{")[0] in kinds
            assert float(value) >= 0
    assert reply.text.endswith("\n")


def test_labels_are_escaped() -> None:
    """A quote, a backslash or a line break in a label does not end it."""
    from lorelog.surfaces.http.server import render_metrics

    shape = {"uptime_s": 1.5, "rss_bytes": 2, "operations": [], "cache": {}}

    assert 'version="a\\"b\\\\c\\nd"' in render_metrics(shape, 'a"b\\c\nd')
