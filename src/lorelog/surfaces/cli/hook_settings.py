"""What a hook needs to know of the settings, read without loading them.

Reading them as everybody else does takes 100 ms, three times what a hook takes altogether. So files are parsed only where they
have one of our words in them, and what is found is taken if it is of the right kind, else passed over: whoever captures
reads all settings anew, and says what is wrong with them. Whose memories a place belongs to is never guessed: what is
wrong with a tenant is an error here too, and where a scope file chooses one, the settings are loaded.
"""

from __future__ import annotations

import os

from lorelog.core.errors import ConfigError
from lorelog.services.worktree import find_worktree, upward

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# ruff: noqa: PTH111, PTH113, PTH118, PTH123  (pathlib takes 10 ms to import)

DEFAULTS: dict[str, bool | int | float | str] = {
    "capture.enabled": True,
    "capture.skip": False,
    "session.inject_bytes": 2000,
    "session.hits": 0,
    "session.hits_relevance": 0.5,
    "session.hits_wait_ms": 80,
    "daemon.warm": "auto",
}
_OF_PROJECT = ("capture.skip",)
"""What a project's own file may say."""
_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_SECTIONS = (b"capture", b"session", b"daemon")
_MOST_BYTES = 1_000_000
_SWITCHES = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def choices(home: str, root: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what holds for a session in the working tree at `root`."""
    chosen: dict[str, Any] = dict(DEFAULTS)
    chosen |= _of_file(f"{home}/config.toml", tuple(DEFAULTS))
    if not chosen["capture.skip"]:  # a project may ask to be left out, and not to be taken in
        chosen |= _of_file(f"{root}/.lorelog.toml", _OF_PROJECT)
    for key in DEFAULTS:
        text = environment.get("LORELOG_" + key.replace(".", "_").upper(), "").strip()
        value = _parsed(key, text) if text else None
        if value is not None:
            chosen[key] = value
    return chosen


class Shelf:
    """Where a place's journals lie, and what says which of them are deleted."""

    __slots__ = ("deletions", "journals", "project")

    def __init__(self, project: str, journals: str, deletions: str) -> None:
        self.project, self.journals, self.deletions = project, journals, deletions


def shelf_of(home: str, directory: str, environment: Mapping[str, str]) -> Shelf:
    """Return it. Raise LorelogError where whose memories belong there cannot be told."""
    named = environment.get("LORELOG_SCOPE_TENANT", "")
    if not named and _has_scope_file(directory):
        return _shelf_of_scope(home, directory, environment)
    tenant = named or _tenant_of_person(f"{home}/config.toml")
    first, rest = tenant[:1], tenant[1:]
    if not (first in _NAMES and first not in "._-" and len(rest) < 64 and all(one in _NAMES for one in rest)):
        raise ConfigError(f"{tenant!r} is no name of a tenant")
    project = find_worktree(directory)[0]
    own = "memory" if tenant == "default" else f"tenants/{tenant}/memory"
    return Shelf(project, f"{project}/.lorelog/{own}", f"{home}/tenants/{tenant}/tombstones.jsonl")


def _shelf_of_scope(home: str, directory: str, environment: Mapping[str, str]) -> Shelf:
    from lorelog.services.place import Place
    from lorelog.wiring import settings_at, standpoint

    kept = {name: value for name, value in environment.items() if name != "LORELOG_PROJECT"}
    here = standpoint(home=home, directory=directory, environment=kept)
    place = Place(here.project, here.home, settings_at(here).tenant())
    return Shelf(place.project.id, str(place.journals), str(place.tenant_folder / "tombstones.jsonl"))


def _has_scope_file(directory: str) -> bool:
    end = os.path.realpath(os.path.expanduser("~"))
    for above in upward(os.path.realpath(directory)):
        if above == end:
            return False
        if os.path.lexists(os.path.join(above, ".lorelog", "scope.json")):
            return True
    return False


def _tenant_of_person(file: str) -> str:
    held = _read(file)
    if b"tenant" not in held:
        return "default"
    table = _table(held)
    if table is None:
        raise ConfigError(f"{file} is not valid TOML")
    scope = table.get("scope")
    tenant = scope.get("tenant", "default") if isinstance(scope, dict) else "default"
    return tenant if isinstance(tenant, str) else f"{tenant!r}, a text?"


def _of_file(file: str, keys: tuple[str, ...]) -> dict[str, Any]:
    held = _read(file)
    if not any(section in held for section in _SECTIONS):
        return {}
    table = _table(held) or {}
    found = {}
    for key in keys:
        section, _, field = key.partition(".")
        content = table.get(section)
        value = content.get(field) if isinstance(content, dict) else None
        if value is not None and _fits(key, value):
            found[key] = value
    return found


def _table(held: bytes) -> dict[str, Any] | None:
    import tomllib

    try:
        return tomllib.loads(held.decode())
    except (ValueError, RecursionError):
        return None


def _read(file: str) -> bytes:
    """Return a file of settings without its comments, which name all of them where `lorelog config init` wrote it."""
    if not os.path.isfile(file):  # a pipe would keep us waiting
        return b""
    try:
        with open(file, "rb") as opened:
            held = opened.read(_MOST_BYTES)
    except OSError:
        return b""
    said = b"\n".join(line for line in held.split(b"\n") if not line.lstrip().startswith(b"#"))
    return said if b"=" in said else b""


def _parsed(key: str, text: str) -> object:
    """Return the value that a text writes, or None."""
    default = DEFAULTS[key]
    try:
        value: object = (
            _SWITCHES.get(text.lower())
            if isinstance(default, bool)
            else type(default)(text)  # a whole number, a number or a text
        )
    except ValueError:
        return None
    return value if value is not None and _fits(key, value) else None


def _fits(key: str, value: object) -> bool:
    """Say whether a value can be meant; its bounds are those of the settings, as far as going beyond them would hurt."""
    default = DEFAULTS[key]
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, str):
        return value in {"auto", "off", "required"}
    whole = isinstance(value, int)
    return (whole or (isinstance(value, float) and isinstance(default, float))) and 0 <= value <= 100_000  # type: ignore[operator]
