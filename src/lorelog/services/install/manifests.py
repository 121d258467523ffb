"""Which files and entries an installation into each host consists of.

Claude Code, OpenCode, Gemini CLI and Qwen Code load plugins or extensions from a folder: there we only add files of our own.
Codex, OpenClaw and Copilot CLI need entries in their own configuration.
"""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lorelog.core.errors import ConfigError
from lorelog.hosts import TRANSCRIPT_DATABASES
from lorelog.hosts.bundles import COMMAND, HOOK_EVENTS, NAME, bundle_files, hook_groups, mcp_server
from lorelog.services.install import config_edit, plan
from lorelog.services.install.plan import HostManifest, InstallContext, SharedFile, read_file, read_receipt

_TABLE_PATH = ("mcp_servers", NAME)
_ENTRY_PATH = ("plugins", "entries", NAME)
_SLOT_PATH = ("plugins", "slots", "memory")
_LOAD_PATHS = ("plugins", "load", "paths")
_ALLOW_PATH = ("plugins", "allow")
_KIMI_LIST = ("plugins",)
_KIMI_TIME = "2026-11-19T00:00:00.000Z"
"""The time of installation must be there, and a second installation must not change it."""
_HOOKED = frozenset({"claude", "codex", "droid"})
"""Hosts whose hooks are groups in a file."""


def build_manifest(host: str, context: InstallContext) -> HostManifest:
    """Return the files and entries of an installation into a host."""
    root = plan.host_root(host, context.environment, context.user_home)
    files = bundle_files(host, context.command)
    shared: tuple[SharedFile, ...] = ()
    if host == "claude":  # some files of the bundle are for other hosts
        folder = root / "skills" / NAME
        files = {path: files[path] for path in files if "codex" not in path and path != "plugin.json"}
        settings = root / "settings.json"
        if context.statusline or str(settings) in read_receipt(context.home, host).files:
            shared = (_statusline(settings, context.command),)
    elif host in TRANSCRIPT_DATABASES or host == "cline":
        folder, files["plugins/lorelog.ts"] = root, files.pop("lorelog.ts")
        del files["package.json"]
        if host == "cline":
            settings = root / "data" / "settings" / "cline_mcp_settings.json"
            shared = (_json_server(settings, "mcpServers", mcp_server(context.command)),)
    elif host in {"pi", "omp"}:
        folder, files["extensions/lorelog/index.ts"] = root, files.pop("index.ts")
        del files["package.json"]
    elif host == "droid":
        server = {"type": "stdio", **mcp_server(context.command)}
        folder, hooks = root, _hooks_file("droid", root / "hooks.json", (), context)
        shared = (hooks, _json_server(root / "mcp.json", "mcpServers", server))
    elif host == "kimi":
        folder = context.home / "hosts" / "kimi"
        shared = (_kimi_plugins(root / "plugins" / "installed.json", str(folder)),)
    elif host == "codex":
        folder, skills = root, [path for path in files if path.startswith("codex-skills/")]
        files = {path.removeprefix("codex-"): files[path] for path in skills}
        hooks = _hooks_file("codex", root / "hooks.json", ("hooks",), context)
        shared = (hooks, _codex_config(root, context))
    elif host == "copilot":
        folder, server = root, {"type": "local", **mcp_server(context.command), "tools": ["*"]}
        shared = (_json_server(root / "mcp-config.json", "mcpServers", server),)
    elif host == "openclaw":
        config, folder = (
            plan.openclaw_config(context.environment, context.user_home),
            context.home / "hosts" / "openclaw",
        )
        root, shared = config.parent, (_openclaw_shared(config, str(folder), context),)
    else:  # gemini and qwen
        folder = root / "extensions" / NAME
    return HostManifest((root,), {folder / path: content for path, content in files.items()}, shared)


def find_our_groups(text: str, below: config_edit.KeyPath = ("hooks",)) -> list[tuple[str, int]]:
    """Return our groups in a hooks file, as event and index in its list; `below` is where it has the events."""
    hooks = config_edit.get(text, below)
    return [
        (event, index)
        for event, groups in (hooks.items() if isinstance(hooks, dict) else ())
        for index, group in enumerate(groups if isinstance(groups, list) else ())
        if _is_our_group(group)
    ]


def _is_our_group(group: Any) -> bool:
    """Return whether a shell would start lorelog itself for each hook, not a program with our words in its arguments."""
    hooks = group.get("hooks") if isinstance(group, dict) else None
    commands = [hook.get("command") for hook in hooks if isinstance(hook, dict)] if isinstance(hooks, list) else []
    try:
        words = [shlex.split(str(command))[:3] for command in commands]
    except ValueError:  # a quote is open
        return False
    ours = [len(command) == 3 and Path(command[0]).name == COMMAND for command in words]
    return bool(ours) and all(ours) and all(command[1] == "hook" and command[2] in _HOOKED for command in words)


