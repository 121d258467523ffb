"""Daemons to ask, to kill and to count; none of them outlives its test."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lorelog.surfaces.daemon import client
from lorelog.surfaces.daemon.address import Address
from lorelog.surfaces.daemon.control import holder, start, stop
from lorelog.surfaces.daemon.desk import House
from lorelog.surfaces.daemon.job import Request
from lorelog.surfaces.daemon.presence import Presence
from lorelog.surfaces.daemon.server import Limits, Server
from lorelog.surfaces.daemon.wire import PROTOCOL
from lorelog.surfaces.daemon.work import Work

PATIENCE_S = 60.0
"""How long a test waits for what must happen before it says that it did not."""


def eventually(happened: Callable[[], Any], what: str = "") -> Any:
    """Wait until something is so, and return it."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = happened()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"it did not happen: {what or happened}")


def daemons_of(place: Path) -> list[int]:
    """Return the processes that are daemons of homes in a place, whatever their files say."""
    listed = _processes() if Path("/proc/self/stat").exists() else _processes_of_ps()
    mark = f" lorelog.surfaces.resident --home {place}"
    return [pid for pid, state, words in listed if mark in words and state != "Z"]


def _processes() -> Iterator[tuple[int, str, str]]:
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with suppress(OSError):
                words = Path(f"/proc/{name}/cmdline").read_bytes()
                if b"lorelog.surfaces.resident" in words:
                    state = Path(f"/proc/{name}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
                    yield int(name), state, os.fsdecode(words.replace(b"\0", b" "))


def _processes_of_ps() -> Iterator[tuple[int, str, str]]:
    listed = subprocess.run(["ps", "-axo", "pid=,state=,command="], capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        pid, state, words = line.split(None, 2)
        yield int(pid), state[0], words


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(home: Path, tmp_path: Path) -> Iterator[None]:
    """No daemon outlives its test."""
    yield
    left = [*daemons_of(home.parent), *daemons_of(tmp_path)]
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == []


@dataclass(frozen=True)
class Warm:
    """The daemon of a test's home."""

    address: Address
    project: Path

    def ask(self, op: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Ask it, and start it where there is none."""
        return client.ask(op, arguments, directory=str(self.project), **{"starts": True, **more})

    def status(self) -> dict[str, Any]:
        return client.ask("daemon.status", {}, directory="/")

    def start(self) -> int:
        start(self.address, insists=True)
        return int(self.ask("daemon.status")["pid"])

    def stop(self) -> None:
        stop(self.address)

    def pids(self) -> list[int]:
        return daemons_of(Path(self.address.home).parent)

    def kill(self) -> None:
        """End it as nothing else can."""
        held = holder(self.address)
        if held:
            os.kill(held["pid"], signal.SIGKILL)
            self.wait_gone()

    def wait_gone(self) -> None:
        eventually(lambda: holder(self.address) is None and not self.pids(), "the daemon is gone")

    def connect(self) -> socket.socket:
        return connected(self.address)


@pytest.fixture
def warm(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warm]:
    """A home whose daemon may be started, and is stopped when the test is over."""
    monkeypatch.setenv("LORELOG_DAEMON_WARM", "auto")
    one = Warm(Address(str(home)), project)
    yield one
    with suppress(Exception):
        one.stop()
    for pid in one.pids():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not one.pids())


def connected(address: Address) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(PATIENCE_S)
    try:
        connection.connect(address.socket)
    except OSError:
        connection.close()
        raise
    return connection


def request(op: str, arguments: Any = None, **more: Any) -> bytes:
    """Return a request as it goes over the wire."""
    asked = {"protocol": PROTOCOL, "version": "0.1.0", "op": op, "arguments": arguments or {}, **more}
    return json.dumps(asked).encode() + b"\n"


def answers(connection: socket.socket) -> Iterator[dict[str, Any]]:
    """Yield what comes back, line by line."""
    with connection.makefile("rb") as lines:
        for line in lines:
            yield json.loads(line)


def last_answer(connection: socket.socket) -> dict[str, Any]:
    """Return what ends a request."""
    for answer in answers(connection):
        if "ok" in answer:
            return answer
    raise AssertionError("the line ended without an answer")


class Counter:
    """A server in a thread of this process, over an `answer` of the test's own."""

    def __init__(self, home: Path, answer: Callable[..., dict[str, Any]], limits: Limits, idle_s: float) -> None:
        self.said: list[str] = []
        self.why = ""
        self.address = Address(str(home))
        self._presence = Presence(self.address)
        self.work = Work(answer, self.said.append)
        self.woken = threading.Event()
        house = House(caller_of=_caller, idle_s=idle_s, wake=self.woken.set)
        self.server = Server(self._presence.listen(), self._presence, self.work, house, limits)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.why = self.server.run()
        self._presence.leave()

    def connect(self) -> socket.socket:
        return connected(self.address)

    def wait_left(self) -> str:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.why

    def stop(self) -> None:
        self.server.waker.send(bytes([signal.SIGTERM]))  # what the interpreter writes when a signal comes
        self.wait_left()


def _caller(request: Request) -> Any:
    return request


@pytest.fixture
def serve(home: Path) -> Iterator[Callable[..., Counter]]:
    """Opens a server over an answer of the test's own."""
    opened: list[Counter] = []

    def open_counter(
        answer: Callable[..., dict[str, Any]], limits: Limits | None = None, idle_s: float = 0.0
    ) -> Counter:
        opened.append(Counter(home, answer, limits or Limits(), idle_s))
        return opened[-1]

    yield open_counter
    for one in opened:
        if not one.why:
            one.stop()
        one.server.close()
