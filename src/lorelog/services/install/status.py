"""State of each host: whether we are installed, what the user must still approve, and whether capture works.

A hook that does not run reports nothing, and Codex and OpenClaw silently skip hooks until they are approved. So the newest
conversation that the host wrote is compared with the last event that reached us: if it is much newer, capture has stopped.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from lorelog.core.errors import ConfigError, LorelogError
from lorelog.core.memory import HostCaptures
from lorelog.core.paths import modified_at
from lorelog.core.processes import find_on_path
from lorelog.core.serializable import Serializable, format_time
from lorelog.hosts import HOST_TITLES, TRANSCRIPT_DATABASES, TRANSCRIPT_FILES, host_data_folder
from lorelog.services.install import plan
from lorelog.services.install.plan import NAME, InstallContext, host_root, openclaw_config, read_file, read_receipt

# Folders of tens of thousands of files: `glob` rather than pathlib.
# ruff: noqa: PTH207

MAX_SILENCE_S = 3600.0
"""A conversation that is newer than the last event by more than this was not captured."""
_VERSION_TIMEOUT_S = 2.0
_CAMEL_BOUNDARY = r"(?<=[a-z])(?=[A-Z])"
_NO_CAPTURES = HostCaptures("", "", "", "", 0, 0, 0)


class HostStatus(Serializable, Struct, frozen=True, kw_only=True):
    """An agent's host: whether lorelog is installed in it, and when it last captured. Times are ISO, UTC; empty: never."""

    host: str
    title: str
    found: bool
    version: str
    installed: str
    """current, stale, missing, or native (by the host's own installer)."""
    approve: tuple[str, ...]
    """What the user must still do in the host."""
    last_event: str
    last_capture: str
    today: int
    newest_session: str
    """When the host last wrote to a conversation."""
    warnings: tuple[str, ...]


def host_status(
    host: str, context: InstallContext, captures: HostCaptures = _NO_CAPTURES, *, versions: bool = False
) -> HostStatus:
    installed, warnings = _install_state(host, context) if _has_traces(host, context) else ("missing", [])
    newest = newest_session(host, context)
    if installed != "missing":
        seen = map(datetime.fromisoformat, filter(None, (captures.last_event, captures.last_capture)))
        last_seen = max(read_receipt(context.home, host).at, *(when.timestamp() for when in seen), 0.0)
        if last_seen and newest > last_seen + MAX_SILENCE_S:
            used = f"{HOST_TITLES[host]} was used {(newest - last_seen) / 3600:,.0f} h after the last event that reached us"
            repair = f"approve the hooks, then run: lorelog backfill {host}"
            warnings.append(f"capture has silently stopped: {used}; {repair}")
    approve = pending_approvals(host, context) if installed != "missing" else ()
    return HostStatus(
        host=host,
        title=HOST_TITLES[host],
        found=is_host_available(host, context),
        version=_host_version(host, context) if versions else "",
        installed=installed,
        approve=tuple(approve),
        last_event=captures.last_event,
        last_capture=captures.last_capture,
        today=captures.today,
        newest_session=format_time(newest),
        warnings=tuple(warnings),
    )


def is_host_available(host: str, context: InstallContext) -> bool:
    """Return whether a host is on PATH or has been used here. A folder that holds only our own files does not count."""
    folder = host_root(host, context.environment, context.user_home)
    return bool(_which(host, context)) or (folder.is_dir() and _is_used(folder, context.home))


def _is_used(folder: Path, home: Path) -> bool:
    """Return whether a host wrote into a folder, and not only we."""
    receipts = [read_receipt(home, host) for host in HOST_TITLES]
    if not any(str(folder) in receipt.folders for receipt in receipts):
        return True
    files = [Path(path) for receipt in receipts for path in receipt.files]
    ours = {path.relative_to(folder).parts[0] for path in files if path.is_relative_to(folder) and path != folder}
    return bool({entry.name for entry in folder.iterdir()} - ours)


def count_sessions(host: str, context: InstallContext) -> int:
    """Return about how many conversations a host keeps, without reading them."""
    if host in TRANSCRIPT_DATABASES:
        database = _data_path(host, context, TRANSCRIPT_DATABASES[host])
        if Path(database).is_file():
            from lorelog.ingest.transcripts.json_files import open_database

            with suppress(LorelogError), open_database(database) as connection:
                return int(connection.execute("SELECT count(*) FROM session").fetchone()[0])
    return len(_transcripts(host, context))


