"""Waking a daemon and starting one without waiting: one comes, whoever ends the hook, and none comes where none can."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.daemon.conftest import Counter, Warm, eventually, last_answer, request

from lorelog.core.errors import DaemonError
from lorelog.surfaces.daemon.address import Address, found_folders
from lorelog.surfaces.daemon.client import answers_at
from lorelog.surfaces.daemon.control import flush_unseen, last_failure, start_unseen
from lorelog.surfaces.daemon.waking import ask_within, wake

HOOK = [sys.executable, "-m", "lorelog", "hook", "claude", "turn-end"]


def _children() -> set[int]:
    """Return the processes that this one has started and not waited for."""
    if Path("/proc/self/stat").exists():
        found = set()
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                parent = file.read_text("utf-8", "replace").rpartition(")")[2].split()[1]
                found |= {int(file.parent.name)} if int(parent) == os.getpid() else set()
        return found
    listed = subprocess.run(["ps", "-axo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    lines = [line.split(None, 2) for line in listed.splitlines()]
    return {int(one[0]) for one in lines if int(one[1]) == os.getpid() and one[2:] != ["ps"]}


@pytest.fixture
def _reaped() -> Iterator[None]:
    """Take note of the ends of children that nobody waits for: hooks leave that to the system, a test cannot."""
    others = _children()  # such as a server that lives as long as all tests do
    yield
    for child in _children() - others:
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def test_waking_is_heard(serve: Callable[..., Counter]) -> None:
    """A daemon that is woken knows it at once, without anyone waiting for its answer."""
    counter = serve(lambda *_: {})
    assert wake(counter.address)

    assert counter.woken.wait(60)
    with counter.connect() as connection:
        connection.sendall(request("daemon.wake"))
        assert last_answer(connection)["ok"]


def test_nobody_is_woken_where_nobody_is(home: Path) -> None:
    """Neither where there is no socket nor where the one of a dead daemon was left behind."""
    address = Address(str(home))
    assert not wake(address)

    found_folders(address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(address.socket)
    assert not wake(address)


def test_a_socket_of_others_is_not_talked_with(home: Path) -> None:
    """What stands where the socket should, and is none, is told of."""
    address = Address(str(home))
    found_folders(address)
    Path(address.socket).touch()

    with pytest.raises(DaemonError):
        wake(address)


def test_a_full_queue_is_no_reason_to_wait(home: Path) -> None:
    """A daemon that hangs is there, and nobody waits for it: neither who wakes nor who asks with a deadline."""
    address = Address(str(home))
    found_folders(address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as hung:
        hung.bind(address.socket)
        hung.listen(0)
        assert all(wake(address) for _ in range(5))
        with pytest.raises(DaemonError):
            ask_within(address, 0.05, "session.recall", {}, "/")


def test_asking_within_a_time(serve: Callable[..., Counter]) -> None:
    """An answer in time is returned; none in time, or a refusal, is an error."""

    def answer(op: str, arguments: dict[str, Any], *_: object) -> dict[str, Any]:
        if arguments["late"]:
            counter.woken.wait(60)
        return {"op": op}

    counter = serve(answer)
    assert ask_within(counter.address, 60, "session.recall", {"late": False}, "/") == {"op": "session.recall"}
    with pytest.raises(DaemonError):
        ask_within(counter.address, 0.05, "session.recall", {"late": True}, "/")
    counter.woken.set()
    with pytest.raises(DaemonError):
        ask_within(Address("/nowhere"), 1, "session.recall", {}, "/")


def test_a_hook_starts_a_daemon_that_outlives_it(warm: Warm) -> None:
    """Whoever ends the hook with all its group a moment later does not end the daemon."""
    with subprocess.Popen(HOOK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True) as process:
        said, _ = process.communicate(timeout=60)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    assert json.loads(said) == {}
    eventually(lambda: answers_at(warm.address), "a daemon answers")
    eventually(lambda: not Path(warm.address.tried).exists(), "it says that it came")
    [daemon] = warm.pids()
    assert os.getsid(daemon) == os.getpgid(daemon) == daemon


def test_many_hooks_start_one_daemon(warm: Warm) -> None:
    """Of twenty at once one starts it, and all are answered."""
    running = [subprocess.Popen(HOOK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for _ in range(20)]
    for one in running:
        assert json.loads(one.communicate(timeout=60)[0]) == {}
        assert one.returncode == 0

    eventually(lambda: answers_at(warm.address), "a daemon answers")
    eventually(lambda: len(warm.pids()) == 1, "there is one")


@pytest.mark.usefixtures("_reaped")
def test_a_daemon_that_dies_at_once_is_not_started_again_and_again(warm: Warm) -> None:
    """One that never came to listen is tried once a minute, and what it said is kept."""
    found_folders(warm.address)
    Path(warm.address.lock).mkdir()

    assert start_unseen(warm.address)
    assert not start_unseen(warm.address)
    eventually(lambda: "daemon.lock" in Path(warm.address.tried).read_text("utf-8"), "it said why")
    assert not start_unseen(warm.address)
    assert not last_failure(warm.address)  # whoever can wait may try


def test_where_another_holds_the_lock_none_is_started(warm: Warm) -> None:
    """One that lives without listening cannot be replaced: nothing is started beside it."""
    found_folders(warm.address)
    with open(warm.address.lock, "w", encoding="utf-8") as held:  # noqa: PTH123
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not start_unseen(warm.address)

    assert warm.pids() == []
    assert not Path(warm.address.tried).exists()


def test_where_nothing_can_be_written_none_is_started() -> None:
    """A home that cannot be made starts nothing and raises nothing."""
    assert not start_unseen(Address("/proc/nowhere"))
    assert not flush_unseen(Address("/proc/nowhere"))


@pytest.mark.usefixtures("_reaped")
def test_without_a_daemon_one_at_a_time_sees_to_the_spool(home: Path) -> None:
    """Where no daemon is wanted, one process sees to what waits; while it does, no other is started."""
    address = Address(str(home))
    found_folders(address)
    with open(f"{address.run}/flush.lock", "w", encoding="utf-8") as held:  # noqa: PTH123
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not flush_unseen(address)

    assert flush_unseen(address)
