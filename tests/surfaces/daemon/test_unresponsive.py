"""A daemon that is stopped or hangs: noticed once, done without, and used again when it answers."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell
from tests.surfaces.daemon.conftest import Warm, eventually

from lorelog.core.errors import DaemonUnresponsive, ReplyLost
from lorelog.light import daemon_client as client
from lorelog.light import daemon_connection as liveness
from lorelog.light.daemon_connection import DaemonAddress, ask_within, create_folders
from lorelog.light.daemon_control import stop
from lorelog.surfaces.daemon.server import InstanceLock


@pytest.fixture
def stopped(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A daemon that was started a while ago and is stopped now."""
    pid = warm.start()
    warm.ask("memory.stats")
    os.utime(warm.address.pid, (0, 0))
    monkeypatch.setattr(liveness, "PING_S", 0.2)
    os.kill(pid, signal.SIGSTOP)
    yield pid
    if pid in warm.pids():
        os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_a_stopped_daemon_delays_one_command_only(
    warm: Warm, stopped: int, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first command says that it works without the daemon, the next ones do not ask it, and it is used again later."""
    assert liveness.PING_AFTER_S + 1.0 <= 2.0
    marker = Path(warm.address.unresponsive_marker)
    first = shell("status", "index", "--json")
    with monkeypatch.context() as without:
        without.setattr(client, "connect", lambda address: pytest.fail("the daemon was asked"))
        second = shell("status", "index", "--json")
        with pytest.raises(DaemonUnresponsive):
            ask_within(warm.address, 0.05, "session.recall", {}, "/")

    assert (first.status, second.status) == (0, 0)
    assert first.err == f"The daemon does not answer (process {stopped}); working without it.\n"
    assert second.err == ""
    assert marker.stat().st_mode & 0o777 == 0o600

    os.kill(stopped, signal.SIGCONT)
    eventually(lambda: not marker.exists(), "the daemon deletes the marker")
    assert warm.ask("memory.metrics")["pid"] == stopped


@pytest.mark.slow
def test_a_write_is_done_once_without_the_stopped_daemon(warm: Warm, stopped: int, shell: Shell) -> None:
    """What a command added after it gave up is there once, also after the daemon has read the abandoned request."""
    added = shell("add", "The otter sleeps at noon.")
    os.kill(stopped, signal.SIGCONT)
    eventually(lambda: not Path(warm.address.unresponsive_marker).exists())
    warm.ask("memory.index")

    assert (added.status, added.err.count("does not answer")) == (0, 1)
    (journal,) = (warm.project / ".lorelog" / "memory").glob("*.md")
    assert journal.read_text("utf-8").count("otter sleeps") == 1
    assert len(warm.ask("memory.search", {"query": "otter sleeps", "lane": "lexical"})["hits"]) == 1


@pytest.mark.slow
def test_status_and_doctor_report_it_and_restart_replaces_it(warm: Warm, stopped: int, shell: Shell) -> None:
    """`daemon status` and `doctor --daemon-only` name the process and fail; `daemon restart` ends it and starts another."""
    told = f"the daemon does not answer (process {stopped})"
    status, doctor = shell("daemon", "status"), shell("doctor", "--daemon-only")
    restarted = shell("daemon", "restart", "--json")

    assert (status.status, told in status.err) == (1, True)
    assert (doctor.status, told in doctor.out) == (1, True)
    assert restarted.status == 0
    assert restarted.json["pid"] not in {stopped, None}
    assert warm.pids() == [restarted.json["pid"]]
    assert not Path(warm.address.unresponsive_marker).exists()
    assert "stopped: " in Path(warm.address.log).read_text("utf-8")  # it ended by itself


@pytest.mark.slow
def test_the_marker_of_a_dead_daemon_has_no_effect(warm: Warm, stopped: int) -> None:
    """After kill -9 the next call finds no daemon and may start one."""
    with pytest.raises(DaemonUnresponsive):
        warm.ask("memory.stats", start=None)
    warm.kill()

    assert warm.ask("memory.metrics")["pid"] != stopped


def test_a_marked_daemon_that_answers_is_found_out(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute after the last ping the next command pings once more, and uses a daemon that answers."""
    warm.start()
    monkeypatch.setattr(liveness, "_PROBE_S", 30.0)
    liveness.mark_unresponsive(warm.address)
    os.utime(warm.address.unresponsive_marker, (0, 0))

    assert not liveness.is_marked_unresponsive(warm.address)
    assert not Path(warm.address.unresponsive_marker).exists()
    assert stop(warm.address) is not None


def test_a_withdrawn_request_cannot_be_confirmed() -> None:
    """After a withdrawal the daemon's confirmation fails; one that came before counts as taken."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert client._withdraw(ours) is False
        with pytest.raises(BrokenPipeError):
            theirs.send(b'{"working": 0}\n')
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b'{"working": 0}\n')
        assert client._withdraw(ours) is True


@pytest.mark.parametrize("op", ["memory.search", "daemon.status"])
def test_a_daemon_that_is_busy_is_followed(home: Path, monkeypatch: pytest.MonkeyPatch, op: str) -> None:
    """One that answers no ping while its process works is waited for, which is said, and is not marked."""
    monkeypatch.setattr(client, "_STATUS_TIMEOUT_S", 0.3)
    monkeypatch.setattr(client, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(liveness, "PING_S", 0.2)
    address = DaemonAddress(str(home))
    lock, reports = InstanceLock(address), list[str]()
    with lock.listen() as listener:
        os.utime(address.pid, (0, 0))  # it was started a while ago
        listener.setblocking(True)

        def work() -> None:
            taken, _ = listener.accept()
            until = time.monotonic() + 1.5
            while time.monotonic() < until:
                pass
            taken.sendall(b'{"ok": true, "result": {"n": 1}}\n')
            taken.close()

        worker = threading.Thread(target=work)
        worker.start()
        reply = client.call_daemon(
            op, {}, directory="/", home=str(home), progress=lambda *told: reports.append(told[0])
        )
        worker.join()
    lock.release()
    assert reply == {"n": 1}
    assert set(reports) == {"waiting for the daemon, which is busy"}
    assert not Path(address.unresponsive_marker).exists()


@pytest.mark.parametrize(("op", "error"), [("memory.add", ReplyLost), ("memory.search", DaemonUnresponsive)])
def test_a_daemon_that_hangs_in_the_middle_is_given_up(
    home: Path, monkeypatch: pytest.MonkeyPatch, op: str, error: Any
) -> None:
    """A write that was confirmed is never repeated; any other call may be done without the daemon."""
    for name in ("HEARTBEAT_S", "SILENCE_S", "PING_AFTER_S"):
        monkeypatch.setattr(client, name, 0.05)
    monkeypatch.setattr(liveness, "PING_S", 0.05)
    address = DaemonAddress(str(home))
    create_folders(address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address.socket)
        listener.listen()

        def connect(address: DaemonAddress) -> Any:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(address.socket)
            taken, _ = listener.accept()
            taken.sendall(b'{"working": 0}\n')
            held.append(taken)
            return connection

        held: list[socket.socket] = []
        monkeypatch.setattr(client, "connect", connect)
        with pytest.raises(error):
            client.call_daemon(op, {}, directory="/", home=str(home))
        for taken in held:
            taken.close()
