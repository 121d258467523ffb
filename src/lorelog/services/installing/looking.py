"""How it stands with each host: whether we are installed, what the person must still approve, whether capture works.

A hook that does not run says nothing, and Codex and OpenClaw leave hooks out without a word until they are approved. So what
the host has written on its own is looked at beside what reached us: a conversation that is much younger than the last event
means that capture has stopped.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lorelog.core.errors import ConfigError, LorelogError
from lorelog.hosts import TITLES
from lorelog.hosts.bundles import EVENTS, NAME
from lorelog.ingest.transcripts.databases import open_database
from lorelog.services.installing import json_text, toml_text
from lorelog.services.installing.footprints import footprint, host_root, linked_plugin, openclaw_config, our_groups
from lorelog.services.installing.plan import Setting, differs, plan_install, plan_uninstall, read_receipt
from lorelog.services.installing.writing import read_file

# Folders of tens of thousands of files: `os` and `glob` rather than pathlib.
# ruff: noqa: PTH204, PTH207

SILENT_S = 3600.0
"""A conversation that is so much younger than the last event was not captured."""
_VERSION_S = 2.0
_NEWEST = {
    "claude": ("projects/*/*.jsonl",),
    "codex": ("sessions/*/*/*/rollout-*.jsonl",),
    "openclaw": ("agents/*/sessions/*.jsonl",),
}
_SNAKE = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a host's captures; seconds since 1970, 0 for never."""

    last_event: float = 0.0
    last_capture: float = 0.0
    today: int = 0


@dataclass(frozen=True, slots=True)
class HostStanding:
    """How it stands with one host."""

    host: str
    title: str
    found: bool
    version: str
    installed: str
    """current, stale, missing, or native: by the host's own installer."""
    approve: tuple[str, ...]
    """What the person must still do in the host."""
    last_event: float
    last_capture: float
    today: int
    newest_session: float
    """When the host last wrote to a conversation."""
    warnings: tuple[str, ...]


def standing(host: str, setting: Setting, known: Known, *, versions: bool = False) -> HostStanding:
    """Look at one host."""
    installed, warnings = _installed(host, setting)
    newest = newest_session(host, setting)
    if installed != "missing":
        warnings += _silence(host, setting, known, newest)
    approve = approvals(host, setting) if installed != "missing" else ()
    return HostStanding(
        host,
        TITLES[host],
        found(host, setting),
        _version(host, setting) if versions else "",
        installed,
        tuple(approve),
        known.last_event,
        known.last_capture,
        known.today,
        newest,
        tuple(warnings),
    )


def found(host: str, setting: Setting) -> bool:
    """Say whether a host has been used here, or could be."""
    root = host_root(host, setting.environment, setting.user_home)
    return root.is_dir() or shutil.which(host, path=setting.environment.get("PATH", os.defpath)) is not None


def native(host: str, setting: Setting) -> str:
    """Return how the host's own installer names us, or nothing."""
    with suppress(ValueError, ConfigError, AttributeError, TypeError):
        root = host_root(host, setting.environment, setting.user_home)
        if host == "claude":
            known = json_text.at(_text(root / "plugins" / "installed_plugins.json"), ("plugins",))
            return next((name for name in known or () if name.startswith(f"{NAME}@")), "")
        if host == "codex":
            plugins = toml_text.read(_text(root / "config.toml", "")).get("plugins", {})
            return next(
                (name for name, one in plugins.items() if name.startswith(f"{NAME}@") and one.get("enabled")), ""
            )
        if host == "opencode":
            return _native_opencode(root)
        return _native_openclaw(setting)
    return ""


def approvals(host: str, setting: Setting) -> list[str]:
    """Return what the person must still approve in the host, each as what to do."""
    with suppress(ValueError, ConfigError, AttributeError):
        if host == "codex" and (left := _untrusted(setting)):
            names = ", ".join(left)
            return [f"start codex and approve the hooks (Enter, then Trust all and continue); not approved: {names}"]
        if host == "openclaw" and not _may_listen(setting):
            way = f"openclaw config set plugins.entries.{NAME}.hooks.allowConversationAccess true"
            return [f"let the plugin see conversations: lorelog hosts install openclaw --approve (or: {way})"]
        if host == "claude":
            root = host_root(host, setting.environment, setting.user_home)
            if json_text.at(_text(root / "settings.json"), ("enabledPlugins", f"{NAME}@skills-dir")) is False:
                return [f"switch the plugin on: claude plugin enable {NAME}@skills-dir"]
    return []


def newest_session(host: str, setting: Setting) -> float:
    """Return when a host last wrote to a conversation, seconds since 1970; 0 where there is none."""
    root = host_root(host, setting.environment, setting.user_home)
    times = [_changed(path) for pattern in _NEWEST.get(host, ()) for path in glob.iglob(f"{root}/{pattern}")]
    if host == "openclaw":
        stores = glob.iglob(f"{root}/agents/*/agent/openclaw-agent.sqlite")
        times += [_asked(path, "SELECT max(created_at) FROM transcript_events") for path in stores]
    if host == "opencode":
        data = setting.environment.get("XDG_DATA_HOME") or str(setting.user_home / ".local" / "share")
        times.append(_asked(f"{data}/opencode/opencode.db", "SELECT max(time_created) FROM message"))
    return max(times, default=0.0)