def find_linked_plugin(text: str, ours: str) -> str:
    """Return the path under which OpenClaw's own installer registered our plugin, or an empty string."""
    paths = config_edit.get(text, _LOAD_PATHS)
    for path in paths if isinstance(paths, list) else ():
        if (
            isinstance(path, str)
            and path != ours
            and _read_json(Path(path).expanduser() / "openclaw.plugin.json", ("id",)) == NAME
        ):
            return path
    return ""


def _json_server(file: Path, servers: str, server: Mapping[str, Any]) -> SharedFile:
    """Return a JSON file in which our MCP server is one of several. Fields that the user added to it stay."""
    path = (servers, NAME)
    existing = _read_json(file, path)
    server = {**(existing if isinstance(existing, dict) else {}), **server}

    def add(text: str) -> str:
        return config_edit.put(text, path, server)

    def remove(text: str) -> str:
        without = _drop_key(text, path)
        return _drop_key(without, path[:1]) if without != text and not config_edit.get(without, path[:1]) else without

    return SharedFile(
        path=file,
        add=add,
        remove=remove,
        contains_ours=lambda text: config_edit.get(text, path) == server,
        manual_text=lambda: json.dumps({servers: {NAME: server}}),
        empty_text="{}\n",
    )


def _statusline(file: Path, command: str) -> SharedFile:
    """Return Claude Code's settings with our status line. One of the user's own is never replaced."""
    path, line = ("statusLine",), {"type": "command", "command": f"{shlex.quote(command)} status --short"}

    def add(text: str) -> str:
        if config_edit.get(text, path) is not None:
            raise ConfigError("it has a statusLine of yours, which is kept")
        return config_edit.put(text, path, line)

    def remove(text: str) -> str:
        shown = config_edit.get(text, path)
        words = str(shown.get("command", "")) if isinstance(shown, dict) else ""
        return _drop_key(text, path) if COMMAND in words and words.endswith(" status --short") else text

    return SharedFile(
        path=file,
        add=add,
        remove=remove,
        contains_ours=lambda text: config_edit.get(text, path) == line,
        manual_text=lambda: f"the output of '{line['command']}' in your own status line",
        empty_text="{}\n",
    )


def _hooks_file(host: str, file: Path, below: config_edit.KeyPath, context: InstallContext) -> SharedFile:
    """Return a file in which our groups are some of several. It has the events at `below`."""
    groups = hook_groups(host, context.command)

    def add(text: str) -> str:
        for event, (group,) in groups.items():
            text = config_edit.append(text, (*below, event), group)
        return text

    def remove(text: str) -> str:
        for event, index in reversed(find_our_groups(text, below)):
            text = config_edit.drop(text, (*below, event), index)
            if not config_edit.get(text, (*below, event)):
                text = config_edit.drop(text, below, event)
        return text

    def has(text: str) -> bool:
        ours = [(event, config_edit.get(text, (*below, event))[index]) for event, index in find_our_groups(text, below)]
        return sorted(ours, key=str) == sorted([(event, group) for event, (group,) in groups.items()], key=str)

    def manual_text() -> str:
        where = f"under {below[0]}, " if below else ""
        return f"{where}for each of {', '.join(HOOK_EVENTS[host])}, an entry such as {json.dumps(groups['Stop'][0])}"

    return SharedFile(path=file, add=add, remove=remove, contains_ours=has, manual_text=manual_text, empty_text="{}\n")


def _kimi_plugins(file: Path, folder: str) -> SharedFile:
    """Return Kimi Code's list of plugins with ours; it loads no other."""
    plugin = {"id": NAME, "root": folder, "source": "local-path", "enabled": True, "installedAt": _KIMI_TIME}

    def add(text: str) -> str:
        text = text if config_edit.get(text, ("version",)) else config_edit.put(text, ("version",), 1)
        return config_edit.append(text, _KIMI_LIST, plugin)

    def remove(text: str) -> str:
        plugins = config_edit.get(text, _KIMI_LIST)
        for index, entry in reversed(list(enumerate(plugins if isinstance(plugins, list) else ()))):
            if isinstance(entry, dict) and entry.get("id") == NAME and entry.get("root") == folder:
                text = config_edit.drop(text, _KIMI_LIST, index)
        return text

    return SharedFile(
        path=file,
        add=add,
        remove=remove,
        contains_ours=lambda text: plugin in (config_edit.get(text, _KIMI_LIST) or ()),
        manual_text=lambda: json.dumps({_KIMI_LIST[0]: [plugin]}),
        empty_text="{}\n",
    )


