"""The daemon's socket server with valid and invalid input."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.surfaces.daemon.conftest import Counter, answers, eventually, last_answer, request

from lorelog.core.errors import NotFound, StoreBusy
from lorelog.light.daemon_connection import MAX_REQUEST_BYTES, PROTOCOL
from lorelog.surfaces.daemon.connection import ServerLimits

Serve = Callable[..., Counter]


def echo(op: str, arguments: Any, caller: Any, progress: Any) -> dict[str, Any]:
    return {"op": op, "arguments": arguments, "directory": caller.directory, "environment": caller.environment}


class Gate:
    """An operation that waits until the test lets it finish."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)

    def __call__(self, op: str, arguments: Any, caller: Any, progress: Any) -> dict[str, Any]:
        self.entered.release()
        assert self.open.wait(60)
        return {"op": op}


def test_requests_on_one_connection_are_answered_in_turn(serve: Serve) -> None:
    """A connection carries many requests, each gets one response, in order; the client's directory and environment arrive unchanged."""
    counter = serve(echo)
    with counter.connect() as connection:
        caller = {"directory": "/somewhere", "environment": {"LORELOG_SEARCH_K": "3"}}
        connection.sendall(b"".join(request("one", {"n": n}, caller=caller) for n in range(50)))
        found = answers(connection)
        expected = [{"op": "one", "arguments": {"n": n}, **caller} for n in range(50)]
        assert [next(found)["result"] for _ in range(50)] == expected


def test_clients_in_turn_share_threads(serve: Serve) -> None:
    """Clients that come one after the other are served by few threads, not by a new one each."""
    served: dict[threading.Thread, int] = {}
    counter = serve(lambda *call: {"thread": served.setdefault(threading.current_thread(), len(served))})
    for _ in range(40):
        with counter.connect() as connection:
            connection.sendall(request("one"))
            assert last_answer(connection)["ok"]
        eventually(lambda: not counter.server.connection_count())
    assert 0 < len(served) < 20


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{\n", "not valid JSON"),
        (b"[1, 2]\n", "Expected `object`, got `array`"),
        (b'"text"\n', "Expected `object`, got `str`"),
        (b"\xff\xfe\x00\n", "not valid JSON"),
        (b"[" * 60_000 + b"\n", "not valid JSON"),
        (b"{}\n", "has no 'op'"),
        (b'{"op": 7}\n', "Expected `str`, got `int` - at `$.op`"),
        (b'{"op": "a", "arguments": []}\n', "at `$.arguments`"),
        (b'{"op": "a", "caller": "me"}\n', "at `$.caller`"),
        (b'{"op": "a", "caller": {"environment": {"A": 1}}}\n', "at `$.caller.environment[...]`"),
        (b'{"op": "a", "protocol": true}\n', "at `$.protocol`"),
        (request("daemon.restart"), "no operation 'daemon.restart'"),
        (b'{"op": "' + b"x" * 100_000 + b'"\n', "not valid JSON"),
    ],
)
def test_a_malformed_request_gets_a_usage_error(serve: Serve, line: bytes, said: str) -> None:
    """A malformed request gets a usage error that names the problem, and the next request works."""
    counter = serve(echo)
    with counter.connect() as connection:
        connection.sendall(line + request("fine"))
        found = answers(connection)
        first, second = next(found), next(found)

    assert (first["ok"], first["error"]["code"]) == (False, "usage")
    assert said in first["error"]["message"]
    assert second["result"]["op"] == "fine"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["op", "caller", "arguments"]), inner),
    max_leaves=8,
)


@pytest.mark.slow
def test_noise_never_ends_the_daemon(serve: Serve) -> None:
    """For any bytes or JSON, each line gets a response and the next client is served."""
    counter = serve(echo)

    @settings(max_examples=examples(60), deadline=None)
    @given(noise=st.lists(st.binary(max_size=300), max_size=5), value=JSON)
    def make_noise(noise: list[bytes], value: Any) -> None:
        with counter.connect() as connection:
            connection.sendall(b"\n".join(noise) + b"\n" + json.dumps(value).encode() + b"\n")
            connection.shutdown(socket.SHUT_WR)
            assert all(answer["ok"] in {True, False} for answer in answers(connection))
        with counter.connect() as connection:
            connection.sendall(request("fine"))
            assert last_answer(connection)["ok"]

    make_noise()


