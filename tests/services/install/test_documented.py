"""Hosts known from their documentation: what is written for each, and what a user changed there stays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.services.install.test_plan import install, uninstall

from lorelog.core.errors import ConfigError
from lorelog.hosts import HOSTS
from lorelog.hosts.documented import DOCUMENTED_HOSTS, documented_path, resolve_any_host
from lorelog.services.install import config_edit
from lorelog.services.install.manifests import build_manifest
from lorelog.services.install.plan import (
    InstallContext,
    apply_install,
    plan_install,
)
from lorelog.services.install.status import HostCaptureStats, host_status, is_host_available

PROGRAM = "/opt/lorelog/bin/lorelog"
SERVER = {"command": PROGRAM, "args": ["mcp"]}
SKILL = "skills/memory-recall/SKILL.md"
WRITTEN: dict[str, tuple[str, dict[str, Any], str]] = {
    "cursor": (".cursor/mcp.json", {"mcpServers": {"lorelog": SERVER}}, f".cursor/{SKILL}"),
    "vscode": (
        ".config/Code/User/mcp.json",
        {
            "servers": {
                "lorelog": {"type": "stdio", "command": PROGRAM, "args": ["mcp", "--project", "${workspaceFolder}"]}
            }
        },
        ".config/Code/User/prompts/lorelog.instructions.md",
    ),
    "cline": (
        ".cline/data/settings/cline_mcp_settings.json",
        {"mcpServers": {"lorelog": {**SERVER, "disabled": False}}},
        ".cline/rules/lorelog.md",
    ),
    "windsurf": (
        ".codeium/windsurf/mcp_config.json",
        {"mcpServers": {"lorelog": SERVER}},
        f".codeium/windsurf/{SKILL}",
    ),
    "zed": (
        ".config/zed/settings.json",
        {"context_servers": {"lorelog": {**SERVER, "source": "custom", "env": {}}}},
        ".config/zed/AGENTS.md",
    ),
    "kiro": (
        ".kiro/settings/mcp.json",
        {"mcpServers": {"lorelog": {**SERVER, "disabled": False}}},
        ".kiro/steering/lorelog.md",
    ),
}
"""Each host's documented shape: the file of MCP servers, its content, and the file of instructions."""


def context(tmp_path: Path, **environment: str) -> InstallContext:
    return InstallContext(tmp_path, tmp_path / ".lorelog", PROGRAM, {"PATH": os.defpath, **environment})


@pytest.mark.parametrize("host", DOCUMENTED_HOSTS)
def test_each_host_gets_what_its_documentation_asks_for(host: str, tmp_path: Path) -> None:
    """The server is where the host reads servers, and the instructions name commands that exist."""
    config, content, instructions = WRITTEN[host]
    assert install(host, context(tmp_path)) == 2
    assert json.loads((tmp_path / config).read_text()) == content
    text = (tmp_path / instructions).read_text()
    assert f"{PROGRAM} search" in text
    assert "$" not in text
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path for path in files if not path.startswith(".lorelog")} == {config, instructions}


def test_front_matter_makes_a_rule_apply_always(tmp_path: Path) -> None:
    """VS Code applies instructions to every file and Kiro includes them always only if their front matter says so."""
    install("vscode", context(tmp_path))
    install("kiro", context(tmp_path))
    assert 'applyTo: "**"\n---\n' in (tmp_path / WRITTEN["vscode"][2]).read_text()
    assert (tmp_path / WRITTEN["kiro"][2]).read_text().startswith("---\ninclusion: always\n---\n")


@pytest.mark.parametrize("host", DOCUMENTED_HOSTS)
def test_what_a_user_adds_to_our_server_stays(host: str, tmp_path: Path) -> None:
    """An update keeps a field of the user in our entry, and other servers; uninstalling removes our entry only."""
    config, content, _ = WRITTEN[host]
    where, path = context(tmp_path), tmp_path / config
    install(host, InstallContext(tmp_path, where.home, "/old/lorelog", where.environment))
    (servers,) = content
    path.write_text(config_edit.put(path.read_text(), (servers, "lorelog", "timeout"), 60))
    path.write_text(config_edit.put(path.read_text(), (servers, "other"), {"command": "other"}))
    assert install(host, where) > 0
    assert config_edit.get(path.read_text(), (servers, "lorelog")) == {**content[servers]["lorelog"], "timeout": 60}
    assert install(host, where) == 0
    uninstall(host, where)
    assert json.loads(path.read_text()) == {servers: {"other": {"command": "other"}}}