def _data_path(host: str, context: InstallContext, name: str) -> str:
    return f"{host_data_folder(host, context.environment, str(context.user_home))}/{name}"


def _transcripts(host: str, context: InstallContext) -> list[str]:
    """Return the files with conversations of a host; none for one with a database, and for one that is not captured."""
    folder = _data_path(host, context, "")
    if host not in TRANSCRIPT_FILES or not Path(folder).is_dir():
        return []
    from glob import glob

    return glob(folder + TRANSCRIPT_FILES[host])


def native_install(host: str, context: InstallContext) -> str:
    """Return our name in the host's own installer, or an empty string."""
    with suppress(ValueError, ConfigError, AttributeError, TypeError):
        root = host_root(host, context.environment, context.user_home)
        if host == "claude":
            plugins = json.loads(_read_text(root / "plugins" / "installed_plugins.json")).get("plugins")
            return next((name for name in plugins or () if name.startswith(f"{NAME}@")), "")
        if host == "codex":
            import tomllib

            plugins = tomllib.loads(_read_text(root / "config.toml", "")).get("plugins", {})
            return next(
                (name for name, entry in plugins.items() if name.startswith(f"{NAME}@") and entry.get("enabled")), ""
            )
        from lorelog.services.install import config_edit

        if host == "opencode":
            for name in ("opencode.json", "opencode.jsonc"):
                for entry in config_edit.get(_read_text(root / name), ("plugin",)) or ():
                    plugin = str(entry[0] if isinstance(entry, list) else entry)
                    if NAME in plugin.rpartition("/")[2] or f"/{NAME}/" in plugin or "lorelog-opencode" in plugin:
                        return plugin
        if host in {"gemini", "qwen"}:
            mark = root / "extensions" / NAME / f".{host}-extension-install.json"
            return str(json.loads(_read_text(mark)).get("source") or "")
        if host == "openclaw":
            from lorelog.services.install.manifests import find_linked_plugin

            text = _read_text(openclaw_config(context.environment, context.user_home))
            return find_linked_plugin(text, str(context.home / "hosts" / "openclaw"))
    return ""


def pending_approvals(host: str, context: InstallContext) -> list[str]:
    """Return instructions for what the user must still approve in the host."""
    from lorelog.services.install import config_edit

    with suppress(ValueError, ConfigError, AttributeError):
        if host == "codex" and (events := _untrusted_events(context)):
            names = ", ".join(events)
            return [f"start codex and approve the hooks (Enter, then Trust all and continue); not approved: {names}"]
        if host == "openclaw":
            path = ("plugins", "entries", NAME, "hooks", "allowConversationAccess")
            text = _read_text(openclaw_config(context.environment, context.user_home))
            if config_edit.get(text, path) is True:
                return []
            command = f"openclaw config set {'.'.join(path)} true"
            return [f"allow the plugin to read conversations: lorelog hosts install openclaw --approve (or: {command})"]
        if host == "claude":
            root = host_root(host, context.environment, context.user_home)
            enabled = json.loads(_read_text(root / "settings.json")).get("enabledPlugins", {})
            if enabled.get(f"{NAME}@skills-dir") is False:
                return [f"enable the plugin: claude plugin enable {NAME}@skills-dir"]
    return []


def newest_session(host: str, context: InstallContext) -> float:
    """Return when a host last wrote to a conversation, in seconds since 1970; 0 for never."""
    times = list(map(modified_at, _transcripts(host, context)))
    if host == "openclaw" and Path(agents := _data_path(host, context, "agents")).is_dir():
        from glob import iglob

        stores = iglob(f"{agents}/*/agent/openclaw-agent.sqlite")
        times += [_query_time(path, "SELECT max(created_at) FROM transcript_events") for path in stores]
    if host in TRANSCRIPT_DATABASES:
        database = _data_path(host, context, TRANSCRIPT_DATABASES[host])
        times.append(_query_time(database, "SELECT max(time_created) FROM message"))
    return max(times, default=0.0)