def test_a_truncated_request_is_told_so(serve: Serve) -> None:
    """A client that disconnects in the middle of a line gets an error, and nothing is done."""
    counter = serve(echo)
    with counter.connect() as connection:
        connection.sendall(request("fine")[:-5])
        connection.shutdown(socket.SHUT_WR)
        assert "ends without a newline" in last_answer(connection)["error"]["message"]
    assert counter.runner.calls == 0


@pytest.mark.parametrize("ended", [True, False])
def test_a_hundred_megabytes_are_refused_and_not_kept(serve: Serve, ended: bool) -> None:  # noqa: FBT001
    """An oversized request is rejected as soon as possible, with an error that arrives."""
    counter = serve(echo)
    with counter.connect() as connection:
        block = b"x" * 1_000_000
        with suppress(OSError):
            for _ in range(100):
                connection.sendall(block)
            connection.sendall(b"\n" if ended else b"")
        assert f"{MAX_REQUEST_BYTES:,}" in last_answer(connection)["error"]["message"]
    with counter.connect() as connection:
        connection.sendall(request("fine"))
        assert last_answer(connection)["ok"]


def test_a_request_just_within_the_limit_is_taken(serve: Serve) -> None:
    """A request of 16 MiB is accepted and does not delay others."""
    counter = serve(lambda op, arguments, caller, progress: {"length": len(arguments.get("text", ""))})
    bare = len(request("big", {"text": ""}))
    text = "x" * (MAX_REQUEST_BYTES - bare)
    with counter.connect() as connection:
        connection.sendall(request("big", {"text": text}))
        assert last_answer(connection)["result"] == {"length": len(text)}


def test_large_requests_together_are_bounded(serve: Serve) -> None:
    """The total size of incomplete requests is limited; the client above the limit is told to try again."""
    counter = serve(echo, ServerLimits(buffered_bytes=1_000_000))
    with counter.connect() as first, counter.connect() as second:
        first.sendall(b"x" * 700_000)
        second.sendall(b"y" * 700_000)
        refused, _, _ = select.select([first, second], [], [], 60)
        assert len(refused) == 1
        assert "busy" in last_answer(refused[0])["error"]["message"]
        spared = second if refused[0] is first else first
        spared.sendall(b"\n" + request("fine"))
        found = answers(spared)
        assert next(found)["error"]["code"] == "usage"
        assert next(found)["ok"]


@pytest.mark.slow
def test_half_open_connections_time_out(serve: Serve) -> None:
    """Connections that send nothing, or an incomplete request, time out; others are served meanwhile."""
    counter = serve(echo, ServerLimits(request_timeout_s=0.5, idle_timeout_s=0.5))
    with counter.connect() as silent, counter.connect() as halting, counter.connect() as other:
        halting.sendall(b'{"op": ')
        other.sendall(request("fine"))
        assert last_answer(other)["ok"]
        assert silent.recv(1) == b""
        assert halting.recv(1) == b""


@pytest.mark.slow
def test_a_slow_reader_is_let_go(serve: Serve) -> None:
    """A client that does not read its response is disconnected and delays no one."""
    counter = serve(lambda *_: {"text": "x" * 20_000_000}, ServerLimits(write_timeout_s=0.5))
    with counter.connect() as slow, counter.connect() as other:
        slow.sendall(request("large"))
        other.sendall(request("daemon.status"))
        assert last_answer(other)["ok"]
        eventually(lambda: counter.server.connection_count() == 1, "the slow one is gone")


def test_a_slow_reader_gets_the_whole_response(serve: Serve) -> None:
    """A response much larger than the socket buffer arrives complete."""
    counter = serve(lambda *_: {"text": "x" * 20_000_000})
    with counter.connect() as connection:
        connection.sendall(request("large") + request("daemon.status"))
        found = answers(connection)
        assert len(next(found)["result"]["text"]) == 20_000_000
        assert next(found)["ok"]


