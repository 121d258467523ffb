"""Clients and daemons of different versions, and daemons with bad responses: fake daemons on real sockets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tests.surfaces.daemon.conftest import Warm, request

from lorelog.core.errors import DaemonError, ReplyLost
from lorelog.surfaces.daemon.server import InstanceLock

STOPS = b'{"ok":true,"result":{},"daemon":{"pid":1,"version":"0.0.1","protocol":1}}'
OLD = b'{"ok":true,"result":{"from":"old"},"daemon":{"pid":1,"version":"0.0.1","protocol":1}}'
NEW = b'{"ok":true,"result":{"from":"new"},"daemon":{"pid":1,"version":"99.0.0","protocol":1}}'
OTHER = (
    b'{"ok":false,"error":{"code":"daemon","message":"protocol 2"},"daemon":{"pid":1,"version":"99.0.0","protocol":2}}'
)
LEAVES = (
    b'{"ok":false,"error":{"code":"daemon","message":"old"},"leaving":true,"daemon":{"version":"0.0.1","protocol":1}}'
)


@contextmanager
def forged(warm: Warm, *lines: bytes, leaves: bool = False) -> Iterator[list[dict[str, Any]]]:
    """A fake daemon that answers every request with these lines, then disconnects and may exit."""
    presence = InstanceLock(warm.address)
    listener = presence.listen()
    listener.setblocking(True)
    asked: list[dict[str, Any]] = []

    def answer() -> None:
        going = True
        while going:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as reader:
                line = reader.readline()
                if not line:
                    continue
                asked.append(json.loads(line))
                stops = asked[-1]["op"] == "daemon.stop"
                going = not (stops or leaves)
                if not going:
                    listener.close()
                    presence.release()
                for line in (STOPS,) if stops else lines:
                    connection.sendall(line + b"\n")

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield asked
    finally:
        if thread.is_alive():
            # One that was told to leave may have taken its socket away.
            with suppress(FileNotFoundError, ConnectionRefusedError), warm.connect() as last:
                last.sendall(request("daemon.stop"))
                last.recv(100)
        thread.join()


def test_an_older_daemon_is_used_once_and_replaced(warm: Warm) -> None:
    """An older daemon is asked to stop after its work; the next command gets one of its own version."""
    with forged(warm, OLD) as asked:
        assert warm.ask("memory.stats") == {"from": "old"}
        assert [(call["op"], call["arguments"]) for call in asked][1:] == [("daemon.stop", {"after_work": True})]

    assert warm.ask("memory.stats")["documents"] == 0
    assert warm.status()["version"] != "0.0.1"


def test_a_newer_daemon_is_used(warm: Warm) -> None:
    """An older client with the same protocol uses the newer daemon."""
    with forged(warm, NEW) as asked:
        assert warm.ask("memory.stats") == {"from": "new"}
        assert [call["op"] for call in asked] == ["memory.stats"]


def test_a_daemon_of_another_protocol_is_let_be(warm: Warm) -> None:
    """A daemon with another protocol is neither used nor replaced: the client works alone."""
    with forged(warm, OTHER), pytest.raises(DaemonError, match="protocol 2"):
        warm.ask("memory.stats")


@pytest.mark.parametrize("answer", [LEAVES, b'{"working":0}'])
def test_a_daemon_that_leaves_is_followed_by_another(warm: Warm, answer: bytes) -> None:
    """If the old daemon is stopping, or dies before it answers a query, the client starts the next one and asks it."""
    with forged(warm, answer, leaves=True) as asked:
        assert warm.ask("memory.stats")["documents"] == 0
        assert [call["op"] for call in asked] == ["memory.stats"]


@pytest.mark.parametrize("lines", [(), (b"no json",), (b'{"ok":true',), (b"[]",), (b'{"ok":false}',)])
def test_answers_that_make_no_sense_are_a_daemon_error(warm: Warm, lines: tuple[bytes, ...]) -> None:
    """For any response, the client gets a result or an error that lets it work alone."""
    with forged(warm, *lines), pytest.raises(DaemonError):
        warm.ask("memory.stats", start=None)


def test_a_lost_answer_to_a_write_is_not_repeated(warm: Warm) -> None:
    """If it is unknown whether a memory was written, the client reports that instead of writing it again."""
    with forged(warm, b'{"working":0}') as asked:
        with pytest.raises(ReplyLost, match=r"before it confirmed memory\.add"):
            warm.ask("memory.add", {"text": "once"})
        assert [call["op"] for call in asked] == ["memory.add"]
        assert not issubclass(ReplyLost, DaemonError)
