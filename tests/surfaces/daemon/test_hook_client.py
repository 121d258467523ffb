"""Hook client: wake a daemon, or start one without waiting."""

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
from lorelog.light.daemon_connection import MAX_WAIT_S, DaemonAddress, ask_within, create_folders, is_listening, wake
from lorelog.light.daemon_control import flush_detached, last_failure, start_detached
from lorelog.surfaces.hook import handle_hook

HOOK = [sys.executable, "-m", "lorelog", "hook", "claude", "turn-end"]


def _children() -> set[int]:
    """Return the child processes that were not waited for."""
    if Path("/proc/self/stat").exists():
        found = set()
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                parent = file.read_text("utf-8", "replace").rpartition(")")[2].split()[1]
                found |= {int(file.parent.name)} if int(parent) == os.getpid() else set()
        return found
    listed = subprocess.run(["ps", "-axo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    lines = [line.split(None, 2) for line in listed.splitlines()]
    return {int(line[0]) for line in lines if int(line[1]) == os.getpid() and line[2:] != ["ps"]}


@pytest.fixture
def _reaped() -> Iterator[None]:
    """Reap the children that hooks leave to the system."""
    others = _children()  # such as a server that lives as long as all tests do
    yield
    for child in _children() - others:
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def test_waking_is_heard(serve: Callable[..., Counter]) -> None:
    """A wake-up reaches the daemon at once, and the client does not wait for a response."""
    counter = serve(lambda *_: {})
    assert wake(counter.address)

    assert counter.woken.wait(60)
    with counter.connect() as connection:
        connection.sendall(request("daemon.wake"))
        assert last_answer(connection)["ok"]


def test_wake_without_a_daemon_returns_false(home: Path) -> None:
    """Without a socket, or with the socket of a dead daemon, `wake` returns False."""
    address = DaemonAddress(str(home))
    assert not wake(address)

    create_folders(address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(address.socket)
    assert not wake(address)


def test_a_full_queue_is_not_waited_for(home: Path) -> None:
    """A hanging daemon counts as running, and neither `wake` nor `ask_within` waits for it."""
    address = DaemonAddress(str(home))
    create_folders(address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as hung:
        hung.bind(address.socket)
        hung.listen(0)
        assert all(wake(address) for _ in range(5))
        with pytest.raises(DaemonError):
            ask_within(address, 0.05, "session.recall", {}, "/")


def test_asking_within_a_time(serve: Callable[..., Counter]) -> None:
    """A response in time is returned; a late one, or an error, raises."""

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
        ask_within(DaemonAddress("/nowhere"), 1, "session.recall", {}, "/")


@pytest.mark.slow
def test_an_answer_that_is_late_comes_with_the_next_tool_call(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt is held at most 150 ms by a daemon that does not answer; what that finds then comes with the next tool call."""
    monkeypatch.setenv("LORELOG_SESSION_HITS_RELEVANCE", "0")
    warm.ask("memory.add", {"text": "We chose Redis for the session cache."})
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "c1"}
    payload = {"session_id": "s1", "cwd": str(warm.project), "prompt": "what do we use for the session cache?", **call}

    def shown(moment: str) -> bool:
        answer = handle_hook(["claude", moment], json.dumps(payload).encode(), os.environ)
        return "We chose Redis" in json.dumps(answer)

    assert MAX_WAIT_S <= 0.15
    daemon = warm.start()
    os.kill(daemon, signal.SIGSTOP)
    assert not shown("prompt")
    os.kill(daemon, signal.SIGCONT)
    eventually(lambda: shown("tool-before"), "the daemon leaves its answer")
    assert not shown("tool-before")


def test_a_hook_starts_a_daemon_that_outlives_it(warm: Warm) -> None:
    """Killing the hook's process group a moment later does not kill the daemon."""
    with subprocess.Popen(HOOK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True) as process:
        said, _ = process.communicate(timeout=60)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    assert json.loads(said) == {}
    eventually(lambda: is_listening(warm.address), "a daemon answers")
    eventually(lambda: not Path(warm.address.start_marker).exists(), "it says that it came")
    [daemon] = warm.pids()
    assert os.getsid(daemon) == os.getpgid(daemon) == daemon


@pytest.mark.slow
def test_many_hooks_start_one_daemon(warm: Warm) -> None:
    """Of twenty hooks at once, one starts the daemon, and all reach it."""
    running = [subprocess.Popen(HOOK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for _ in range(20)]
    for process in running:
        assert json.loads(process.communicate(timeout=60)[0]) == {}
        assert process.returncode == 0

    eventually(lambda: is_listening(warm.address), "a daemon answers")
    eventually(lambda: len(warm.pids()) == 1, "there is one")


@pytest.mark.usefixtures("_reaped")
def test_a_daemon_that_dies_at_once_is_not_started_again_and_again(warm: Warm) -> None:
    """A daemon that never listened is started once a minute at most, and its error output is kept."""
    create_folders(warm.address)
    Path(warm.address.lock).mkdir()

    assert start_detached(warm.address)
    assert not start_detached(warm.address)
    eventually(lambda: "daemon.lock" in Path(warm.address.start_marker).read_text("utf-8"), "it said why")
    assert not start_detached(warm.address)
    assert not last_failure(warm.address)  # whoever can wait may try


def test_where_another_holds_the_lock_none_is_started(warm: Warm) -> None:
    """No daemon is started beside one that runs but does not listen."""
    create_folders(warm.address)
    with open(warm.address.lock, "w", encoding="utf-8") as held:  # noqa: PTH123
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not start_detached(warm.address)

    assert warm.pids() == []
    assert not Path(warm.address.start_marker).exists()


def test_where_nothing_can_be_written_none_is_started() -> None:
    """A home that cannot be created starts nothing and raises nothing."""
    assert not start_detached(DaemonAddress("/proc/nowhere"))
    assert not flush_detached(DaemonAddress("/proc/nowhere"))


@pytest.mark.usefixtures("_reaped")
def test_without_a_daemon_one_at_a_time_sees_to_the_spool(home: Path) -> None:
    """If the daemon is turned off, one process flushes the spool, and no second one is started meanwhile."""
    address = DaemonAddress(str(home))
    create_folders(address)
    with open(f"{address.run}/flush.lock", "w", encoding="utf-8") as held:  # noqa: PTH123
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not flush_detached(address)

    assert flush_detached(address)