def test_too_many_are_told_so_and_can_still_ask_for_status(serve: Serve) -> None:
    """Above the connection limit, operations are rejected as busy, status works, and further connections are closed."""
    gate = Gate()
    counter = serve(gate, ServerLimits(connections=3, reserved_connections=1))
    held = [counter.connect() for _ in range(3)]
    try:
        for connection in held:
            connection.sendall(request("wait"))
        for _ in held:
            assert gate.entered.acquire(timeout=60)
        with counter.connect() as fourth:
            fourth.sendall(request("more") + request("daemon.status"))
            found = answers(fourth)
            refused, status = next(found), next(found)
            assert (refused["error"]["code"], "busy" in refused["error"]["message"]) == ("daemon", True)
            assert status["result"]["connections"] == 4
            with counter.connect() as fifth:
                assert "busy" in last_answer(fifth)["error"]["message"]
    finally:
        gate.open.set()
        for connection in held:
            assert last_answer(connection)["ok"]
            connection.close()


def test_status_and_stop_are_answered_when_all_workers_are_busy(serve: Serve) -> None:
    """While any number of operations hang, status shows them and stop works."""
    gate = Gate()
    counter = serve(gate, ServerLimits(workers=2, stop_timeout_s=0.3))
    held = [counter.connect() for _ in range(5)]
    try:
        for connection in held:
            connection.sendall(request("wait"))
        for _ in range(2):
            assert gate.entered.acquire(timeout=60)
        with counter.connect() as other:
            other.sendall(request("daemon.status") + request("daemon.stop"))
            found = answers(other)
            status = next(found)["result"]
            assert [job["op"] for job in status["at_work"]] == ["wait", "wait"]
            assert status["waiting"] == 3
            assert next(found)["result"]["stopping"]
        assert counter.wait_left() == "a client asked it to stop"
    finally:
        gate.open.set()
        for connection in held:
            connection.close()


@pytest.mark.slow
def test_a_long_operation_gives_signs_of_life(serve: Serve) -> None:
    """While an operation runs, its client gets heartbeats."""
    gate = Gate()
    counter = serve(gate)
    with counter.connect() as connection:
        connection.sendall(request("wait"))
        found = answers(connection)
        assert "working" in next(found)
        gate.open.set()
        assert next(reply for reply in found if "ok" in reply)["ok"]


def test_progress_is_sent_on_request(serve: Serve) -> None:
    """Progress is sent as it happens, the last before the response, and only if requested."""

    def work(op: str, arguments: Any, caller: Any, progress: Any) -> dict[str, Any]:
        for done in range(5000):
            progress("words", done + 1, 5000)
        return {}

    counter = serve(work)
    with counter.connect() as connection:
        connection.sendall(request("a", progress=True) + request("b"))
        found = list(zip(range(10_000), answers_until(connection, 2), strict=False))
    told = [answer["progress"] for _, answer in found if "progress" in answer]

    assert told[-1] == {"stage": "words", "done": 5000, "total": 5000}
    assert 1 <= len(told) < 1000
    assert [index for index, (_, answer) in enumerate(found) if "ok" in answer][-1] == len(found) - 1


def answers_until(connection: socket.socket, ends: int) -> list[dict[str, Any]]:
    found = []
    for answer in answers(connection):
        found.append(answer)
        ends -= "ok" in answer
        if not ends:
            break
    return found


def test_hanging_up_cancels_what_can_be_cancelled(serve: Serve) -> None:
    """A client that disconnects cancels its own operation at the next step, and no other."""
    stopped = threading.Event()

    def work(op: str, arguments: Any, caller: Any, progress: Any) -> dict[str, Any]:
        if op == "short":
            return {}
        try:
            while True:
                progress("words", 1, 2)
                time.sleep(0.01)
        finally:
            stopped.set()

    counter = serve(work)
    connection = counter.connect()
    connection.sendall(request("endless"))
    eventually(counter.runner.running)
    connection.close()

    assert stopped.wait(60)
    eventually(lambda: not counter.runner.running())
    with counter.connect() as other:
        other.sendall(request("short"))
        assert last_answer(other)["ok"]
    assert counter.runner.last_failure is None


