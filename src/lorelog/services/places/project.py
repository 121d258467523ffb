"""Identify the current project: by Git repository, by directory, or by a scope file; and its name across machines.

A project's id is a directory that all worktrees of a repository share and that outlives each linked one: the main worktree,
or the repository itself if it is bare. Memories are filed under it, so removing a worktree loses none.

A scope file, `.lorelog/scope.json` in the current directory or above it, may name a tenant and make its directory a project of
its own. It may come with a cloned repository, so the tenant it names must be allowed in the user's settings. A malformed
scope file is an error and is never ignored: its author wanted memories kept apart, and the default tenant is shared.

The id is a path of one machine. Machines that share one Milvus use the address of the Git remote instead, which all clones
share; a directory name alone ("docs", "app") is ambiguous, so a project without a remote has no shared name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import path

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import ConfigError
from lorelog.core.paths import is_below
from lorelog.light.git_location import find_worktree, git_folders, is_repository, read_small_file

# `os.path` instead of pathlib: for odd paths it returns False, where pathlib raises.


class Project(Struct, frozen=True):
    """A project and the working tree used to reach it."""

    id: str
    """Real path that identifies the project, the same from every worktree. Its journals are kept there."""
    root: str
    """Real path of the current working tree: a linked worktree, the main one, or the directory itself."""
    name: str
    git: bool


def find_project(start: str) -> Project:
    """Return the project of a file or directory. Never fails: without Git it is the directory itself."""
    identity, root, git = find_worktree(start)
    name = path.basename(identity)
    if name.startswith(".") and is_repository(identity):  # proj/.bare
        name = path.basename(path.dirname(identity))
    return Project(identity, root, name.removesuffix(".git") or identity, git=git)


def visible_projects(current: Project, registered: Iterable[str]) -> tuple[str, ...]:
    """Return the projects whose memories are visible from `current`: itself and the global ones first.

    A directory without Git has no natural boundary, so registered projects above and below it are visible too: notes indexed
    in `~/notes` are found from `~/notes/2026` and from `~`.
    """
    seen = [current.id, GLOBAL_PROJECT]
    if not current.git:
        others = {other for other in registered if other}
        seen += sorted(other for other in others if is_below(current.id, other) or is_below(other, current.id))
    return tuple(dict.fromkeys(seen))


SCOPE_FILE = path.join(".lorelog", "scope.json")
_MAX_SCOPE_FILE_BYTES = 65_536
_MAX_LEVELS = 64


class ScopeFile(Struct, frozen=True):
    """Content and location of a scope file."""

    file: str
    tenant: str = ""
    """Empty if the file names none."""
    project: bool = False
    """Whether its directory is a project of its own."""

    @property
    def directory(self) -> str:
        """The directory it applies to."""
        return path.dirname(path.dirname(self.file))


def find_scope_file(start: str) -> ScopeFile | None:
    """Return the nearest scope file upward, below the user's home directory."""
    directory, home = path.realpath(start), path.realpath(path.expanduser("~"))
    for _ in range(_MAX_LEVELS):
        if directory == home:
            return None
        file = path.join(directory, SCOPE_FILE)
        if path.lexists(file):
            return _read_scope_file(file)
        parent = path.dirname(directory)
        if parent == directory:
            return None
        directory = parent
    return None


def apply_scope_file(scope: ScopeFile, project: Project) -> Project:
    """Return the project that results when the scope file is applied to `project`."""
    if not scope.project or scope.directory == project.id:
        return project
    own = find_project(scope.directory)
    return replace(own, id=scope.directory, root=scope.directory, name=path.basename(scope.directory))


def _read_scope_file(file: str) -> ScopeFile:
    if not path.isfile(file) or path.islink(file):  # a pipe would block, a link would apply to another directory
        raise ConfigError(f"{file} is not a regular file", hint="replace it with a regular file, or remove it")
    try:
        with open(file, "rb") as opened:
            entry = json.loads(opened.read(_MAX_SCOPE_FILE_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", hint=_SCOPE_FILE_HINT) from None
    if not isinstance(entry, dict) or set(entry) - {"tenant", "project"}:
        raise ConfigError(f"{file} may contain only tenant and project", hint=_SCOPE_FILE_HINT)
    tenant, project = entry.get("tenant", ""), entry.get("project", "")
    if not isinstance(tenant, str) or ("tenant" in entry and not tenant):
        raise ConfigError(f"the tenant in {file} is not a name", hint=_SCOPE_FILE_HINT)
    if project not in ("", "."):
        raise ConfigError(
            f"the project in {file} must be '.' (the directory that contains .lorelog)", hint=_SCOPE_FILE_HINT
        )
    return ScopeFile(file, tenant, project == ".")


_SCOPE_FILE_HINT = 'write for example {"tenant": "work", "project": "."}; with --tenant the file is ignored'


GLOBAL_NAME = "global"
"""Shared name of memories without a project: they are visible from every project and every machine."""

_MAX_SHARED_NAME_CHARS = 1000


def shared_name(project: str) -> str:
    """Return a project's name across machines; empty if it has no Git remote.

    Not cached: a remote may be added or moved.
    """
    if project == GLOBAL_PROJECT:
        return GLOBAL_NAME
    _, root, git = find_worktree(project)
    if not git:
        return ""
    address = _normalize_remote_url(_remote_url(read_small_file(path.join(git_folders(root)[1], "config"))))
    if not address:
        return ""
    # A scope file may make a subdirectory of a repository a project.
    inside = path.relpath(path.realpath(project), root)
    below = "" if inside == "." or inside.startswith("..") else f"//{inside}"
    name = f"git:{address}{below}"
    return name if len(name) <= _MAX_SHARED_NAME_CHARS and name.isprintable() else ""


def _remote_url(config: str) -> str:
    """Return the address of `origin`, or of the only remote."""
    urls: dict[str, str] = {}
    section = ""
    for line in map(str.strip, config.splitlines()):
        key, equals, value = line.partition("=")
        if line.startswith("["):
            kind, _, name = line.strip("[]").partition('"')
            section = name.partition('"')[0] if kind.strip().lower() == "remote" else ""
        elif section and equals and key.strip().lower() == "url" and value.strip(' "'):
            urls.setdefault(section, value.strip(' "').split()[0])
    if "origin" in urls:
        return urls["origin"]
    return next(iter(urls.values())) if len(urls) == 1 else ""


def _normalize_remote_url(url: str) -> str:
    """Return host and path of a remote without user, password, port and `.git`; empty for a local path.

    Clones that use SSH and HTTPS get the same name.
    """
    if "://" in url:
        from urllib.parse import urlsplit

        try:
            address = urlsplit(url)
            host, remote_path = address.hostname or "", address.path
        except ValueError:
            return ""
    else:
        before, _, remote_path = url.partition(":")  # user@host:path
        host = before.rpartition("@")[2].lower() if "/" not in before else ""
        host = host if len(host) > 1 else ""  # a drive has one letter
    remote_path = remote_path.strip("/").removesuffix(".git").strip("/")
    return f"{host}/{remote_path}" if host and remote_path and not url.lower().startswith("file:") else ""