def _install_state(host: str, context: InstallContext) -> tuple[str, list[str]]:
    from lorelog.services.install.manifests import build_manifest

    by_host = native_install(host, context)
    try:
        manifest = build_manifest(host, context)
        ours = {change.path for change in plan.effective_changes(plan.plan_uninstall(host, manifest, context))}
        # Planning takes time, and fails only for files that exist.
        is_there = ours or any(map(os.path.lexists, manifest.paths))
        changes = plan.effective_changes(plan.plan_install(host, manifest, context)) if is_there else []
    except ConfigError as error:
        state = "native" if by_host else "stale" if read_receipt(context.home, host).files else "missing"
        return state, [error.message]
    if by_host:
        listed = bool(read_receipt(context.home, host).files)
        twice = (
            [f"it is installed twice, by us and as {by_host}; run: lorelog hosts uninstall {host}"] if listed else []
        )
        return "native", twice
    if not ours & manifest.paths:
        where = f"where {HOST_TITLES[host]} does not look now; 'lorelog hosts uninstall {host}' removes it"
        return "missing", [f"it is installed in {path.parent}, {where}" for path in sorted(ours)[:1]]
    if not changes:
        return "current", [] if _which(context.command, context) else [
            f"hooks call {context.command}, which does not exist"
        ]
    command = read_receipt(context.home, host).command
    if command and not _which(command, context):
        gone = f"its hooks call {command}, which does not exist any more, so nothing is captured"
        return "stale", [f"{gone}; run: lorelog hosts install {host}"]
    names = ", ".join(sorted({change.path.name for change in changes}))
    return "stale", [f"another version of lorelog is installed ({names}); run: lorelog hosts install {host}"]


def _has_traces(host: str, context: InstallContext) -> bool:
    """Return whether there is a folder of the host, or anything that an installation wrote: only then is one planned."""
    ours = context.home / "hosts"
    places = [host_root(host, context.environment, context.user_home), ours / host, ours / f"{host}.json"]
    if host == "openclaw":
        places.append(openclaw_config(context.environment, context.user_home))
    return any(map(os.path.lexists, places))


def _which(program: str, context: InstallContext) -> str:
    return find_on_path(program, context.environment.get("PATH", os.defpath))


def _untrusted_events(context: InstallContext) -> list[str]:
    """Return the events whose hook Codex does not trust yet. It stores trust by file or plugin, event and index."""
    import tomllib

    from lorelog.hosts.bundles import HOOK_EVENTS
    from lorelog.services.install.manifests import find_our_groups

    root = host_root("codex", context.environment, context.user_home)
    path = root / "hooks.json"
    state: Mapping[str, Any] = tomllib.loads(_read_text(root / "config.toml", "")).get("hooks", {}).get("state", {})
    names, groups = {str(path), os.path.realpath(path)}, find_our_groups(_read_text(path))
    if plugin := native_install("codex", context):
        names, groups = {f"{plugin}:hooks/codex.json"}, [(event, 0) for event in HOOK_EVENTS["codex"]]
    untrusted = []
    for event, index in groups:
        key = f"{re.sub(_CAMEL_BOUNDARY, '_', event).lower()}:{index}:0"
        entries = [state.get(f"{name}:{key}", {}) for name in names]
        if not any(entry.get("trusted_hash") and entry.get("enabled") is not False for entry in entries):
            untrusted.append(event)
    return untrusted


def _read_text(path: Path, missing: str = "{}") -> str:
    content = read_file(path)
    return missing if content is None else content.decode()


def _query_time(path: str, query: str) -> float:
    """Return a time from a host's database in seconds, or the file's modification time if the query fails."""
    if not Path(path).is_file():
        return 0.0
    from lorelog.ingest.transcripts.json_files import open_database

    with suppress(LorelogError), open_database(path) as connection:
        (milliseconds,) = connection.execute(query).fetchone()
        return float(milliseconds or 0) / 1000
    return modified_at(path)


def _host_version(host: str, context: InstallContext) -> str:
    """Return a host's version, or an empty string if it does not answer in time."""
    import subprocess

    program = _which(host, context)
    if not program:
        return ""
    try:
        done = subprocess.run(
            (program, "--version"),
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return ""
    match = re.search(r"\d+\.\d+\.\d+[\w.+-]*", done.stdout)
    return match[0] if match else ""
