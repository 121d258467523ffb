"""Where each host keeps its configuration, and what of it is ours.

Claude Code loads a plugin that lies in its skills folder, and OpenCode one that lies in its plugins folder: there we add
files of our own and change nothing. Codex and OpenClaw have to be told in their own files, so there we add entries.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorelog.hosts.bundles import COMMAND, EVENTS, NAME, SKILL, bundle, hook_groups, mcp_server, skill
from lorelog.services.installing import json_text, toml_text
from lorelog.services.installing.plan import Footprint, OwnFile, Setting, SharedFile, read_receipt
from lorelog.services.installing.writing import read_file

_TABLE = ("mcp_servers", NAME)
_ENTRY = ("plugins", "entries", NAME)
_SLOT = ("plugins", "slots", "memory")
_PATHS = ("plugins", "load", "paths")
_ALLOW = ("plugins", "allow")


def host_root(host: str, environment: Mapping[str, str], user_home: Path) -> Path:
    """Return a host's own folder."""
    if host == "claude":
        return _chosen(environment, "CLAUDE_CONFIG_DIR") or user_home / ".claude"
    if host == "codex":
        return _chosen(environment, "CODEX_HOME") or user_home / ".codex"
    if host == "opencode":
        return (_chosen(environment, "XDG_CONFIG_HOME") or user_home / ".config") / "opencode"
    return _chosen(environment, "OPENCLAW_STATE_DIR") or user_home / ".openclaw"


def openclaw_config(environment: Mapping[str, str], user_home: Path) -> Path:
    """Return OpenClaw's configuration."""
    root = host_root("openclaw", environment, user_home)
    return _chosen(environment, "OPENCLAW_CONFIG_PATH") or root / "openclaw.json"


def footprint(host: str, setting: Setting) -> Footprint:
    """Return what an installation into a host consists of, here and now."""
    return {"claude": _claude, "codex": _codex, "opencode": _opencode, "openclaw": _openclaw}[host](setting)


def our_groups(text: str) -> list[tuple[str, int]]:
    """Return which groups of a hooks file are ours: the event, and the place in its list."""
    hooks = json_text.at(text, ("hooks",))
    return [
        (event, number)
        for event, groups in (hooks.items() if isinstance(hooks, dict) else ())
        for number, group in enumerate(groups if isinstance(groups, list) else ())
        if _is_our_group(group)
    ]


def _is_our_group(group: Any) -> bool:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    commands = [one.get("command") for one in hooks if isinstance(one, dict)] if isinstance(hooks, list) else []
    return bool(commands) and all(isinstance(one, str) and _calls_us(one) for one in commands)


def _calls_us(command: str) -> bool:
    """Say whether a shell would start us first: a tool of the person's own that has our words further on is theirs."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return words[1:2] == ["hook"] and words[2:3] in (["codex"], ["claude"]) and Path(words[0]).name == COMMAND


def linked_plugin(text: str, ours: str) -> str:
    """Return where OpenClaw's own installer has put us, or nothing."""
    paths = json_text.at(text, _PATHS)
    for place in paths if isinstance(paths, list) else ():
        if isinstance(place, str) and place != ours and _plugin_id(Path(place).expanduser()) == NAME:
            return place
    return ""


def _plugin_id(folder: Path) -> str:
    return str(_read_json(folder / "openclaw.plugin.json", ("id",)))


def _claude(setting: Setting) -> Footprint:
    root = host_root("claude", setting.environment, setting.user_home)
    files = {path: content for path, content in bundle("claude", setting.command).items() if "codex" not in path}
    return Footprint((root,), tuple(OwnFile(root / "skills" / NAME / path, content) for path, content in files.items()))


def _opencode(setting: Setting) -> Footprint:
    root = host_root("opencode", setting.environment, setting.user_home)
    files = bundle("opencode", setting.command)
    return Footprint(
        (root,),
        (
            OwnFile(root / "plugins" / "lorelog.ts", files["lorelog.ts"]),
            OwnFile(root / "skills" / SKILL / "SKILL.md", files[f"skills/{SKILL}/SKILL.md"]),
        ),
    )


def _codex(setting: Setting) -> Footprint:
    root = host_root("codex", setting.environment, setting.user_home)
    own = OwnFile(root / "skills" / SKILL / "SKILL.md", skill("codex", setting.command).encode())
    return Footprint((root,), (own,), (_codex_hooks(root, setting), _codex_config(root, setting)))


def _codex_hooks(root: Path, setting: Setting) -> SharedFile:
    groups = hook_groups("codex", setting.command)

    def add(text: str) -> str:
        for event, (group,) in groups.items():
            text = json_text.append(text, ("hooks", event), group)
        return text

    def remove(text: str) -> str:
        for event, number in reversed(our_groups(text)):
            text = json_text.drop_item(text, ("hooks", event), number)
            if json_text.at(text, ("hooks", event)) == []:
                text = json_text.drop(text, ("hooks", event))
        return text

    def has(text: str) -> bool:
        found = [(event, json_text.at(text, ("hooks", event))[number]) for event, number in our_groups(text)]
        return sorted(found, key=str) == sorted([(event, group) for event, (group,) in groups.items()], key=str)

    by_hand = f"under hooks, for each of {', '.join(EVENTS['codex'])}, an entry such as {json.dumps(groups['Stop'][0])}"
    return SharedFile(root / "hooks.json", add, remove, has, by_hand, empty="{}\n")


