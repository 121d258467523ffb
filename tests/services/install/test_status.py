"""How it stands with each host: what is told before a person notices that nothing is remembered."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lorelog.core.memory import HostCaptures
from lorelog.hosts import HOSTS
from lorelog.hosts.bundles import HOOK_EVENTS
from lorelog.services.install import status
from lorelog.services.install.manifests import build_manifest
from lorelog.services.install.plan import InstallContext, apply_install, plan_install
from lorelog.services.install.status import host_status, native_install, newest_session, pending_approvals


@pytest.fixture
def where(tmp_path: Path) -> InstallContext:
    """A home with a lorelog on its PATH."""
    program = tmp_path / "bin" / "lorelog"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 9.8.7\n")
    program.chmod(0o755)
    return InstallContext(tmp_path, tmp_path / ".lorelog", "lorelog", {"PATH": f"{program.parent}:{os.defpath}"})


def install(host: str, where: InstallContext) -> None:
    apply_install(host, plan_install(host, build_manifest(host, where), where), where)


def used(where: InstallContext, moment: float) -> None:
    """Have every host write to a conversation at some moment."""
    home = where.user_home
    for path in (
        ".claude/projects/-p/s.jsonl",
        ".codex/sessions/2026/03/05/rollout-x.jsonl",
        ".openclaw/agents/main/sessions/s.jsonl",
        ".gemini/tmp/app/chats/session-s.jsonl",
        ".qwen/projects/-p/chats/s.jsonl",
        ".copilot/session-state/s/events.jsonl",
        ".factory/sessions/-p/s.jsonl",
        ".pi/agent/sessions/-p/s.jsonl",
        ".omp/agent/sessions/-p/s.jsonl",
        ".kimi-code/sessions/p/s/agents/main/wire.jsonl",
        ".cline/data/sessions/s/s.messages.json",
    ):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text("{}\n")
        os.utime(home / path, (moment, moment))
    for name in ("opencode", "kilo"):
        store = home / ".local/share" / name / f"{name}.db"
        store.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(store)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS message (time_created INTEGER)")
            connection.execute("INSERT INTO message VALUES (?)", [int(moment * 1000)])


@pytest.mark.parametrize("host", HOSTS)
def test_missing_current_and_stale_are_told_apart(host: str, where: InstallContext) -> None:
    """Before installing it is missing, then current; another lorelog finds it stale, and says what to run."""
    assert host_status(host, where).installed == "missing"
    assert not host_status(host, where).found
    install(host, where)
    now = host_status(host, where)
    assert (now.installed, now.warnings) == ("current", ())
    moved = InstallContext(where.user_home, where.home, "/elsewhere/lorelog", where.environment)
    stale = host_status(host, moved)
    assert stale.installed == "stale"
    assert f"lorelog hosts install {host}" in stale.warnings[0]


@pytest.mark.parametrize("host", HOSTS)
def test_a_command_that_is_gone_is_told(host: str, where: InstallContext) -> None:
    """Hooks that call a lorelog which is not there any more are a warning: they fail in silence."""
    install(host, where)
    (where.user_home / "bin" / "lorelog").unlink()
    assert host_status(host, where).warnings == ("hooks call lorelog, which does not exist",)


@pytest.mark.parametrize("host", HOSTS)
def test_capture_that_has_silently_stopped_is_told(host: str, where: InstallContext) -> None:
    """A host that was used long after the last event reached us has stopped capturing; one that was not, has not."""
    install(host, where)
    now = time.time() + 10_000  # some time after installing
    used(where, now)
    assert newest_session(host, where) == pytest.approx(now, abs=1)

    def warnings(*ages: int) -> tuple[str, ...]:
        event, capture = (datetime.fromtimestamp(now - age, UTC).isoformat() for age in ages)
        return host_status(host, where, HostCaptures(host, "", event, capture, 0, 0, 0)).warnings

    assert "silently stopped" in warnings(7200, 7200)[0]
    assert warnings(60, 60) == warnings(60, 90_000) == ()  # heard of it, and chose not to keep it


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_is_not_installed_warns_of_nothing(host: str, where: InstallContext) -> None:
    """Who has never installed is not told that capture has stopped."""
    used(where, time.time())
    seen = host_status(host, where)
    assert (seen.found or host in {"opencode", "kilo"}, seen.installed, seen.warnings) == (True, "missing", ())


def test_codex_says_which_hooks_wait_for_approval(where: InstallContext) -> None:
    """Each hook counts as approved once Codex has written down that it is trusted, by file, event and place."""
    install("codex", where)
    config = where.user_home / ".codex/config.toml"
    hooks = where.user_home / ".codex/hooks.json"
    (said,) = pending_approvals("codex", where)
    assert ", ".join(HOOK_EVENTS["codex"]) in said
    for event in (
        *("session_start", "subagent_start", "user_prompt_submit", "pre_tool_use"),
        *("post_tool_use", "pre_compact", "session_end"),
    ):
        config.write_text(f'{config.read_text()}\n[hooks.state."{hooks}:{event}:0:0"]\ntrusted_hash = "sha256:x"\n')
    (said,) = pending_approvals("codex", where)
    assert said.endswith("not approved: Stop")
    config.write_text(f'{config.read_text()}\n[hooks.state."{hooks}:stop:0:0"]\ntrusted_hash = "sha256:x"\n')
    assert pending_approvals("codex", where) == []
    assert host_status("codex", where).installed == "current"


def test_a_plugin_that_was_switched_off_is_told(where: InstallContext) -> None:
    """Claude Code's own switch is seen, and how to turn it."""
    install("claude", where)
    assert pending_approvals("claude", where) == []
    (where.user_home / ".claude/settings.json").write_text('{"enabledPlugins": {"lorelog@skills-dir": false}}')
    assert "claude plugin enable" in pending_approvals("claude", where)[0]


