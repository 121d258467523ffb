"""Fixtures that start, call and kill daemons. No daemon outlives its test."""

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

from lorelog.light import daemon_client as client
from lorelog.light.daemon_connection import PROTOCOL, DaemonAddress, read_lock_holder
from lorelog.light.daemon_control import start, stop
from lorelog.surfaces.daemon.connection import OperationRunner, ServerLimits
from lorelog.surfaces.daemon.server import DaemonHooks, DaemonServer, InstanceLock

PATIENCE_S = 60.0
"""How long a test waits for a condition."""


def eventually(condition: Callable[[], Any], what: str = "") -> Any:
    """Wait until a condition holds, and return its value."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"it did not happen: {what or condition}")


def daemons_of(place: Path) -> list[int]:
    """Return the pids of the daemons whose home is below a directory, whatever their files say."""
    listed = _processes() if Path("/proc/self/stat").exists() else _processes_of_ps()
    mark = f" lorelog.surfaces.daemon.process --home {place}"
    return [pid for pid, state, words in listed if mark in words and state != "Z"]


def _processes() -> Iterator[tuple[int, str, str]]:
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with suppress(OSError):
                words = Path(f"/proc/{name}/cmdline").read_bytes()
                if b"lorelog.surfaces.daemon.process" in words:
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
    """The daemon of the test's home."""

    address: DaemonAddress
    project: Path

    def ask(self, op: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Call an operation, and start the daemon if needed."""
        return client.call_daemon(op, arguments, directory=str(self.project), **{"start": start, **more})

    def status(self) -> dict[str, Any]:
        return client.call_daemon("daemon.status", {}, directory="/")

    def start(self) -> int:
        start(self.address, force=True)
        return int(self.ask("daemon.status")["pid"])

    def stop(self) -> None:
        stop(self.address)

    def pids(self) -> list[int]:
        return daemons_of(Path(self.address.home).parent)

    def kill(self) -> None:
        """Kill the daemon with SIGKILL."""
        held = read_lock_holder(self.address)
        if held:
            os.kill(held["pid"], signal.SIGKILL)
            self.wait_gone()

    def wait_gone(self) -> None:
        eventually(lambda: read_lock_holder(self.address) is None and not self.pids(), "the daemon is gone")

    def connect(self) -> socket.socket:
        return connected(self.address)


@pytest.fixture
def warm(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warm]:
    """A home whose daemon may be started, and is stopped after the test."""
    monkeypatch.setenv("LORELOG_DAEMON_WARM", "auto")
    daemon = Warm(DaemonAddress(str(home)), project)
    yield daemon
    with suppress(Exception):
        daemon.stop()
    for pid in daemon.pids():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not daemon.pids())


def connected(address: DaemonAddress) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(PATIENCE_S)
    try:
        connection.connect(address.socket)
    except OSError:
        connection.close()
        raise
    return connection


def request(op: str, arguments: Any = None, **more: Any) -> bytes:
    fields = {"protocol": PROTOCOL, "version": "0.1.0", "op": op, "arguments": arguments or {}, **more}
    return json.dumps(fields).encode() + b"\n"


def answers(connection: socket.socket) -> Iterator[dict[str, Any]]:
    with connection.makefile("rb") as lines:
        for line in lines:
            yield json.loads(line)


def last_answer(connection: socket.socket) -> dict[str, Any]:
    """Return the response that ends a request."""
    for answer in answers(connection):
        if "ok" in answer:
            return answer
    raise AssertionError("the connection ended without a response")


class Counter:
    """A server in a thread of this process, whose operations are a function of the test."""

    def __init__(
        self, address: DaemonAddress, answer: Callable[..., dict[str, Any]], limits: ServerLimits, idle_s: float
    ) -> None:
        self.said: list[str] = []
        self.why = ""
        self.address = address
        self._instance_lock = InstanceLock(self.address)
        self.runner = OperationRunner(answer, self.said.append)
        self.woken = threading.Event()
        hooks = DaemonHooks(idle_s=idle_s, on_wake=self.woken.set)
        self.server = DaemonServer(
            self._instance_lock.listen(),
            instance_lock=self._instance_lock,
            runner=self.runner,
            hooks=hooks,
            limits=limits,
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.why = self.server.run()
        self._instance_lock.release()

    def connect(self) -> socket.socket:
        return connected(self.address)

    def wait_left(self) -> str:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.why

    def stop(self) -> None:
        self.server.waker.send(bytes([signal.SIGTERM]))  # as the interpreter does for a signal
        self.wait_left()


@pytest.fixture
def serve(home: Path) -> Iterator[Callable[..., Counter]]:
    """Return a function that starts a server for a function of the test."""
    opened: list[Counter] = []

    def open_counter(
        answer: Callable[..., dict[str, Any]],
        limits: ServerLimits | None = None,
        idle_s: float = 0.0,
        address: DaemonAddress | None = None,
    ) -> Counter:
        opened.append(Counter(address or DaemonAddress(str(home)), answer, limits or ServerLimits(), idle_s))
        return opened[-1]

    yield open_counter
    for server in opened:
        if not server.why:
            server.stop()
        server.server.close()
