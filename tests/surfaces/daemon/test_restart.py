"""An idle daemon exits and starts another one: it gives back its memory, and no request, turn or event is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.surfaces.daemon.conftest import Warm, eventually, last_answer, request
from tests.surfaces.daemon.test_spool_drain import spooled_talk
from tests.threads import in_threads

from lorelog.core.errors import DaemonError, LorelogError
from lorelog.light.daemon_connection import read_lock_holder
from lorelog.light.daemon_control import start_detached, stop
from lorelog.services.sessions import drain


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
def test_a_restarted_daemon_is_stopped(idle_daemon: Warm) -> None:
    """`daemon stop` stops a daemon that has just taken over, and leaves no file behind."""
    wait_for_restart(idle_daemon, current_pid(idle_daemon))
    idle_daemon.stop()

    assert idle_daemon.pids() == []
    assert not Path(idle_daemon.address.socket).exists()
    with pytest.raises(LorelogError, match="not running"):
        idle_daemon.status()


@pytest.mark.slow
def test_a_daemon_that_hands_over_is_stopped(idle_daemon: Warm) -> None:
    """`daemon stop` during a restart ends the old daemon, and the next one if it was already started."""
    wait_for_exit(idle_daemon, current_pid(idle_daemon))
    idle_daemon.stop()

    assert idle_daemon.pids() == []


def test_a_daemon_that_a_hook_starts_is_stopped(warm: Warm) -> None:
    """`daemon stop` waits for a daemon that another process is starting, and stops it."""
    assert start_detached(warm.address)
    assert stop(warm.address)

    assert read_lock_holder(warm.address) is None
    eventually(lambda: not warm.pids(), "its process has ended")