def test_a_block_leaves_when_the_text_around_it_has_changed(tmp_path: Path) -> None:
    """Zed's AGENTS.md keeps what the user wrote before and after our block, after uninstalling."""
    path = tmp_path / WRITTEN["zed"][2]
    path.parent.mkdir(parents=True)
    path.write_text("Be brief.")
    install("zed", context(tmp_path))
    path.write_text(path.read_text() + "Use tabs.\n")
    assert install("zed", context(tmp_path)) == 0
    uninstall("zed", context(tmp_path))
    assert path.read_text() == "Be brief.\nUse tabs.\n"


def test_the_home_of_lorelog_is_passed_on(tmp_path: Path) -> None:
    """A program of the desktop does not have the shell's LORELOG_HOME, so the entry has it."""
    install("cursor", context(tmp_path, LORELOG_HOME="/data/lore"))
    entry = json.loads((tmp_path / ".cursor/mcp.json").read_text())["mcpServers"]["lorelog"]
    assert entry["env"] == {"LORELOG_HOME": "/data/lore"}


@pytest.mark.parametrize("host", DOCUMENTED_HOSTS)
def test_status_marks_it_and_finds_it(host: str, tmp_path: Path) -> None:
    """It is found by a folder of its own, not by ours, and its status says that it was not run."""
    where = context(tmp_path)
    assert not is_host_available(host, where)
    install(host, where)
    assert not is_host_available(host, where)
    status = host_status(host, where, HostCaptureStats())
    assert (status.untested, status.installed, status.found) == (True, "current", False)
    folder = documented_path(DOCUMENTED_HOSTS[host].folders[0], where.environment, tmp_path, "linux")
    (folder / "theirs").mkdir()
    assert is_host_available(host, where)
    uninstall(host, where)
    assert host_status(host, where, HostCaptureStats()).installed == "missing"


def test_an_installation_that_fails_changes_nothing(tmp_path: Path) -> None:
    """If one file cannot be written, the others are as before, and the host counts as not installed."""
    where = context(tmp_path)
    (tmp_path / ".kiro").mkdir()
    manifest = build_manifest("kiro", where)
    changes = plan_install("kiro", manifest, where)
    (tmp_path / ".kiro/settings").write_text("a file where a folder is needed\n")
    with pytest.raises(ConfigError, match="cannot be written"):
        apply_install("kiro", changes, where)
    assert sorted(path.name for path in (tmp_path / ".kiro").rglob("*")) == ["settings"]
    assert host_status("kiro", where, HostCaptureStats()).installed == "missing"


@pytest.mark.parametrize(
    ("platform", "code", "zed"),
    [
        ("linux", "/home/u/.config/Code/User/mcp.json", "/home/u/.config/zed/settings.json"),
        ("darwin", "/home/u/Library/Application Support/Code/User/mcp.json", "/home/u/.config/zed/settings.json"),
    ],
)
def test_settings_are_where_the_platform_has_them(platform: str, code: str, zed: str) -> None:
    """Each platform has its own folder of settings, and Zed uses that of Linux on macOS."""
    environment = {"APPDATA": "/roaming"}
    for host, expected in (("vscode", code), ("zed", zed)):
        assert str(documented_path(DOCUMENTED_HOSTS[host].config, environment, Path("/home/u"), platform)) == expected


def test_names_of_hosts_are_not_taken_twice() -> None:
    """A documented host has no adapter, and every alias leads to one host."""
    assert not set(HOSTS) & set(DOCUMENTED_HOSTS)
    assert [resolve_any_host(name) for name in ("code", "claude-code", "nobody")] == [
        "vscode",
        "claude",
        "",
    ]
