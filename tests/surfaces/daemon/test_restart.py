"""An idle daemon exits and starts another one, and one of another version or code makes way: no request, turn or event is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.daemon.conftest import Warm, eventually, last_answer, request
from tests.surfaces.daemon.test_spool_drain import spooled_talk
from tests.threads import in_threads

import lorelog
from lorelog.core.errors import DaemonError, LorelogError, ReplyLost
from lorelog.light.daemon_connection import read_lock_holder
from lorelog.light.daemon_control import start_detached, stop
from lorelog.services.sessions import drain
from lorelog.surfaces.daemon.connection import RunningCode
from lorelog.surfaces.daemon.server import InstanceLock


@pytest.fixture
def idle_daemon(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> Warm:
    """A daemon that restarts after a second without a call. No model embeds."""
    monkeypatch.setenv("LORELOG_DAEMON_MODEL_IDLE_S", "1")
    warm.ask("memory.stats")
    (Path(warm.address.home) / "config.toml").write_text('[embedding]\nprovider = "none"\n')
    return warm


def current_pid(warm: Warm) -> int:
    """Return the process of the daemon that listens, or 0."""
    try:
        return int(warm.status()["pid"])
    except DaemonError:
        return 0


def wait_for_restart(warm: Warm, pid: int) -> int:
    """Wait until another process listens, and return its id."""
    return int(eventually(lambda: (now := current_pid(warm)) != pid and now, "another daemon listens"))


def wait_for_exit(warm: Warm, pid: int) -> None:
    eventually(lambda: current_pid(warm) != pid, "the daemon has stopped listening")


@pytest.mark.slow
def test_an_idle_daemon_is_replaced_by_one_with_less_memory(idle_daemon: Warm) -> None:
    """After a second without a call, another process listens that has loaded nothing; it answers, and stays until it was used."""
    pid = current_pid(idle_daemon)
    idle_daemon.ask("memory.add", {"text": "the numbat eats termites"})
    before = idle_daemon.status()["rss_bytes"]

    after = wait_for_restart(idle_daemon, pid)

    status = idle_daemon.status()
    assert (status["calls"], status["last_error"], idle_daemon.pids()) == (0, None, [after])
    assert status["rss_bytes"] < before
    eventually(lambda: idle_daemon.status()["idle_s"] > 3, "it is idle for several times the limit")
    assert current_pid(idle_daemon) == after
    assert idle_daemon.ask("memory.search", {"query": "termites"}, start=None)["hits"]
    assert wait_for_restart(idle_daemon, after)


@pytest.mark.slow
def test_half_a_request_is_waited_for(idle_daemon: Warm) -> None:
    """A daemon that has received a part of a request does not restart before it has answered it."""
    pid = current_pid(idle_daemon)
    client = idle_daemon.connect()
    line = request("memory.stats")
    client.sendall(line[:20])
    eventually(lambda: idle_daemon.status()["idle_s"] > 4, "it is idle for several times the limit")
    assert current_pid(idle_daemon) == pid

    client.sendall(line[20:])
    assert last_answer(client)["ok"]
    client.close()
    wait_for_restart(idle_daemon, pid)


@pytest.mark.slow
def test_writes_during_a_restart_are_done_once(idle_daemon: Warm) -> None:
    """Memories that are added while the daemon restarts are written exactly once each, by one daemon."""
    pid = current_pid(idle_daemon)

    def add(number: int) -> None:
        wait_for_exit(idle_daemon, pid)
        idle_daemon.ask("memory.add", {"text": f"quoll number {number:02} hunts"})

    assert in_threads(add, 12) == []
    journals = (idle_daemon.project / ".lorelog" / "memory").glob("*.md")
    text = "".join(path.read_text("utf-8") for path in journals)
    assert [text.count(f"quoll number {number:02} hunts") for number in range(12)] == [1] * 12


@pytest.mark.slow
def test_turns_spooled_during_a_restart_are_captured_once(idle_daemon: Warm, tmp_path: Path) -> None:
    """A turn that ends while the daemon restarts is captured, once."""
    capture_home, talk = spooled_talk(idle_daemon, tmp_path)
    talk.spool("session-start", source="startup")
    eventually(lambda: not drain.list_events(idle_daemon.address.home), "the spool is empty")
    wait_for_exit(idle_daemon, current_pid(idle_daemon))
    talk.exchange("where do wombats sleep?", "In burrows.")
    talk.spool("turn-end")

    eventually(lambda: "In burrows." in capture_home.text(), "the turn is written")
    eventually(lambda: not drain.list_events(idle_daemon.address.home), "the spool is empty")

    assert capture_home.text().count("In burrows.") == 1


@pytest.mark.slow
@pytest.mark.parametrize("moment", [wait_for_restart, wait_for_exit])
def test_a_daemon_that_hands_over_is_stopped(idle_daemon: Warm, moment: Callable[[Warm, int], object]) -> None:
    """`daemon stop` during a restart, or just after it, ends the old daemon and the next one, and leaves no file behind."""
    moment(idle_daemon, current_pid(idle_daemon))
    idle_daemon.stop()

    assert idle_daemon.pids() == []
    assert not Path(idle_daemon.address.socket).exists()
    with pytest.raises(LorelogError, match="not running"):
        idle_daemon.status()


def test_a_daemon_that_a_hook_starts_is_stopped(warm: Warm) -> None:
    """`daemon stop` waits for a daemon that another process is starting, and stops it."""
    assert start_detached(warm.address)
    assert stop(warm.address)

    assert read_lock_holder(warm.address) is None
    eventually(lambda: not warm.pids(), "its process has ended")


STOPS = b'{"ok":true,"result":{},"daemon":{"pid":1,"version":"0.0.1","protocol":1}}'
OLD = b'{"ok":true,"result":{"from":"old"},"daemon":{"pid":1,"version":"0.0.1","protocol":1}}'
NEW = b'{"ok":true,"result":{"from":"new"},"daemon":{"pid":1,"version":"99.0.0","protocol":1}}'
OTHER = (
    b'{"ok":false,"error":{"code":"daemon","message":"protocol 9"},"daemon":{"pid":1,"version":"99.0.0","protocol":9}}'
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
    with forged(warm, OTHER), pytest.raises(DaemonError, match="protocol 9"):
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


PACKAGE = Path(lorelog.__file__).parent


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the program, as another installation has it."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "site" / "lorelog", ignore=shutil.ignore_patterns("__pycache__")))


def test_modules_are_the_same_if_their_text_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another installation of the same code is served; one with a changed, new or missing module is not; times do not count."""
    original = PACKAGE / "core"
    package = Path(shutil.copytree(original, tmp_path / "site" / "core", ignore=shutil.ignore_patterns("__pycache__")))
    code = RunningCode(str(original))
    assert code.is_same(str(original))
    assert code.is_same("")
    assert code.is_same(str(package))
    module = package / "ids.py"
    module.write_text(module.read_text("utf-8") + "# changed\n", "utf-8")
    assert not code.is_same(str(package))
    assert code.is_same(str(package.parent / "nothing"))
    copy = RunningCode(str(package))
    monkeypatch.setattr("lorelog.surfaces.daemon.connection._CODE_CHECK_S", 0.0)
    assert not copy.is_replaced()
    (package / "new_module.py").touch()
    assert copy.is_replaced()


@pytest.mark.slow
def test_an_update_of_the_same_version_replaces_the_daemon(warm: Warm, package: Path) -> None:
    """After its files were replaced, a daemon leaves at the next request, and that request is answered by the new code."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "LORELOG_HOME": warm.address.home}

    def run(*words: str, at: Path = package.parent) -> str:
        command = [sys.executable, "-m", "lorelog", *words]
        env = {**environment, "PYTHONPATH": str(at)}
        done = subprocess.run(command, cwd=warm.project, env=env, capture_output=True, text=True, check=True)
        return done.stdout

    def daemon() -> int:
        held = read_lock_holder(warm.address)
        return int(held["pid"]) if held and not held.get("leaving") else 0

    run("daemon", "start")
    run("add", "the otter lives in the river")
    first = daemon()
    assert "otter" in run("search", "otter", at=PACKAGE.parent)  # the same code elsewhere: served
    assert daemon() == first
    module = package / "core" / "ids.py"
    module.write_text(module.read_text("utf-8") + "# changed\n", "utf-8")
    assert "otter" in run("search", "otter", at=PACKAGE.parent)  # other code now, and yet an answer
    eventually(lambda: "otter" in run("search", "otter") and daemon() not in (0, first), "a new daemon answers")
