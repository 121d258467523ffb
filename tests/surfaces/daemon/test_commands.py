"""`lorelog warm` and `lorelog doctor`, as a person types them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, run_process
from tests.surfaces.daemon.conftest import Warm, connected, eventually, request

from lorelog.surfaces.daemon.address import Address


def test_start_status_stop(warm: Warm, shell: Shell) -> None:
    """Start starts one, a second start finds it, status tells of it on one screen, stop ends it."""
    started = shell("warm", "start", "--json")
    again = shell("warm", "start")
    status = shell("warm", "status")
    told = shell("warm", "status", "--json").json
    stopped = shell("warm", "stop", "--json")

    assert started.json["started"] is True
    assert "Running already" in again.out
    assert f"process {started.json['pid']}" in status.out
    assert status.out.count("\n") <= 24
    for word in ("since", "memory", "watches", "error", "log", "calls"):
        assert f"\n{word} " in status.out
    assert (told["running"], told["pid"]) == (True, started.json["pid"])
    assert stopped.json == {"stopped": True, "pid": started.json["pid"]}
    assert warm.pids() == []
    assert shell("warm", "stop").out == "No daemon is running.\n"


def test_status_without_a_daemon(warm: Warm, shell: Shell) -> None:
    """Where none is running, status says so, ends with 1, and makes nothing."""
    status = shell("warm", "status")

    assert (status.status, "not running" in status.out) == (1, True)
    assert shell("warm", "status", "--json").json == {"running": False, "home": warm.address.home}
    assert not Path(warm.address.home).exists()


def test_a_command_starts_it_and_the_next_one_uses_it(warm: Warm) -> None:
    """`search` starts a daemon unasked; the commands after it are answered by the same one."""
    added = run_process(["add", "the bilby digs"], warm.project)
    found = run_process(["search", "bilby", "--json"], warm.project)
    status = warm.status()

    assert (added.status, found.status) == (0, 0)
    assert len(found.json["hits"]) == 1
    assert status["calls"] >= 2
    assert len(warm.pids()) == 1


def test_required_fails_where_there_can_be_none(warm: Warm) -> None:
    """`--warm auto` falls back without a word, `--warm required` says why it cannot."""
    home = Path(warm.address.home)
    home.mkdir(parents=True)
    (home / "run").write_text("in the way", "utf-8")

    silent = run_process(["search", "anything", "--warm", "auto"], warm.project)
    strict = run_process(["search", "anything", "--warm", "required"], warm.project)

    assert (silent.status, silent.out) == (0, "Nothing found.\n")
    assert "run" not in silent.err
    assert strict.status == 1
    assert "run" in strict.err


def test_off_starts_nothing(warm: Warm) -> None:
    """`--warm off` works alone."""
    assert run_process(["add", "alone", "--warm", "off"], warm.project).status == 0
    assert warm.pids() == []


def test_doctor_looks_at_everything(warm: Warm, shell: Shell) -> None:
    """Doctor tells of settings, index and daemon, ends with 0 where all is well, and starts nothing."""
    shell("add", "all is well", "--warm", "off")
    cold = shell("doctor", "--json")
    warm.start()
    told = shell("doctor", "--json")

    assert (cold.status, cold.json["ok"], cold.json["daemon"]["running"]) == (0, True, False)
    names = [check["name"] for check in told.json["checks"]]
    assert {"settings", "index", "vectors", "daemon"} <= set(names)
    assert told.json["daemon"]["pid"] == warm.status()["pid"]
    assert "wrong" not in shell("doctor").out


def test_doctor_names_what_is_wrong(warm: Warm, shell: Shell) -> None:
    """A root that is gone, and a daemon's last error, are told with what to do, and end with 1."""
    (warm.project / "notes").mkdir()
    (warm.project / "notes" / "a.md").write_text("# A\n\nalpha\n", "utf-8")
    shell("index", "notes", "--warm", "off")
    (warm.project / "notes" / "a.md").unlink()
    (warm.project / "notes").rmdir()
    sick = shell("doctor")

    assert sick.status == 1
    assert "wrong" in sick.out
    assert "hint:" in sick.out


def test_doctor_tells_of_a_daemon_that_hangs(warm: Warm, shell: Shell) -> None:
    """A daemon that answers nothing is wrong, and doctor says how to end it."""
    pid = warm.start()
    os.kill(pid, signal.SIGSTOP)
    try:
        told = shell("doctor", "--daemon")
    finally:
        os.kill(pid, signal.SIGCONT)

    assert told.status == 1
    assert "wrong" in told.out
    assert "hint:" in told.out


def test_doctor_tells_of_a_start_that_failed(warm: Warm, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where commands fall back silently, doctor says why."""
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    assert shell("warm", "start").status == 1
    monkeypatch.delenv("PYTHONHOME")
    told = shell("doctor", "--daemon", "--json")

    assert told.status == 1
    assert "did not start" in told.json["checks"][0]["message"]


def test_broken_settings_are_told_by_doctor_and_status(warm: Warm, shell: Shell) -> None:
    """A settings file that cannot be read does not keep the daemon from starting; doctor and status say so."""
    home = Path(warm.address.home)
    home.mkdir(parents=True)
    (home / "config.toml").write_text("[daemon]\nidle_s = 'soon'\n", "utf-8")
    warm.start()

    assert shell("doctor", "--json").status == 1
    last = eventually(lambda: warm.status()["last_error"])
    assert last["op"] == "settings"


def test_the_daemon_watches_what_was_indexed(warm: Warm) -> None:
    """What is indexed through the daemon is watched by it, and a change is found without being asked for."""
    notes = warm.project / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# A\n\nthe dugong grazes\n", "utf-8")
    warm.ask("memory.index", {"paths": ["notes"]})
    eventually(lambda: str(notes) in ((warm.status()["watch"] or {}).get("roots") or []), "it is watched")
    (notes / "b.md").write_text("# B\n\nthe potoroo hops\n", "utf-8")

    eventually(lambda: warm.ask("memory.search", {"query": "potoroo", "lane": "lexical"})["hits"], "it is found")


def test_the_daemon_serves_http_on_request(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """With daemon.http the same process answers HTTP on loopback."""
    from urllib.request import urlopen

    monkeypatch.setenv("LORELOG_DAEMON_HTTP", "on")
    monkeypatch.setenv("LORELOG_HTTP_PORT", "0")
    warm.start()
    served = eventually(lambda: warm.status()["http"], "it serves")
    with urlopen(f"{served['url']}/health", timeout=60) as reply:
        assert reply.status == 200


def test_an_agent_is_served_on_a_stream(warm: Warm) -> None:
    """A connection can become an MCP session, which counts as somebody being there."""
    from lorelog.surfaces.daemon.client import open_stream

    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    with open_stream("daemon.mcp", directory=str(warm.project), starts=True) as stream:
        stream.settimeout(60)
        stream.sendall(json.dumps(hello).encode() + b"\n")
        with stream.makefile("rb") as lines:
            assert json.loads(lines.readline())["result"]["serverInfo"]["name"]
        assert warm.status()["streams"] == 1
    eventually(lambda: warm.status()["streams"] == 0)


def test_a_stream_and_a_request_do_not_mix(warm: Warm) -> None:
    """Who does not wait for the answer before speaking another language is told so."""
    warm.start()
    with connected(Address(warm.address.home)) as connection:
        connection.sendall(request("daemon.mcp") + b"{}\n")
        assert b"wait for the answer" in connection.recv(1000)