def test_an_abandoned_request_is_not_run(serve: Serve) -> None:
    """A request whose client disconnected before a worker was free is not run, except a recall: its answer is left in a file."""
    free = threading.Event()
    begun: list[str] = []

    def work(op: str, arguments: Any, caller: Any, progress: Any) -> dict[str, Any]:
        begun.append(op)
        free.wait(60)
        return {}

    counter = serve(work, ServerLimits(workers=1))
    with counter.connect() as first, counter.connect() as third:
        first.sendall(request("first"))
        eventually(lambda: begun == ["first"])
        for op in ("second", "session.recall"):
            with counter.connect() as left:
                left.sendall(request(op))
        third.sendall(request("third"))
        eventually(lambda: counter.server._router._slots.waiting == 3)
        free.set()
        assert last_answer(first)["ok"]
        first.sendall(request("last"))  # the only worker has seen to all others by then
        assert last_answer(first)["ok"]
        assert last_answer(third)["ok"]

    assert sorted(begun) == ["first", "last", "session.recall", "third"]


def test_errors_arrive_as_they_were_raised(serve: Serve) -> None:
    """Code, message and hint of an error are sent to the client."""

    def work(*_: Any) -> dict[str, Any]:
        raise NotFound("there is no such thing", hint="look elsewhere")

    counter = serve(work)
    with counter.connect() as connection:
        connection.sendall(request("a"))
        error = last_answer(connection)["error"]

    assert error == {"code": "not_found", "message": "there is no such thing", "hint": "look elsewhere"}
    assert counter.runner.last_failure is None


def test_the_last_fault_is_remembered(serve: Serve) -> None:
    """An internal failure is shown by status; a crash is answered, logged, and does not end the daemon."""

    def work(op: str, *_: Any) -> dict[str, Any]:
        if op == "crash":
            raise ZeroDivisionError("by zero")
        raise StoreBusy("somebody writes")

    counter = serve(work)
    with counter.connect() as connection:
        found = answers(connection)
        connection.sendall(request("crash"))
        assert "ZeroDivisionError" in next(found)["error"]["message"]
        connection.sendall(request("busy") + request("daemon.status"))
        assert next(found)["error"]["code"] == "store_busy"
        last = next(found)["result"]["last_error"]

    assert (last["op"], last["code"], last["message"]) == ("busy", "store_busy", "somebody writes")
    assert any("Traceback" in entry for entry in counter.said)


def test_a_result_with_a_lone_surrogate_is_sent(serve: Serve) -> None:
    """A lone surrogate, from a path that is not UTF-8, does not prevent a response."""
    counter = serve(lambda *_: {"path": "a\udc80b"})
    with counter.connect() as connection:
        connection.sendall(request("a"))
        assert last_answer(connection)["result"]["path"] == "a\udc80b"


def test_a_write_says_that_it_begins(serve: Serve) -> None:
    """Before an operation that must not be repeated begins, its client is told."""
    counter = serve(echo)
    with counter.connect() as connection:
        connection.sendall(request("memory.add"))
        assert next(answers(connection)) == {"working": 0}


def test_a_write_of_a_disconnected_client_is_not_run(serve: Serve) -> None:
    """A non-repeatable request whose client has disconnected is not run."""
    gate = Gate()
    counter = serve(gate)
    connection = counter.connect()
    connection.sendall(request("wait") + request("memory.add"))
    assert gate.entered.acquire(timeout=60)
    connection.close()
    gate.open.set()

    eventually(lambda: counter.server.connection_count() == 0)
    assert counter.runner.calls == 1