def _codex_config(root: Path, setting: Setting) -> SharedFile:
    path = root / "config.toml"
    server = mcp_server(setting.command)
    moved = setting.environment.get("LORELOG_HOME")
    if moved:
        server["env"] = {"LORELOG_HOME": moved}  # Codex gives its servers next to nothing of its own environment
    server = {**_known_table(path), **server}

    def add(text: str) -> str:
        return toml_text.put_table(text, _TABLE, server)

    def remove(text: str) -> str:
        return toml_text.drop_table(text, _TABLE)

    def has(text: str) -> bool:
        servers = toml_text.read(text).get(_TABLE[0])
        return isinstance(servers, dict) and servers.get(NAME) == server

    return SharedFile(path, add, remove, has, toml_text.table_lines(_TABLE, server).strip().replace("\n", "; "))


def _known_table(path: Path) -> dict[str, Any]:
    """Return what stands in our table already: a person may have added a time limit there."""
    try:
        known = toml_text.read((read_file(path) or b"").decode()).get(_TABLE[0], {}).get(NAME, {})
    except (ValueError, AttributeError):
        return {}  # who edits it will say what is wrong with it
    return known if isinstance(known, dict) else {}


def _openclaw(setting: Setting) -> Footprint:
    path = openclaw_config(setting.environment, setting.user_home)
    folder = setting.home / "hosts" / "openclaw"
    own = tuple(OwnFile(folder / name, content) for name, content in bundle("openclaw", setting.command).items())
    return Footprint((path.parent,), own, (_openclaw_shared(path, str(folder), setting),))


def _openclaw_shared(path: Path, folder: str, setting: Setting) -> SharedFile:
    entry = _openclaw_entry(path, approve=setting.approve)
    previous = _previous_slot(path, setting)

    def add(text: str) -> str:
        text = json_text.append(text, _PATHS, folder)
        text = json_text.put(text, _ENTRY, entry)
        if isinstance(json_text.at(text, _ALLOW), list):
            text = json_text.append(text, _ALLOW, NAME)
        return json_text.put(text, _SLOT, NAME)

    def remove(text: str) -> str:
        found = text
        for place, item in ((_PATHS, folder), (_ALLOW, NAME)):
            items = json_text.at(text, place)
            if isinstance(items, list) and item in items:
                text = json_text.drop_item(text, place, items.index(item))
            if linked_plugin(text, folder):
                return text  # by OpenClaw's own installer: entry and slot serve that one too
        text = json_text.drop(text, _ENTRY)
        if json_text.at(text, _SLOT) == NAME:
            text = json_text.put(text, _SLOT, previous) if previous else json_text.drop(text, _SLOT)
        return text if text == found else _without_empty(text)  # what was empty before us may stay so

    def has(text: str) -> bool:
        paths, allowed = json_text.at(text, _PATHS), json_text.at(text, _ALLOW)
        return (
            isinstance(paths, list)
            and paths.count(folder) == 1
            and json_text.at(text, _ENTRY) == entry
            and json_text.at(text, _SLOT) == NAME
            and (not isinstance(allowed, list) or NAME in allowed)
        )

    shown = {"plugins": {"load": {"paths": [folder]}, "slots": {"memory": NAME}, "entries": {NAME: entry}}}
    return SharedFile(path, add, remove, has, json.dumps(shown), empty="{}\n")


def _without_empty(text: str) -> str:
    """Take away what holds nothing any more, from the inside out."""
    for place in (_PATHS, _PATHS[:2], _SLOT[:2], _ENTRY[:2], ("plugins",)):
        if json_text.at(text, place) in ([], {}):
            text = json_text.drop(text, place)
    return text


def _openclaw_entry(path: Path, *, approve: bool) -> dict[str, Any]:
    """Return our entry. What the person has put there, above all an approval, stays."""
    known = _read_json(path, _ENTRY)
    entry: dict[str, Any] = {**known, "enabled": True} if isinstance(known, dict) else {"enabled": True}
    if approve:
        hooks = entry.get("hooks")
        entry["hooks"] = {**(hooks if isinstance(hooks, dict) else {}), "allowConversationAccess": True}
    return entry


def _previous_slot(path: Path, setting: Setting) -> str:
    """Return who had the memory slot before us, from the copy that was kept then."""
    _, copy = read_receipt(setting.home, "openclaw").files.get(str(path), ("", ""))
    slot = _read_json(Path(copy), _SLOT) if copy else None
    return slot if isinstance(slot, str) and slot != NAME else ""


def _read_json(path: Path, place: tuple[str, ...]) -> Any:
    try:
        return json_text.at((read_file(path) or b"{}").decode(), place)
    except ValueError:
        return None  # who edits it will say what is wrong with it


def _chosen(environment: Mapping[str, str], name: str) -> Path | None:
    value = environment.get(name)
    return Path(value).expanduser() if value else None
