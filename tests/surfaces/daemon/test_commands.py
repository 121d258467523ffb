"""`lorelog daemon` and `lorelog doctor`, run as commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, run_process
from tests.surfaces.daemon.conftest import Warm, eventually

from lorelog.stores.embedded.connection import hold_lock

FORTNIGHT = Path(__file__).parents[3] / "examples" / "fortnight"


def test_start_status_stop(warm: Warm, shell: Shell) -> None:
    """`start` starts a daemon, a second `start` finds it, `status` fits one screen, `stop` stops it."""
    started = shell("daemon", "start", "--json")
    again = shell("daemon", "start")
    status = shell("daemon", "status")
    told = shell("daemon", "status", "--json").json
    stopped = shell("daemon", "stop", "--json")

    assert started.json["started"] is True
    assert "Already running" in again.out
    assert f"process {started.json['pid']}" in status.out
    assert status.out.count("\n") <= 24
    for word in ("since", "memory", "watches", "error", "log", "calls"):
        assert f"\n{word} " in status.out
    assert (told["running"], told["pid"]) == (True, started.json["pid"])
    assert stopped.json == {"stopped": True, "pid": started.json["pid"]}
    assert warm.pids() == []
    assert shell("daemon", "stop").out == "No daemon is running.\n"


def test_status_without_a_daemon(warm: Warm, shell: Shell) -> None:
    """Without a daemon, `status` says so, exits with 1, and creates nothing."""
    status = shell("daemon", "status")

    assert (status.status, "not running" in status.out) == (1, True)
    assert shell("daemon", "status", "--json").json == {"running": False, "home": warm.address.home}
    assert not Path(warm.address.home).exists()


@pytest.mark.slow
def test_a_command_starts_it_and_the_next_one_uses_it(warm: Warm) -> None:
    """`add` starts a daemon, and the next command uses the same one."""
    added = run_process(["add", "the bilby digs"], warm.project)
    found = run_process(["search", "bilby", "--json"], warm.project)
    status = warm.status()

    assert (added.status, found.status) == (0, 0)
    assert len(found.json["hits"]) == 1
    assert status["calls"] >= 2
    assert len(warm.pids()) == 1


def test_required_fails_where_there_can_be_none(warm: Warm) -> None:
    """`--daemon auto` falls back silently; `--daemon required` fails with the reason."""
    home = Path(warm.address.home)
    home.mkdir(parents=True)
    (home / "run").write_text("in the way", "utf-8")

    silent = run_process(["search", "anything", "--daemon", "auto"], warm.project)
    strict = run_process(["search", "anything", "--daemon", "required"], warm.project)

    assert (silent.status, silent.out) == (0, "Nothing found.\n")
    assert str(home / "run") not in silent.err
    assert strict.status == 1
    assert "run" in strict.err


@pytest.mark.slow
def test_doctor_looks_at_everything(warm: Warm, shell: Shell) -> None:
    """Doctor checks settings, index and daemon, exits with 0 if all is well, and starts nothing."""
    shell("add", "all is well", "--daemon", "off")
    cold = shell("doctor", "--json")
    warm.start()
    told = shell("doctor", "--json")

    assert (cold.status, cold.json["ok"], cold.json["daemon"]["running"]) == (0, True, False)
    names = [check["name"] for check in told.json["checks"]]
    assert {"settings", "index", "vectors", "daemon"} <= set(names)
    assert told.json["daemon"]["pid"] == warm.status()["pid"]
    assert "fail" not in shell("doctor").out


@pytest.mark.slow
def test_the_readme_flow_stays_healthy_while_the_index_is_locked(warm: Warm, shell: Shell) -> None:
    """The daemon indexes changes of indexed files; waiting for another run is logged once, and no error."""
    home = Path(warm.address.home)
    home.mkdir(parents=True)
    (home / "config.toml").write_text('[embedding]\nprovider = "fake"\n[watch]\ndebounce_ms = 50\n', "utf-8")
    memory = warm.project / "memory"
    shutil.copytree(FORTNIGHT / "memory", memory)
    assert shell("index", "memory").status == 0
    eventually(lambda: str(memory) in ((warm.status()["watch"] or {}).get("roots") or []), "it is watched")
    (lock,) = (home / "cache").rglob("run.lock")
    with hold_lock(lock, wait_s=30):
        (memory / "new.md").write_text("# New\n\nthe quokka smiles\n", "utf-8")
        eventually(lambda: warm.status()["watch"]["waiting_for"], "the watcher waits for the lock")
        doctor, doctor_json = shell("doctor"), shell("doctor", "--json")
        status, status_json = shell("daemon", "status"), shell("daemon", "status", "--json")

    assert (doctor.status, doctor_json.json["ok"], status.status) == (0, True, 0), doctor.out
    assert "waiting for another index run" in status.out
    for watch in (status_json.json["watch"], doctor_json.json["daemon"]["watch"]):
        assert (watch["last_error"], watch["pending"]) == (None, True)
    eventually(lambda: not warm.status()["watch"]["waiting_for"], "the change is indexed")
    assert warm.ask("memory.search", {"query": "quokka", "lane": "lexical"})["hits"]
    assert Path(warm.address.log).read_text("utf-8").count("waiting for another index run") == 1
    assert shell("daemon", "status").status == 0
    assert shell("doctor").status == 0


@pytest.mark.slow
def test_doctor_reports_a_watch_error_until_it_is_fixed(warm: Warm, shell: Shell) -> None:
    """An error while watching fails doctor and is shown by status; both are clean again after a good pass."""
    (warm.project / "notes").mkdir()
    (warm.project / "notes" / "a.md").write_text("# A\n\nalpha\n", "utf-8")
    settings = warm.project / ".lorelog.toml"
    home = Path(warm.address.home)
    home.mkdir(parents=True)
    config = '[embedding]\nprovider = "fake"\n[watch]\ndebounce_ms = 50\nreconcile_s = 0.2\n'
    (home / "config.toml").write_text(config, "utf-8")
    assert shell("index", "notes").status == 0
    eventually(lambda: warm.status()["watch"], "it is watched")
    settings.write_text("[index\n", "utf-8")
    error = eventually(lambda: warm.status()["watch"]["last_error"], "the error is reported")
    whole, broken, status = shell("doctor"), shell("doctor", "--daemon-only"), shell("daemon", "status")
    settings.unlink()
    eventually(lambda: warm.status()["watch"]["last_error"] is None, "the error is cleared")

    assert (whole.status, broken.status, {*error}) == (1, 1, {"at", "message", "hint"})
    assert ".lorelog.toml" in broken.out
    assert ".lorelog.toml" in status.out
    assert shell("doctor", "--daemon-only").status == 0


def test_doctor_tells_of_a_start_that_failed(warm: Warm, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor reports why the last start failed, although commands fall back silently."""
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    assert shell("daemon", "start").status == 1
    monkeypatch.delenv("PYTHONHOME")
    told = shell("doctor", "--daemon-only", "--json")

    assert told.status == 1
    assert "did not start" in told.json["checks"][0]["message"]


@pytest.mark.slow
def test_broken_settings_are_told_by_doctor_and_status(warm: Warm, shell: Shell) -> None:
    """Invalid settings do not keep the daemon from starting; doctor and status report them."""
    home = Path(warm.address.home)
    home.mkdir(parents=True)
    (home / "config.toml").write_text("[daemon]\nidle_s = 'soon'\n", "utf-8")
    warm.start()

    assert shell("doctor", "--json").status == 1
    last = eventually(lambda: warm.status()["last_error"])
    assert last["op"] == "settings"
