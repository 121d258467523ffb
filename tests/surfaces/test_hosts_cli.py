"""`lorelog hosts` and `lorelog uninstall`: what they install, flush and remove, and what happens if a part fails."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import MINE, Shell, run_process, write
from tests.surfaces.test_terminal import sit

from lorelog.hosts import HOST_TITLES, HOSTS
from lorelog.light import spool
from lorelog.services.install.plan import resolve_command
from lorelog.services.sessions import drain
from lorelog.services.sessions.drain import Drainer
from lorelog.surfaces.cli.commands.hosts import _drain_spool


def tree(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("host", HOSTS)
def test_a_dry_run_shows_a_diff_and_writes_nothing(host: str, shell: Shell, user: Path) -> None:
    """--dry-run shows every line that would be written, and changes nothing."""
    before = tree(user)
    shown = shell("hosts", "install", host, "--dry-run")
    assert shown.status == 0
    assert "+++ " in shown.out
    assert "Nothing was written" in shown.out
    assert tree(user) == before
    assert shell("hosts", "status", host, "--json").json["hosts"][0]["installed"] == "missing"


@pytest.mark.parametrize("own", [None, '{"model": "opus",\n "hooks": {}}', '{"statusLine": {"command": "mine"}}'])
def test_a_status_line_is_installed_on_request_and_taken_back(own: str | None, shell: Shell, user: Path) -> None:
    """--statusline adds a command to Claude Code's settings that prints one line; uninstalling restores the bytes; another one is kept."""
    settings = user / ".claude" / "settings.json"
    if own:
        write(settings, own)
    before = tree(user / ".claude")
    assert shell("hosts", "install", "claude").status == 0
    assert (settings.read_text() if settings.exists() else None) == own
    done = shell("hosts", "install", "claude", "--statusline")
    if own and "statusLine" in own:
        assert (done.status, settings.read_text()) == (1, own)
        assert "it has a statusLine of yours" in done.err
    else:
        command = json.loads(settings.read_text())["statusLine"]["command"]
        assert command.endswith("lorelog status --short")
        assert "already installed" in shell("hosts", "install", "claude").out
        assert shell(*command.split()[1:]).out == "lorelog: 0 memories shown, 0 tokens\n"
    assert shell("hosts", "uninstall", "claude").status == 0
    assert tree(user / ".claude") == before


def test_status_and_install_name_the_same_hosts(shell: Shell, user: Path) -> None:
    """`hosts status` names every host that `hosts install` looks for."""
    shown = shell("hosts", "status")
    assert [title for title in HOST_TITLES.values() if title not in shown.out + shown.err] == []


def test_the_daemon_looks_for_hosts_as_the_command_would(user: Path, project: Path, tmp_path: Path) -> None:
    """`status` finds the same hosts with and without the daemon: those in the folders and on the PATH of the one who asks."""
    write(tmp_path / "bin" / "opencode", "#!/bin/sh\n").chmod(0o755)
    asked = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "XDG_CONFIG_HOME": str(tmp_path / "etc"), "LORELOG_HOME": ""}
    run_process(["hosts", "install", "opencode", "codex"], project, env=asked)
    run_process(["daemon", "start"], project, env={**asked, "PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": "/nowhere"})
    words = ["status", "--json", "--daemon"]
    try:
        told = [run_process([*words, mode], project, env=asked).json["hosts"] for mode in ("off", "required")]
    finally:
        run_process(["daemon", "stop"], project, env=asked)

    assert {host["host"] for host in told[0] if host["installed"] == "current"} == {"codex", "opencode"}
    assert told[1] == told[0]


