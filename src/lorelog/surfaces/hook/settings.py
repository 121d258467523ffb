"""The event of a hook, and the settings that it needs, read without loading the settings module.

Loading it takes 100 ms, three times as long as a whole hook. A file is parsed only if it contains one of the section names, and
invalid values are ignored here: the capturing process reads all settings and reports errors. The tenant is never guessed:
an invalid tenant is an error here too, and if a scope file selects one, the settings are loaded.
"""

from __future__ import annotations

import os
import time

from lorelog.core.errors import ConfigError
from lorelog.core.paths import tenant_folder
from lorelog.light.daemon_connection import find_address
from lorelog.light.git_location import find_worktree, walk_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lorelog.light.delivery_files import DeliveryFiles


DEFAULTS: dict[str, bool | int | float | str] = {
    "capture.enabled": True,
    "capture.skip": False,
    "session.budget": 600,
    "session.prompt_budget": 200,
    "session.hits": 2,
    "session.hits_relevance": 0.1,
    "session.tool_hooks": True,
    "session.hold_calls": "unseen",
    "session.subagents": "rules",
    "daemon.warm": "auto",
}
_CHOICES = {
    "daemon.warm": ("auto", "off", "required"),
    "session.hold_calls": ("unseen", "always", "off"),
    "session.subagents": ("rules", "none", "all"),
}
_PROJECT_KEYS = ("capture.skip",)
"""Settings that a project's file may set."""
_TENANT_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_SECTIONS = (b"capture", b"session", b"daemon")
_MAX_BYTES = 1_000_000
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def load_settings(home: str, root: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings for a session in the working tree at `root`."""
    settings: dict[str, Any] = dict(DEFAULTS)
    settings |= _read_settings_file(f"{home}/config.toml", tuple(DEFAULTS))
    if not settings["capture.skip"]:  # a project can turn capture off, not on
        settings |= _read_settings_file(f"{root}/.lorelog.toml", _PROJECT_KEYS)
    for key, default in DEFAULTS.items():
        text = environment.get("LORELOG_" + key.replace(".", "_").upper(), "").strip()
        try:  # a text as int, float or str
            value = _BOOLEANS.get(text.lower()) if isinstance(default, bool) else type(default)(text)
        except ValueError:
            continue
        if text and _is_valid(key, value):
            settings[key] = value
    return settings


class HookContext:
    """An event of a session, the settings for it, and, once located, the files of its project."""

    __slots__ = ("address", "environment", "event", "files", "location", "project", "root", "settings")

    def __init__(self, event: dict[str, Any], environment: Mapping[str, str]) -> None:
        self.event, self.environment = event, environment
        self.address = find_address(None, environment)
        self.project, self.root, _ = find_worktree(event["directory"])
        self.settings = load_settings(self.address.home, self.root, environment)
        self.location: JournalLocation
        self.files: DeliveryFiles

    def locate(self) -> None:
        """Find the files of the project. Raise LorelogError if its tenant cannot be determined."""
        from lorelog.light.delivery_files import DeliveryFiles  # the end of a turn does not need it

        self.location = locate_journals(self.address.home, self.event["directory"], self.environment)
        self.project = self.location.project
        self.files = DeliveryFiles(os.path.dirname(self.location.deletions), self.project)

    def pause_state(self, prompt: str = "", *, is_off: bool = False) -> str:
        """Note what this prompt, or hooks that are off, change about the session's pause, and return what is noted now.

        Raise StoreError if that cannot be read or written.
        """
        if not prompt and not is_off and not os.path.lexists(f"{self.address.home}/paused"):
            return "on"
        from lorelog.light.spool import CLOCK_SLACK_S, HOOKS_OFF, ON, WORDS, PauseNotes, is_off_record

        notes, now = PauseNotes(self.address.home, self.event["session"]), time.time()
        if is_off and notes.state == ON:
            notes.add(HOOKS_OFF, now if self.event["moment"] in {"session-start", "prompt"} else notes.last_change)
        elif not is_off and notes.state == HOOKS_OFF:  # they run again
            notes.add(ON, max(notes.last_change, now - CLOCK_SLACK_S))
        if notes.state == ON and is_off_record(prompt):
            notes.add(WORDS, now)
        return HOOKS_OFF if is_off else notes.state

    def record(self, kind: str, memories: list[str], tokens: int, **fields: str) -> bool:
        """Append a delivery to the session's log. Return False if that fails; the agent's work goes on."""
        from lorelog.light.delivery_log import append_delivery

        delivery = {"project": self.project, "moment": self.event["moment"], "kind": kind, "memories": memories}
        more = {name: value for name, value in fields.items() if value}
        try:
            append_delivery(
                self.files.log, self.event["host"], self.event["session"], {**delivery, "tokens": tokens, **more}
            )
        except OSError:
            return False
        return True


class JournalLocation:
    """Paths of a project's journals and of the list of deleted memories."""

    __slots__ = ("deletions", "journals", "project")

    def __init__(self, project: str, journals: str, deletions: str) -> None:
        self.project, self.journals, self.deletions = project, journals, deletions


def locate_journals(home: str, directory: str, environment: Mapping[str, str]) -> JournalLocation:
    """Return the journals of a directory. Raise LorelogError if its tenant cannot be determined."""
    configured = environment.get("LORELOG_SCOPE_TENANT", "")
    if not configured and _has_scope_file(directory):
        from lorelog.services.places.workspace import Workspace
        from lorelog.wiring import resolve_location, settings_at

        kept = {name: value for name, value in environment.items() if name != "LORELOG_PROJECT"}
        location = resolve_location(home=home, directory=directory, environment=kept)
        workspace = Workspace(location.project, location.home, settings_at(location).tenant())
        deletions = f"{workspace.tenant_folder}/tombstones.jsonl"
        return JournalLocation(workspace.project.id, str(workspace.journals), deletions)
    tenant = configured or _user_tenant(f"{home}/config.toml")
    first, rest = tenant[:1], tenant[1:]
    if not (first in _TENANT_CHARS and first not in "._-" and len(rest) < 64 and _TENANT_CHARS.issuperset(rest)):
        raise ConfigError(f"{tenant!r} is not a valid tenant name")
    project = find_worktree(directory)[0]
    folder = "memory" if tenant == "default" else f"tenants/{tenant}/memory"
    deletions = os.path.join(tenant_folder(home, tenant), "tombstones.jsonl")
    return JournalLocation(project, f"{project}/.lorelog/{folder}", deletions)


def _has_scope_file(directory: str) -> bool:
    end = os.path.realpath(os.path.expanduser("~"))
    for parent in walk_up(os.path.realpath(directory)):
        if parent == end:
            return False
        if os.path.lexists(os.path.join(parent, ".lorelog", "scope.json")):
            return True
    return False


def _user_tenant(file: str) -> str:
    table = _read_table(file, b"tenant")
    if table is None:
        raise ConfigError(f"{file} is not valid TOML")
    scope = table.get("scope")
    tenant = scope.get("tenant", "default") if isinstance(scope, dict) else "default"
    if not isinstance(tenant, str):
        raise ConfigError(f"scope.tenant in {file} is not a string")
    return tenant


def _read_settings_file(file: str, keys: tuple[str, ...]) -> dict[str, Any]:
    table = _read_table(file, *_SECTIONS) or {}
    values = {}
    for key in keys:
        section, _, field = key.partition(".")
        content = table.get(section)
        value = content.get(field) if isinstance(content, dict) else None
        if _is_valid(key, value):
            values[key] = value
    return values


def _read_table(file: str, *words: bytes) -> dict[str, Any] | None:
    """Return the table of a settings file, empty if it has none of the words; None if it is not valid TOML."""
    data = _read_uncommented(file)
    if not any(word in data for word in words):
        return {}
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        return None


def _read_uncommented(file: str) -> bytes:
    """Return a settings file without comments: `lorelog config init` writes all settings as comments."""
    if not os.path.isfile(file):  # reading a pipe would block
        return b""
    try:
        with open(file, "rb") as opened:
            data = opened.read(_MAX_BYTES)
    except OSError:
        return b""
    content = b"\n".join(line for line in data.split(b"\n") if not line.lstrip().startswith(b"#"))
    return content if b"=" in content else b""


def _is_valid(key: str, value: object) -> bool:
    """Return whether a value has the right type and is within safe bounds."""
    default = DEFAULTS[key]
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, str):
        return value in _CHOICES[key]
    is_int = isinstance(value, int)
    return (is_int or (isinstance(value, float) and isinstance(default, float))) and 0 <= value <= 100_000  # type: ignore[operator]
