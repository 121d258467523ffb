"""The restart of an idle daemon: it gives back its memory, and no request, connection or event is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.surfaces.daemon.conftest import Warm, eventually, last_answer, request
from tests.surfaces.daemon.test_spool_drain import spooled_talk

from lorelog.core.errors import LorelogError
from lorelog.light import spool
from lorelog.light.daemon_control import read_lock_holder

pytestmark = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")


@pytest.fixture
def idle_daemon(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> Warm:
    """A daemon that restarts after a second without a call. No model embeds."""
    monkeypatch.setenv("LORELOG_DAEMON_MODEL_IDLE_S", "1")
    warm.ask("memory.stats")
    (Path(warm.address.home) / "config.toml").write_text('[embedding]\nprovider = "none"\n')
    return warm


def wait_for_exec(pid: int) -> None:
    """Wait until the daemon executes its program anew. It does not listen again before it has imported its modules."""
    eventually(lambda: b"--resume" in Path(f"/proc/{pid}/cmdline").read_bytes(), "the program is executed anew")


def wait_for_restart(warm: Warm, count: int = 1) -> None:
    eventually(lambda: warm.status()["restarts"] == count, "the daemon has restarted")


def in_threads(work: Callable[[int], object], count: int) -> list[BaseException]:
    """Run a function in threads, and return what they raised."""
    raised: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def memories(warm: Warm) -> list[str]:
    return [path.read_text("utf-8") for path in (warm.project / ".lorelog" / "memory").glob("*.md")]


def test_an_idle_daemon_is_the_same_with_less_memory(idle_daemon: Warm) -> None:
    """After a restart, process, lock, pid file, start time and counts are the same; modules are not loaded; calls work."""
    idle_daemon.ask("memory.add", {"text": "the numbat eats termites"})
    before = idle_daemon.status()
    libraries = Path(f"/proc/{before['pid']}/maps")
    assert "tantivy" in libraries.read_text("utf-8")

    wait_for_restart(idle_daemon)

    after = idle_daemon.status()
    assert {name: after[name] for name in ("pid", "calls", "errors", "started_at", "socket")} == {
        name: before[name] for name in ("pid", "calls", "errors", "started_at", "socket")
    }
    assert after["uptime_s"] >= before["uptime_s"]
    assert after["idle_s"] >= 1
    assert "tantivy" not in libraries.read_text("utf-8")
    assert Path(idle_daemon.address.pid).read_text("utf-8") == f"{before['pid']}\n"
    holder = read_lock_holder(idle_daemon.address)
    assert holder is not None
    assert holder["pid"] == before["pid"]
    assert idle_daemon.pids() == [before["pid"]]
    assert idle_daemon.ask("memory.search", {"query": "termites"}, start=None)["hits"]


@pytest.mark.slow
def test_a_daemon_without_work_restarts_once(idle_daemon: Warm) -> None:
    """A restarted daemon does not restart again until it was used; after further calls it does."""
    wait_for_restart(idle_daemon)
    pid = idle_daemon.status()["pid"]
    eventually(lambda: idle_daemon.status()["idle_s"] > 5, "it is idle for several times the limit")
    assert idle_daemon.status()["restarts"] == 1

    idle_daemon.ask("memory.stats", start=None)
    wait_for_restart(idle_daemon, 2)
    assert idle_daemon.status()["pid"] == pid


@pytest.mark.slow
def test_open_connections_survive(idle_daemon: Warm) -> None:
    """A connection that was opened before a restart is answered after it, also if its request is sent meanwhile."""
    pid = idle_daemon.status()["pid"]
    early, late = idle_daemon.connect(), idle_daemon.connect()
    early.sendall(request("daemon.status"))
    assert last_answer(early)["ok"]
    wait_for_exec(pid)
    early.sendall(request("memory.stats"))
    assert last_answer(early)["ok"]
    late.sendall(request("memory.stats"))
    assert last_answer(late)["ok"]
    early.close()
    late.close()


@pytest.mark.slow
def test_half_a_request_is_waited_for(idle_daemon: Warm) -> None:
    """A daemon that has received a part of a request does not restart before it has answered it."""
    client = idle_daemon.connect()
    line = request("memory.stats")
    client.sendall(line[:20])
    eventually(lambda: idle_daemon.status()["idle_s"] > 4, "it is idle for several times the limit")
    assert idle_daemon.status()["restarts"] == 0

    client.sendall(line[20:])
    assert last_answer(client)["ok"]
    client.close()
    wait_for_restart(idle_daemon)


@pytest.mark.slow
def test_every_request_is_answered(idle_daemon: Warm) -> None:
    """Of clients that ask all the time, not one is refused or left without a reply while the daemon restarts."""
    done = threading.Event()

    def ask(number: int) -> None:
        if number == 0:
            wait_for_restart(idle_daemon)
            done.set()
        while not done.is_set():
            idle_daemon.status()

    assert in_threads(ask, 4) == []


@pytest.mark.slow
def test_writes_during_a_restart_are_done_once(idle_daemon: Warm) -> None:
    """Memories that are added while the daemon restarts are written exactly once each."""
    pid = idle_daemon.status()["pid"]

    def add(number: int) -> None:
        wait_for_exec(pid)
        idle_daemon.ask("memory.add", {"text": f"quoll number {number:02} hunts"}, start=None)

    assert in_threads(add, 12) == []
    text = "".join(memories(idle_daemon))
    assert [text.count(f"quoll number {number:02} hunts") for number in range(12)] == [1] * 12
    assert idle_daemon.status()["pid"] == pid


@pytest.mark.slow
def test_turns_spooled_during_a_restart_are_captured_once(idle_daemon: Warm, tmp_path: Path) -> None:
    """A turn that ends while the daemon restarts is captured, once, with and without a wake-up."""
    world, talk = spooled_talk(idle_daemon, tmp_path)
    talk.spool("session-start", source="startup")
    eventually(lambda: not spool.list_events(idle_daemon.address.home), "the spool is empty")
    pid = idle_daemon.status()["pid"]
    wait_for_exec(pid)
    talk.exchange("where do wombats sleep?", "In burrows.")
    talk.spool("turn-end")
    eventually(lambda: "In burrows." in world.text(), "the turn is written")
    wait_for_restart(idle_daemon, 2)
    talk.exchange("and koalas?", "In trees.")
    talk.spool("turn-end")
    idle_daemon.ask("daemon.wake", start=None)
    eventually(lambda: "In trees." in world.text(), "the second turn is written")
    eventually(lambda: not spool.list_events(idle_daemon.address.home), "the spool is empty")

    assert world.text().count("In burrows.") == world.text().count("In trees.") == 1
    assert idle_daemon.status()["last_error"] is None


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_during_a_restart_ends_it(idle_daemon: Warm, number: signal.Signals) -> None:
    """A daemon that gets a signal while it restarts ends; nothing acknowledged is lost, and the next command starts another."""
    idle_daemon.ask("memory.add", {"text": "the bilby digs"})
    pid = idle_daemon.status()["pid"]
    wait_for_exec(pid)
    os.kill(pid, number)
    idle_daemon.wait_gone()
    assert Path(idle_daemon.address.pid).exists() == (number == signal.SIGKILL)

    assert idle_daemon.ask("memory.search", {"query": "bilby"})["hits"]
    assert idle_daemon.status()["pid"] != pid


@pytest.mark.slow
def test_a_restart_that_fails_changes_nothing(idle_daemon: Warm, tmp_path: Path) -> None:
    """A daemon that cannot restart reports it, works on, and captures turns as before."""
    pid = idle_daemon.status()["pid"]
    Path(idle_daemon.address.run, "daemon.handover").mkdir()
    failure = eventually(lambda: idle_daemon.status()["last_error"], "the restart fails")
    assert (failure["op"], failure["code"]) == ("restart", "IsADirectoryError")

    world, talk = spooled_talk(idle_daemon, tmp_path)
    talk.exchange("where do dingoes live?", "In dens.")
    talk.spool("turn-end")
    eventually(lambda: "In dens." in world.text(), "the turn is written")
    assert idle_daemon.ask("memory.stats", start=None) is not None
    assert (idle_daemon.status()["pid"], idle_daemon.status()["restarts"]) == (pid, 0)


def test_the_state_is_read_as_it_was_written(home: Path) -> None:
    """What a daemon hands over to itself arrives unchanged; what another version wrote is read; no other file stays open."""
    run = home / "run"
    run.mkdir(parents=True)
    script = (
        "import os, sys\n"
        "from lorelog.surfaces.daemon import instance\n"
        "from lorelog.surfaces.daemon.connection import DaemonFailure\n"
        "from lorelog.light.daemon_address import DaemonAddress\n"
        "other, lock, listener, client = (os.open('/', os.O_RDONLY) for _ in range(4))\n"
        "failure = DaemonFailure('drain', 'store', 'locked', 1.5)\n"
        "given = instance.Handover(lock=(lock, 2, 3), listener=listener, connections=[(client, True)], started=1.0,\n"
        "    started_at=2.0, last_used_at=3.0, calls=4, errors=5, restarts=6, last_failure=failure,\n"
        "    visited=[('default', '/a b')])\n"
        "state = instance._write_state(DaemonAddress(sys.argv[1]), given)\n"
        "assert instance.resume(state) == given\n"
        "for number in (lock, listener, client): os.fstat(number)\n"
        "bare = os.open(sys.argv[1] + '/bare', os.O_RDWR | os.O_CREAT)\n"
        'os.write(bare, b\'{"lock": [%d, 2, 3], "listener": %d, "connections": [], "new": 1}\' % (lock, listener))\n'
        "assert instance.resume(bare).calls == 0\n"
        "client = lock\n"
        "for number in (other, state):\n"
        "    try: os.fstat(number)\n"
        "    except OSError: continue\n"
        "    sys.exit(f'{number} is open')\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(home)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(run.iterdir()) == []


@pytest.mark.slow
def test_no_restart_if_it_is_switched_off(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `daemon.idle_restart` off, an idle daemon closes its files and stays as it is."""
    monkeypatch.setenv("LORELOG_DAEMON_MODEL_IDLE_S", "1")
    monkeypatch.setenv("LORELOG_DAEMON_IDLE_RESTART", "false")
    warm.ask("memory.stats")
    eventually(lambda: warm.status()["idle_s"] > 4, "it is idle for several times the limit")

    assert warm.status()["restarts"] == 0


@pytest.mark.slow
def test_a_stop_during_a_restart_is_obeyed(idle_daemon: Warm) -> None:
    """`daemon stop` stops a daemon that is about to restart or has just restarted, and leaves no file behind."""
    pid = idle_daemon.status()["pid"]
    wait_for_exec(pid)
    idle_daemon.stop()

    assert idle_daemon.pids() == []
    assert not Path(idle_daemon.address.socket).exists()
    with pytest.raises(LorelogError, match="not running"):
        idle_daemon.status()
