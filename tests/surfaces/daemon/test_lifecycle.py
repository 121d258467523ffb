"""Lifecycle of real daemon processes: start, stop, crash, one that does not answer, and never more than one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell
from tests.surfaces.daemon.conftest import Warm, eventually

from lorelog.core.errors import DaemonError, DaemonNotRunning, DaemonUnresponsive, LorelogError, ReplyLost, StoreError
from lorelog.light import daemon_client as client
from lorelog.light import daemon_connection as liveness
from lorelog.light.daemon_connection import DaemonAddress, ask_within, create_folders
from lorelog.light.daemon_control import last_failure, start, stop
from lorelog.surfaces.daemon.server import InstanceLock

STARTER = """
import sys
from lorelog.light.daemon_client import call_daemon
from lorelog.light.daemon_control import start
print(call_daemon("memory.stats", {}, directory="/", start=start) and call_daemon("daemon.status", {}, directory="/")["pid"])
"""


@pytest.mark.slow
def test_twenty_starters_share_one_daemon(warm: Warm) -> None:
    """Of twenty processes that start a daemon at once, all get a response from the same one."""
    starters = [subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True) for _ in range(20)]
    said = [starter.communicate(timeout=300)[0].strip() for starter in starters]

    assert [starter.returncode for starter in starters] == [0] * 20
    assert len(set(said)) == 1
    assert warm.pids() == [int(said[0])]
    log = Path(warm.address.log).read_text("utf-8")
    assert log.count("started:") == 1


def test_nothing_is_started_unasked(warm: Warm) -> None:
    """Without `start`, a call fails and creates nothing."""
    with pytest.raises(DaemonNotRunning, match="the daemon is not running"):
        client.call_daemon("memory.stats", {}, directory="/")

    assert not Path(warm.address.home).exists()


def test_it_leaves_its_starter_behind(warm: Warm) -> None:
    """The daemon has its own session and directory, no inherited descriptors, and private files."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    pid = warm.start()
    os.close(writing)

    assert os.getsid(pid) != os.getsid(0)
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert os.read(reading, 1) == b""  # nobody holds the other end
    os.close(reading)
    run = Path(warm.address.run)
    assert run.stat().st_mode & 0o777 == 0o700
    assert Path(warm.address.socket).stat().st_mode & 0o777 == 0o600
    assert {path.stat().st_mode & 0o077 for path in run.iterdir()} == {0}
    assert Path(warm.address.pid).read_text("utf-8") == f"{pid}\n"