def test_what_the_hosts_own_installers_did_is_seen(where: InstallContext) -> None:
    """Installed by the host itself counts as installed, and twice is a warning."""
    home = where.user_home
    told = {
        "claude": (".claude/plugins/installed_plugins.json", json.dumps({"plugins": {"lorelog@lorelog": [{}]}})),
        "codex": (".codex/config.toml", '[plugins."lorelog@lorelog"]\nenabled = true\n'),
        "opencode": (".config/opencode/opencode.json", '{"plugin": ["/src/lorelog/plugins/opencode/lorelog.ts"]}'),
        "openclaw": (".openclaw/openclaw.json", json.dumps({"plugins": {"load": {"paths": [str(home / "linked")]}}})),
    }
    (home / "linked").mkdir()
    (home / "linked/openclaw.plugin.json").write_text('{"id": "lorelog"}')
    for host, (path, text) in told.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
        assert native_install(host, where)
        seen = host_status(host, where)
        assert (seen.installed, seen.warnings) == ("native", ())
        assert bool(seen.approve) == (host in {"codex", "openclaw"})  # those two want to be asked
        install(host, where)
        assert "installed twice" in host_status(host, where).warnings[0]


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_left_no_trace_is_not_planned_for(where: InstallContext, host: str) -> None:
    """Where a host has no folder and we no receipt, planning would find as well that nothing is installed."""
    assert not status._has_traces(host, where)
    assert status._install_state(host, where) == ("missing", [])


def test_a_configuration_that_cannot_be_read_is_a_warning(where: InstallContext) -> None:
    """Status goes on where a host's file is broken, and says which."""
    install("codex", where)
    (where.user_home / ".codex/hooks.json").write_text("{")
    seen = host_status("codex", where)
    assert seen.installed == "stale"
    assert "hooks.json" in seen.warnings[0]


def test_a_version_is_asked_for_only_when_wanted(where: InstallContext) -> None:
    """The host's program is run for its version on request, and not otherwise."""
    (where.user_home / "bin" / "codex").write_text("#!/bin/sh\necho codex-cli 1.2.3\n")
    (where.user_home / "bin" / "codex").chmod(0o755)
    assert host_status("codex", where).version == ""
    assert host_status("codex", where, versions=True).version == "1.2.3"
    assert host_status("claude", where, versions=True).version == ""


@pytest.mark.parametrize("host", ["gemini", "qwen"])
def test_an_extension_of_the_hosts_own_installer_is_recognised(host: str, where: InstallContext) -> None:
    """The file that the host's installer writes beside an extension says that it is not ours to replace."""
    folder = where.user_home / f".{host}" / "extensions" / "lorelog"
    folder.mkdir(parents=True)
    (folder / f".{host}-extension-install.json").write_text('{"source": "/src/lorelog", "type": "local"}')

    assert host_status(host, where).installed == "native"