def _codex_config(root: Path, context: InstallContext) -> SharedFile:
    path = root / "config.toml"
    server = mcp_server(context.command)
    home = context.environment.get("LORELOG_HOME")
    if home:
        server["env"] = {"LORELOG_HOME": home}  # Codex passes on almost nothing of its environment
    with suppress(ValueError, AttributeError):  # the edit will report the error
        table = tomllib.loads((read_file(path) or b"").decode()).get(_TABLE_PATH[0], {}).get(NAME, {})
        server = {**table, **server}  # the user may have added settings, such as a timeout

    def add(text: str) -> str:
        return config_edit.put_table(text, _TABLE_PATH, server)

    def remove(text: str) -> str:
        return config_edit.drop_table(text, _TABLE_PATH)

    def has(text: str) -> bool:
        servers = tomllib.loads(text).get(_TABLE_PATH[0])
        return isinstance(servers, dict) and servers.get(NAME) == server

    return SharedFile(
        path=path, add=add, remove=remove, contains_ours=has, manual_text=lambda: add("").strip().replace("\n", "; ")
    )


def _openclaw_shared(config: Path, folder: str, context: InstallContext) -> SharedFile:
    existing = _read_json(config, _ENTRY_PATH)  # settings that the user added, such as an approval, stay
    entry: dict[str, Any] = {**existing, "enabled": True} if isinstance(existing, dict) else {"enabled": True}
    if context.approve:
        hooks = entry.get("hooks")
        entry["hooks"] = {**(hooks if isinstance(hooks, dict) else {}), "allowConversationAccess": True}
    _, copy = read_receipt(context.home, "openclaw").files.get(str(config), ("", ""))
    previous = _read_json(Path(copy), _SLOT_PATH) if copy else None

    def add(text: str) -> str:
        text = config_edit.append(text, _LOAD_PATHS, folder)
        text = config_edit.put(text, _ENTRY_PATH, entry)
        if isinstance(config_edit.get(text, _ALLOW_PATH), list):
            text = config_edit.append(text, _ALLOW_PATH, NAME)
        return config_edit.put(text, _SLOT_PATH, NAME)

    def remove(text: str) -> str:
        before = text
        for path, item in ((_LOAD_PATHS, folder), (_ALLOW_PATH, NAME)):
            items = config_edit.get(text, path)
            if isinstance(items, list) and item in items:
                text = config_edit.drop(text, path, items.index(item))
            if find_linked_plugin(text, folder):
                return text  # OpenClaw's own installer registered us, too: entry and slot belong to that
        text = _drop_key(text, _ENTRY_PATH)
        if config_edit.get(text, _SLOT_PATH) == NAME:
            is_other = isinstance(previous, str) and previous not in {"", NAME}
            text = config_edit.put(text, _SLOT_PATH, previous) if is_other else _drop_key(text, _SLOT_PATH)
        return text if text == before else _remove_empty(text)  # containers that were empty before us stay

    def has(text: str) -> bool:
        paths, allowed = config_edit.get(text, _LOAD_PATHS), config_edit.get(text, _ALLOW_PATH)
        return (
            isinstance(paths, list)
            and paths.count(folder) == 1
            and config_edit.get(text, _ENTRY_PATH) == entry
            and config_edit.get(text, _SLOT_PATH) == NAME
            and (not isinstance(allowed, list) or NAME in allowed)
        )

    example = {"plugins": {"load": {"paths": [folder]}, "slots": {"memory": NAME}, "entries": {NAME: entry}}}
    return SharedFile(
        path=config,
        add=add,
        remove=remove,
        contains_ours=has,
        manual_text=lambda: json.dumps(example),
        empty_text="{}\n",
    )


def _remove_empty(text: str) -> str:
    for path in (_LOAD_PATHS, _LOAD_PATHS[:2], _SLOT_PATH[:2], _ENTRY_PATH[:2], ("plugins",)):
        if config_edit.get(text, path) in ([], {}):
            text = _drop_key(text, path)
    return text


def _drop_key(text: str, path: config_edit.KeyPath) -> str:
    return config_edit.drop(text, path[:-1], path[-1])


def _read_json(path: Path, keys: tuple[str, ...]) -> Any:
    try:
        return config_edit.get((read_file(path) or b"{}").decode(), keys)
    except ValueError:
        return None  # the edit will report the error