def test_what_could_not_be_written_is_not_said_to_be(user: Path) -> None:
    """On a full disk only the error is printed, and no file is reported as created."""
    done = subprocess.run(
        [sys.executable, "-m", "lorelog", "hosts", "install", "codex"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )

    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert done.stdout == ""


def test_installed_shown_and_taken_back(shell: Shell, user: Path) -> None:
    """Installing shows the diff and the pending approvals; uninstalling restores the file."""
    config = user / ".codex" / "config.toml"
    before = config.read_bytes()
    done = shell("hosts", "install", "codex")
    assert "+[mcp_servers.lorelog]" in done.out
    assert "still to do: start codex and approve the hooks" in done.out
    assert "already installed" in shell("hosts", "install", "codex").out
    shown = shell("hosts", "status")
    assert [line.split()[0] for line in shown.out.splitlines()[:5]] == [
        "host",
        "Claude",
        "Codex",
        "OpenCode",
        "OpenClaw",
    ]
    assert "still to do: Codex" in shown.out
    assert "uninstalled" in shell("hosts", "uninstall", "codex").out
    assert config.read_bytes() == before
    assert "lorelog is not installed" in shell("hosts", "uninstall", "codex").out


def test_without_a_name_the_agents_found_here_are_installed(
    shell: Shell, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`install` alone lists what is found, needs --yes where nobody can answer, and suggests what to do next."""
    monkeypatch.setenv("PATH", "/nowhere")
    write(user / ".codex" / "sessions" / "2026" / "03" / "05" / "rollout-1.jsonl", "")
    refused = shell("hosts", "install")
    assert (refused.status, (user / ".codex" / "hooks.json").exists()) == (2, False)
    assert "lorelog hosts install codex" in refused.err
    done = shell("hosts", "install", "--yes")
    assert done.out.startswith("Found: Codex.\n")
    assert "1 earlier session found: 'lorelog backfill'" in done.out
    assert done.out.endswith("Restart open sessions to pick this up.\n")


def test_what_the_host_installed_itself_is_not_installed_again(shell: Shell, user: Path) -> None:
    """If the host's own installer has installed lorelog, `install` says so and changes nothing."""
    write(user / ".codex" / "config.toml", '[plugins."lorelog@lorelog"]\nenabled = true\n')
    before = tree(user)
    done = shell("hosts", "install", "codex")
    assert done.status == 1
    assert "by its own installer" in done.err
    assert tree(user) == before


def test_a_home_that_cannot_be_created_is_named(user: Path, project: Path, tmp_path: Path) -> None:
    """Where lorelog cannot keep its receipt, installing is an error with a hint, and the host is unchanged."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    environment = {"LORELOG_HOME": str(closed / "home")}
    done = run_process(["hosts", "install", "codex", "--json"], project, mortal=True, env=environment)
    assert done.status == 1
    assert done.json["error"]["message"] == f"{closed / 'home'} cannot be created: Permission denied"
    assert "nothing was changed" in done.json["error"]["hint"]
    assert not (user / ".codex" / "hooks.json").exists()
    page = run_process(["ui", "--no-open", "--daemon", "off"], project, mortal=True, env=environment)
    assert (page.status, "set LORELOG_HOME to another folder" in page.err) == (1, True)


def test_doctor_tells_what_is_to_be_approved(shell: Shell, user: Path) -> None:
    """`lorelog doctor` checks hosts: passes before installing, fails while hooks wait for approval."""

    def line() -> tuple[bool, str]:
        (check,) = [item for item in shell("doctor", "--json").json["checks"] if item["name"] == "hosts"]
        return check["ok"], check["message"]

    assert line() == (True, "not installed into any agent, so no session is captured")
    shell("hosts", "install", "codex")
    ok, said = line()
    assert not ok
    assert "approve the hooks" in said


def test_a_lorelog_that_is_not_on_path_is_named_by_its_place(tmp_path: Path) -> None:
    """Hosts get the bare command only if PATH leads to this program, and not because a venv is active."""
    here = Path(sys.executable).parent / "lorelog"
    assert resolve_command({"PATH": str(tmp_path)}) == str(here)
    assert resolve_command({"PATH": str(here.parent)}) == str(here)
    (tmp_path / "lorelog").symlink_to(here)
    assert resolve_command({"PATH": str(tmp_path)}) == "lorelog"
    (tmp_path / "other").mkdir()
    write(tmp_path / "other" / "lorelog", "#!/bin/sh\n").chmod(0o755)
    assert resolve_command({"PATH": f"{tmp_path / 'other'}{os.pathsep}{tmp_path}"}) == str(here)


def test_openclaw_is_approved_only_when_asked(shell: Shell, user: Path) -> None:
    """Access to conversations is granted by --approve; without it the command that grants it is named."""
    assert "--approve" in shell("hosts", "install", "openclaw", "--json").json["approve"][0]
    assert shell("hosts", "install", "openclaw", "--approve", "--json").json["approve"] == []
    config = json.loads((user / ".openclaw" / "openclaw.json").read_text("utf-8"))
    assert config["plugins"]["entries"]["lorelog"]["hooks"] == {"allowConversationAccess": True}
    assert shell("hosts", "install", "openclaw", "--json").json["files"] == []


@pytest.mark.slow
def test_a_person_at_a_terminal_is_asked_once_for_the_judge(user: Path, project: Path) -> None:
    """Yes allows the agent's model, no is remembered, and nobody is asked again; an agent's shell, --yes or OpenClaw alone is never asked."""
    question = "May lorelog ask your agent's small model"
    install = ("hosts", "install", "codex")

    def judge() -> str:
        return run_process(["config", "get", "review.judge"], project).out.strip()

    unasked = [sit([*install, "--yes"], project), sit(install, project, env={"CLAUDECODE": "1"})]
    unasked.append(sit(["hosts", "install", "openclaw"], project))
    assert [question in done.out + done.err for done in unasked] == [False] * 3
    asked = sit(install, project, typed="yes\n")
    assert question in asked.err
    assert "secrets\nremoved" in asked.out
    assert judge() == "host"
    run_process(["config", "unset", "review.judge"], project)
    assert question in sit(install, project, typed="\n").err
    again = sit(install, project)
    assert (judge(), question in again.err) == ("none", False)


def test_neither_an_agent_nor_an_install_without_a_terminal_allows_a_judge(
    shell: Shell, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installing without a terminal leaves review.judge alone, and an agent can neither set it nor name another model by llm.* or a variable."""
    assert shell("hosts", "install", "codex").status == 0
    assert [shell("config", "set", "review.judge", name).status for name in ("claude", "llm/x")] == [1, 1]
    shell("config", "set", "review.judge", "llm")
    assert "fail  language model: none (review.judge)" in shell("doctor").out
    shell("config", "unset", "review.judge")
    monkeypatch.setenv("CLAUDECODE", "1")
    for key, value in {"review.judge": "host", "llm.base_url": "http://127.0.0.1:9", "llm.command": "cat"}.items():
        refused = shell("config", "set", key, value)
        assert (refused.status, f"Claude Code cannot change {key}" in refused.err) == (2, True)
    assert "no language model may judge" in shell("review", "run").err
    monkeypatch.setenv("LORELOG_REVIEW_JUDGE", "host")
    assert "Claude Code cannot choose the judge" in shell("review", "run").err
    monkeypatch.delenv("LORELOG_REVIEW_JUDGE")
    assert shell("config", "get", "review.judge", "--json").json["origin"] == "default"


@pytest.mark.slow
def test_everything_but_memories_is_removed(user: Path, home: Path, project: Path) -> None:
    """Host, project block, Cursor's copy of the rules, daemon and cache go, data and journals stay; --data then empties the home."""
    (project / ".cursor").mkdir()
    for words in (["hosts", "install", "codex"], ["init"], ["add", "we use pnpm", "--daemon", "required"]):
        assert run_process(words, project).status == 0
    journals = {path: path.read_bytes() for path in (project / ".lorelog" / "memory").glob("*.md")}
    dry = run_process(["uninstall", "--dry-run"], project)
    assert "lorelog in Codex" in dry.out
    assert (home / "cache").is_dir()
    assert run_process(["uninstall"], project).status == 2  # nobody can answer

    done = run_process(["uninstall", "--yes"], project)

    assert done.status == 0
    assert "pip uninstall lorelog lorelog-encoder" in done.out
    assert (user / ".codex" / "config.toml").read_text() == MINE
    assert not (user / ".codex" / "hooks.json").exists()
    assert not (project / "AGENTS.md").exists()
    assert list(project.glob(".cursor/*/*")) == []
    assert not (home / "cache").exists()
    assert not (home / "run").exists()
    assert (home / "data").is_dir()
    assert run_process(["uninstall", "--data", "--yes"], project).status == 0
    assert not home.exists()
    assert journals
    assert {path: path.read_bytes() for path in journals} == journals


def test_what_fails_is_reported_and_the_rest_goes_on(shell: Shell, user: Path, home: Path, project: Path) -> None:
    """A host file that cannot be edited is a problem; the cache is removed, but no data while a host is left."""
    shell("hosts", "install", "codex")
    shell("add", "we use pnpm")
    write(user / ".codex" / "config.toml", "model = \n")

    done = shell("uninstall", "--data", "--yes", "--json")

    assert done.status == 1
    reply = json.loads(done.out)
    assert "config.toml cannot be parsed" in reply["problems"][0]["message"]
    assert not (home / "cache").exists()
    assert (home / "hosts" / "codex.json").is_file()
    assert (home / "data").is_dir()


def event(session: str) -> dict[str, Any]:
    return {"v": 1, "host": "claude", "moment": "turn-end", "session": session, "directory": "/"}


def test_what_hooks_spool_meanwhile_is_seen_to(tmp_path: Path) -> None:
    """A flush looks at the spool again before it ends, because hooks do not start a second one."""
    home = str(tmp_path)
    coming = ["second", "third"]
    seen: list[str] = []

    def capture(told: dict[str, Any]) -> dict[str, Any]:
        seen.append(told["session"])
        if coming:
            spool.write_event(home, event(coming.pop(0)))
        return {"captured": [{}]}

    spool.write_event(home, event("first"))
    drained = _drain_spool(Drainer(home, capture), 0.0)

    assert seen == ["first", "second", "third"]
    assert (drained.events, drained.captured) == (3, 3)
    assert drain.list_events(home) == []