def test_modules_of_the_starters_directory_are_not_its_own(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon does not import modules of the project it was started from."""
    (warm.project / "msgspec.py").write_text("raise SystemExit('taken over')", "utf-8")
    monkeypatch.chdir(warm.project)

    assert warm.ask("memory.stats")["documents"] == 0


@pytest.mark.slow
def test_writes_are_read_by_every_process(warm: Warm) -> None:
    """Memories written through the daemon or without it are found by the next process, with or without the daemon."""
    cold = [sys.executable, "-m", "lorelog"]
    environment = {**os.environ, "LORELOG_DAEMON_WARM": "off"}

    def hits(word: str) -> int:
        return len(warm.ask("memory.search", {"query": word, "lane": "lexical"})["hits"])

    warm.ask("memory.add", {"text": "the quokka sleeps"})
    assert hits("quokka") == 1
    found = subprocess.run([*cold, "search", "quokka", "--json"], env=environment, capture_output=True, check=True)
    assert len(json.loads(found.stdout)["hits"]) == 1

    subprocess.run([*cold, "add", "the wombat digs"], env=environment, capture_output=True, check=True)
    assert hits("wombat") == 1
    assert warm.pids() == [warm.status()["pid"]]


def delete_home(warm: Warm) -> None:
    """Delete the home as a person would: again, if the daemon created a file in it meanwhile."""

    def deleted() -> bool:
        shutil.rmtree(warm.address.home, ignore_errors=True)
        return not Path(warm.address.home).exists()

    eventually(deleted, "the home is deleted")


@pytest.mark.slow
def test_it_leaves_when_its_home_is_deleted(warm: Warm) -> None:
    """A daemon whose home is deleted exits without recreating it, and the next command starts another."""
    warm.ask("memory.add", {"text": "soon gone", "to_global": True})
    delete_home(warm)
    eventually(lambda: not warm.pids(), "the daemon is gone")

    assert not Path(warm.address.home).exists()
    assert warm.ask("memory.stats")["documents"] == 0


@pytest.mark.slow
def test_a_home_deleted_and_made_again_has_one_daemon(warm: Warm) -> None:
    """If home and daemon were recreated before the old daemon noticed, the old one exits and the new one stays."""
    old = warm.start()
    delete_home(warm)
    new = warm.start()
    eventually(lambda: warm.pids() == [new])

    assert new != old
    assert warm.status()["pid"] == new


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_loses_nothing(warm: Warm, number: signal.Signals) -> None:
    """After SIGTERM or SIGINT during writes, every confirmed write is complete and no write is partial."""
    warm.start()
    kept: list[str] = []
    stopped = threading.Event()

    def write() -> None:
        while not stopped.is_set():
            text = f"entry {len(kept)} {threading.get_ident()}"
            try:
                kept.append(warm.ask("memory.add", {"text": text}, start=None)["memory"])
            except LorelogError:
                return

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    eventually(lambda: len(kept) > 5)
    os.kill(warm.status()["pid"], number)
    warm.wait_gone()
    stopped.set()
    for writer in writers:
        writer.join()

    _all_there(warm, kept)


@pytest.mark.slow
def test_an_index_run_that_is_stopped_goes_on_next_time(warm: Warm) -> None:
    """A long index run stops within five seconds, and its finished work is kept."""
    notes = warm.project / "notes"
    notes.mkdir()
    for number in range(3000):
        (notes / f"{number}.md").write_text(f"# N{number}\n\nnote number {number}\n", "utf-8")
    warm.start()
    said: list[LorelogError] = []

    def index() -> None:
        try:
            warm.ask("memory.index", {"paths": ["notes"]}, start=None, progress=lambda *_: begun.set())
        except LorelogError as error:
            said.append(error)

    begun = threading.Event()
    running = threading.Thread(target=index)
    running.start()
    assert begun.wait(60)
    warm.stop()
    running.join()
    warm.wait_gone()

    assert [error.code for error in said] == ["cancelled"]
    assert warm.ask("memory.index", {"paths": ["notes"]})["files"] == 3000


def test_a_start_that_failed_is_remembered(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed start is not repeated within a minute, unless forced; each attempt reports the reason."""
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    with pytest.raises(DaemonError, match="did not start"):
        warm.ask("memory.stats")
    monkeypatch.delenv("PYTHONHOME")
    with pytest.raises(DaemonError, match=r"did not start.* ago\)"):
        warm.ask("memory.stats")
    assert "did not start" in last_failure(warm.address)

    start(warm.address, force=True)
    assert last_failure(warm.address) == ""
    assert warm.ask("memory.stats")["documents"] == 0


@pytest.mark.slow
def test_two_daemons_cannot_hold_one_home(warm: Warm) -> None:
    """A second daemon does not start, even without the start lock."""
    pid = warm.start()
    with pytest.raises(DaemonError, match="another daemon holds"):
        InstanceLock(warm.address, wait_s=0.1)
    second = subprocess.run(
        [sys.executable, "-m", "lorelog.surfaces.daemon.process", "--home", warm.address.home],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "another daemon holds" in second.stderr
    assert warm.pids() == [pid]


def test_a_long_home_has_a_daemon(warm: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home whose path is too long for a socket can have a daemon, which leaves no files elsewhere."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/tmp")
    home = str(tmp_path / ("d" * 150))
    monkeypatch.setenv("LORELOG_HOME", home)
    address = DaemonAddress(home)
    try:
        assert client.call_daemon("memory.stats", {}, directory="/", start=start)["documents"] == 0
        assert address.folder.startswith("/tmp/lorelog-")
        assert Path(address.folder).stat().st_mode & 0o777 == 0o700
    finally:
        stop(address)
    assert not Path(address.folder).exists()


@pytest.mark.slow
def test_a_full_disk_does_not_end_it(warm: Warm) -> None:
    """On a full disk a write fails with the reason, reads and status work, and writes work again once there is space."""
    import resource

    warm.ask("memory.add", {"text": "the numbat forages"})
    pid = warm.status()["pid"]
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    for number in range(3):
        with pytest.raises(LorelogError) as full:
            warm.ask("memory.add", {"text": f"no room for {number}"}, start=None)
        assert isinstance(full.value, StoreError)
        assert "fault of lorelog itself" not in full.value.message
    assert len(warm.ask("memory.search", {"query": "numbat", "lane": "lexical"}, start=None)["hits"]) == 1
    assert warm.status()["pid"] == pid

    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    kept = warm.ask("memory.add", {"text": "room again"}, start=None)["memory"]
    _all_there(warm, [kept])
    assert warm.status()["pid"] == pid


@pytest.mark.slow
def test_an_idle_model_is_unloaded(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is loaded when first needed, unloaded when idle, and loaded again."""
    monkeypatch.setenv("LORELOG_DAEMON_MODEL_IDLE_S", "1")
    warm.ask("memory.stats")
    assert warm.status()["models_loaded"] == 0
    warm.ask("memory.add", {"text": "the cuscus climbs"})
    eventually(lambda: warm.status()["models_loaded"] == 0, "the model is let go")
    files = Path(f"/proc/{warm.status()['pid']}/fd")
    if files.exists():
        eventually(lambda: not any("catalog.db" in str(file.resolve()) for file in files.iterdir()), "files are closed")

    assert warm.ask("memory.search", {"query": "cuscus"})["hits"]


@pytest.mark.slow
def test_memory_does_not_grow_with_calls(warm: Warm) -> None:
    """The daemon's memory use does not grow with the number of calls."""

    def ask_often(times: int) -> int:
        for number in range(times):
            warm.ask("memory.search", {"query": f"word{number % 50} kangaroo"}, start=None)
        return int(warm.status()["rss_bytes"])

    for number in range(20):
        warm.ask("memory.add", {"text": f"word{number} kangaroo"})
    early = ask_often(300)

    assert ask_often(1500) < early * 1.2


def test_the_log_is_turned_over(tmp_path: Path) -> None:
    """The log is rotated, keeps two older files, and survives the deletion of its folder."""
    script = (
        "import shutil, sys\n"
        "from lorelog.surfaces.daemon.process import DaemonLog\n"
        "log = DaemonLog(sys.argv[1], max_bytes=2000)\n"
        "log.open()\n"
        "for number in range(200): log.write(f'entry {number} ' + 'x' * 50)\n"
        "if len(sys.argv) > 2: shutil.rmtree(sys.argv[2]); [log.write('y' * 500) for _ in range(20)]\n"
    )
    path = tmp_path / "logs" / "daemon.log"
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)

    files = sorted(file.name for file in path.parent.iterdir())
    assert files == ["daemon.log", "daemon.log.1", "daemon.log.2"]
    assert all(file.stat().st_size < 2200 for file in path.parent.iterdir())
    assert "entry 199" in path.read_text("utf-8")
    subprocess.run([sys.executable, "-c", script, str(path), str(path.parent)], check=True)
    assert not path.parent.exists()


def _all_there(warm: Warm, kept: list[str]) -> None:
    """Every confirmed memory is in its journal once, and in the index."""
    text = "".join(path.read_text("utf-8") for path in (warm.project / ".lorelog" / "memory").glob("*.md"))
    assert [memory for memory in kept if text.count(memory) != 1] == []
    assert [memory for memory in kept if not warm.ask("memory.get", {"id": memory})["found"]] == []


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