@pytest.mark.slow
def test_a_clock_that_jumps_changes_nothing(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jumps of the wall clock by a year or a century neither stop the daemon nor close connections."""
    gate = Gate()
    counter = serve(gate, ServerLimits(idle_timeout_s=30, request_timeout_s=30), idle_s=30)
    real = time.time
    with counter.connect() as connection, counter.connect() as other:
        connection.sendall(request("wait"))
        for jump in (3.2e7, -1.5e9, 3.2e9):
            monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
            other.sendall(request("daemon.status"))
            status = last_answer(other)["result"]
            assert 0 <= status["uptime_s"] < 3600
            assert 0 <= status["idle_s"] < 3600
            time.sleep(1.1)  # one round of looking after everything
        monkeypatch.undo()
        gate.open.set()
        assert last_answer(connection)["ok"]


@pytest.mark.slow
def test_what_is_under_way_keeps_it(serve: Serve) -> None:
    """The daemon is not idle while an operation runs; after its idle time it exits and removes its socket and pid file."""
    gate = Gate()
    counter = serve(gate, idle_s=0.3)
    with counter.connect() as connection:
        connection.sendall(request("wait"))
        time.sleep(2.5)
        gate.open.set()
        assert last_answer(connection)["ok"]
    assert counter.wait_left() == "idle for too long"
    with pytest.raises(FileNotFoundError):
        counter.connect()


def test_leaving_after_work_lets_it_finish(serve: Serve) -> None:
    """Told to stop after its work, the daemon accepts nothing new, finishes running operations, and exits."""
    gate = Gate()
    counter = serve(gate)
    counter.server._hooks = type(counter.server._hooks)(on_shutdown=lambda: time.sleep(1.5))  # longer than a tick
    with counter.connect() as connection, counter.connect() as other:
        connection.sendall(request("wait"))
        assert gate.entered.acquire(timeout=60)
        other.sendall(request("daemon.stop", {"after_work": True}) + request("more"))
        found = answers(other)
        stopping, refused = next(found), next(found)
        assert (stopping["ok"], refused["error"]["code"], refused["leaving"]) == (True, "daemon", True)
        gate.open.set()
        assert last_answer(connection)["ok"]
    assert counter.wait_left() == "a client asked it to stop"


def test_a_newer_client_makes_it_leave(serve: Serve) -> None:
    """A newer client is rejected, so that it starts a newer daemon; an older client is served."""
    counter = serve(echo)
    with counter.connect() as old, counter.connect() as new:
        old.sendall(request("a", version="0.0.9"))
        assert last_answer(old)["ok"]
        new.sendall(request("a", version="99.0.0"))
        refused = last_answer(new)
    assert (refused["error"]["code"], refused["leaving"]) == ("daemon", True)
    assert "newer client" in counter.wait_left()


@pytest.mark.parametrize("protocol", [0, PROTOCOL - 1, 99])
def test_another_protocol_is_not_spoken(serve: Serve, protocol: int) -> None:
    """A client with another protocol is told the daemon's protocol, and the daemon keeps running."""
    counter = serve(echo)
    with counter.connect() as connection:
        connection.sendall(request("a", protocol=protocol) + request("a"))
        found = answers(connection)
        refused, served = next(found), next(found)
    assert (refused["error"]["code"], "leaving" in refused) == ("daemon", False)
    assert refused["daemon"]["protocol"] == PROTOCOL
    assert served["ok"]


def test_another_home_is_refused(serve: Serve) -> None:
    """A client with another home is rejected."""
    counter = serve(echo)
    with counter.connect() as connection:
        connection.sendall(request("a", caller={"directory": "/", "environment": {"LORELOG_HOME": "/elsewhere"}}))
        assert "not of /elsewhere" in last_answer(connection)["error"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["socket", "lock"])
def test_it_leaves_when_its_place_is_not_its_own(serve: Serve, what: str) -> None:
    """If its socket or lock file is deleted or replaced, the daemon exits and changes no foreign file."""
    from pathlib import Path

    counter = serve(echo)
    path = Path(getattr(counter.address, what))
    path.unlink()
    path.write_text("another's", "utf-8")

    assert "socket replaced" in counter.wait_left()
    assert path.read_text("utf-8") == "another's"
