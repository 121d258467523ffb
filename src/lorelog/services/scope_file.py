"""The scope file: what a directory says about whose memories it belongs to.

`.lorelog/scope.json`, in the directory one stands in or above it, may name a tenant, and make its directory a project
of its own. It comes with whoever's clone, so naming a tenant is asking for it: a person must have allowed that tenant in
their own settings. A scope file that cannot be understood is an error, never a missing one: whoever wrote it wanted
memories kept apart, and the default tenant is not apart.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from os import path

from lorelog.core.errors import ConfigError
from lorelog.services.scope import Project, find_project

# As in `scope`: asked about odd paths, `os.path` answers no, where pathlib raises.
# ruff: noqa: PTH111, PTH113, PTH114, PTH118, PTH119, PTH120, PTH123

NAME = path.join(".lorelog", "scope.json")
_MAX_BYTES = 65_536
_LEVELS = 64


@dataclass(frozen=True, slots=True)
class Scope:
    """What a scope file says, and where it stands."""

    file: str
    tenant: str = ""
    """Empty where it names none."""
    project: bool = False
    """Whether its directory is a project of its own."""

    @property
    def directory(self) -> str:
        """The directory it speaks for."""
        return path.dirname(path.dirname(self.file))


def find_scope(start: str) -> Scope | None:
    """Return the nearest scope file upward; a person's home and what is above it are not looked at."""
    here, home = path.realpath(start), path.realpath(path.expanduser("~"))
    for _ in range(_LEVELS):
        if here == home:
            return None
        file = path.join(here, NAME)
        if path.lexists(file):
            return _read(file)
        parent = path.dirname(here)
        if parent == here:
            return None
        here = parent
    return None


def scoped_project(scope: Scope, found: Project) -> Project:
    """Return the project one stands in, as the scope file wants it."""
    if not scope.project or scope.directory == found.id:
        return found
    own = find_project(scope.directory)
    return replace(own, id=scope.directory, root=scope.directory, name=path.basename(scope.directory))


def _read(file: str) -> Scope:
    if not path.isfile(file) or path.islink(file):  # a pipe would keep us waiting, a link would speak for another place
        raise ConfigError(f"{file} is not a regular file", hint="make it one, or remove it")
    try:
        with open(file, "rb") as opened:
            entry = json.loads(opened.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", hint=_HINT) from None
    if not isinstance(entry, dict) or set(entry) - {"tenant", "project"}:
        raise ConfigError(f"{file} may hold tenant and project, and nothing else", hint=_HINT)
    tenant, project = entry.get("tenant", ""), entry.get("project", "")
    if not isinstance(tenant, str) or ("tenant" in entry and not tenant):
        raise ConfigError(f"the tenant in {file} is no name", hint=_HINT)
    if project not in ("", "."):
        raise ConfigError(f"the project in {file} can only be '.', the directory it stands for", hint=_HINT)
    return Scope(file, tenant, project == ".")


_HINT = 'such as {"tenant": "work", "project": "."}; name a tenant yourself (--tenant) to leave the file out'