def _installed(host: str, setting: Setting) -> tuple[str, list[str]]:
    by_host = native(host, setting)
    try:
        made = footprint(host, setting)
        ours = {one.path for one in differs(plan_uninstall(host, made, setting))}
        changes = differs(plan_install(host, made, setting))
    except ConfigError as error:
        state = "native" if by_host else "stale" if read_receipt(setting.home, host).files else "missing"
        return state, [error.message]
    if by_host:
        listed = bool(read_receipt(setting.home, host).files)
        twice = [f"it is installed twice: by us and as {by_host}; lorelog hosts uninstall {host}"] if listed else []
        return "native", twice
    if not ours & made.paths:
        return "missing", [_apart(host, one) for one in sorted(ours)[:1]]
    if not changes:
        return "current", _gone(setting)
    names = ", ".join(sorted({change.path.name for change in changes}))
    return "stale", [f"what is installed is not of this lorelog ({names}); lorelog hosts install {host}"]


def _apart(host: str, path: Path) -> str:
    place = f"it is installed in {path.parent}, which is not where {TITLES[host]} would look now"
    return f"{place}; lorelog hosts uninstall {host} takes it away there"


def _gone(setting: Setting) -> list[str]:
    if shutil.which(setting.command, path=setting.environment.get("PATH", os.defpath)):
        return []
    return [f"hooks call {setting.command}, which is not there"]


def _silence(host: str, setting: Setting, known: Known, newest: float) -> list[str]:
    heard = max(known.last_event, known.last_capture, read_receipt(setting.home, host).at)
    if not heard or newest <= heard + SILENT_S:
        return []
    hours = (newest - heard) / 3600
    stopped = (
        f"capture has silently stopped: {TITLES[host]} was used {hours:,.0f} h after the last event that reached us"
    )
    return [f"{stopped}; approve what is to be approved, then 'lorelog hosts backfill {host}' brings what was missed"]


def _untrusted(setting: Setting) -> list[str]:
    """Return the events whose hook Codex was never told to trust. It keeps that by file or plugin, event and place."""
    root = host_root("codex", setting.environment, setting.user_home)
    path = root / "hooks.json"
    state: Mapping[str, Any] = toml_text.read(_text(root / "config.toml", "")).get("hooks", {}).get("state", {})
    names, groups = {str(path), os.path.realpath(path)}, our_groups(_text(path))
    if plugin := native("codex", setting):
        names, groups = {f"{plugin}:hooks/codex.json"}, [(event, 0) for event in EVENTS["codex"]]
    left = []
    for event, number in groups:
        key = f"{_SNAKE.sub('_', event).lower()}:{number}:0"
        entries = [state.get(f"{name}:{key}", {}) for name in names]
        if not any(entry.get("trusted_hash") and entry.get("enabled") is not False for entry in entries):
            left.append(event)
    return left


def _may_listen(setting: Setting) -> bool:
    text = _text(openclaw_config(setting.environment, setting.user_home))
    return json_text.at(text, ("plugins", "entries", NAME, "hooks", "allowConversationAccess")) is True


def _native_opencode(root: Path) -> str:
    for name in ("opencode.json", "opencode.jsonc"):
        for one in json_text.at(_text(root / name), ("plugin",)) or ():
            place = str(one[0] if isinstance(one, list) else one)
            if NAME in place.rpartition("/")[2] or f"/{NAME}/" in place or "lorelog-opencode" in place:
                return place
    return ""


def _native_openclaw(setting: Setting) -> str:
    text = _text(openclaw_config(setting.environment, setting.user_home))
    return linked_plugin(text, str(setting.home / "hosts" / "openclaw"))


def _text(path: Path, missing: str = "{}") -> str:
    content = read_file(path)
    return missing if content is None else content.decode()


def _changed(path: str) -> float:
    try:
        return os.path.getmtime(path)
    except OSError:
        return 0.0


def _asked(path: str, query: str) -> float:
    """Return what a host's database says, in seconds; when its file was written, where it does not say."""
    if not Path(path).is_file():
        return 0.0
    with suppress(LorelogError), open_database(path) as connection:
        (found,) = connection.execute(query).fetchone()
        return float(found or 0) / 1000
    return _changed(path)


def _version(host: str, setting: Setting) -> str:
    """Ask a host for its version; it gets two seconds."""
    program = shutil.which(host, path=setting.environment.get("PATH", os.defpath))
    if program is None:
        return ""
    words: Sequence[str] = (program, "--version")
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_VERSION_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return ""
    found = re.search(r"\d+\.\d+\.\d+[\w.+-]*", done.stdout)
    return found[0] if found else ""
