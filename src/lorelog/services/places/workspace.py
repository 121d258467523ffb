"""The workspace: a project and a tenant, and the paths of the tenant's files.

A project's `.lorelog` folder is ignored by Git, open to its owner only, and never created through a link out of the
project.

The current project is identified by Git repository, by directory, or by a scope file. A project's id is a directory that all worktrees of a repository share and that outlives each linked one: the main worktree,
or the repository itself if it is bare. Memories are filed under it, so removing a worktree loses none.

A scope file, `.lorelog/scope.json` in the current directory or above it, may name a tenant and make its directory a project of
its own. It may come with a cloned repository, so the tenant it names must be allowed in the user's settings. A malformed
scope file is an error and is never ignored: its author wanted memories kept apart, and the default tenant is shared.

The id is a path of one machine. Machines that share one Milvus use the address of the Git remote instead, which all clones
share; a directory name alone ("docs", "app") is ambiguous, so a project without a remote has no shared name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from os import path
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.atomic_file import Writing
from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import ConfigError, StoreUnwritable
from lorelog.core.paths import cache_folder, data_folder, is_below, leads_out, tenant_folder
from lorelog.light.git_location import find_worktree, git_folders, is_repository, read_small_file
from lorelog.services.places.roots import Root

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


FOLDER = ".lorelog"
GITIGNORE_TEXT = (
    "# Conversations with agents are kept here and stay out of the repository. Delete this file to share them.\n*\n"
)


def ignore_folder(folder: str) -> None:
    """Write a `.gitignore` that keeps a folder out of commits, unless there is one."""
    try:  # no look before: another process may create it in between
        path = os.path.join(folder, ".gitignore")
        with open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(GITIGNORE_TEXT)
    except FileExistsError:
        return


def create_project_folder(directory: str) -> str:
    """Create a project's folder with a `.gitignore` if it is missing, and return its path.

    Both appear at once: a folder without that file was left so by the user, who shares it by Git. Outside a repository the file does
    no harm, and the folder stays ignored if it becomes part of one. Raise StoreUnwritable if the folder cannot be created,
    or is a link out of the project.
    """
    folder = os.path.join(directory, FOLDER)
    new = ""
    try:
        if not os.path.lexists(folder):
            from tempfile import mkdtemp

            new = mkdtemp(prefix=f"{FOLDER}.", suffix=".new", dir=directory)
            ignore_folder(new)
            os.rename(new, folder)
    except OSError as error:
        if new:
            from shutil import rmtree

            rmtree(new, ignore_errors=True)
        if not os.path.lexists(folder):  # another process may have created it
            raise StoreUnwritable(
                f"{folder} cannot be created: {error.strerror or error}", hint="make the project writable"
            ) from error
    if not os.path.isdir(folder) or leads_out(folder, directory):
        raise StoreUnwritable(
            f"{folder} is not a directory inside the project",
            hint="replace it with a directory; lorelog does not follow links out of a project",
        )
    return folder


TEAM_RULES = f"{FOLDER}/rules.md"
"""Standing rules of a team, in the project: reviewed and merged like code."""
CURSOR_RULES = ".cursor/rules/lorelog/rules.mdc"
"""The copy of the user's rules for Cursor, in a folder of its own, which Git ignores."""
SHARED_RULES_TEXT = "!.gitignore\n!rules.md\n"
"""Follows the lines that keep a project's folder out of commits, so that its rules, and these lines, can be committed."""
JOURNALS = Path(".lorelog") / "memory"
"""Journals of the default tenant, where other tools that read journals expect them."""
MEMSEARCH_FOLDER = ".memsearch/memory"
"""Folder of a project's journals that memsearch wrote."""
DEFAULT_TENANT = "default"
TENANTS = ".lorelog/tenants"
"""Journals of other tenants in a project; scans from above skip it."""

CODE_DATABASE = "code.db"
"""Symbols of indexed source code, below a tenant's cache folder."""
RECORD_PAGES = "records"
"""Searchable pages of records, below a tenant's cache folder."""


RECEIPT_FOLDER = "forgotten"
"""Receipts of forgotten text, and the plans of interrupted forgets, in a tenant's folder."""
PLAN_SUFFIX = ".plan"
SYNC_COPIES = "sync"
"""Settings of exchanges with other machines, in a tenant's folder; copies of their newest state, in its cache."""


def has_pending_plans(tenant_folder: str) -> bool:
    """Return True if a forget was interrupted. Asked by every operation, so it costs one system call."""
    try:
        names = os.listdir(os.path.join(tenant_folder, RECEIPT_FOLDER))
    except OSError:
        return False
    return any(name.endswith(PLAN_SUFFIX) for name in names)


@lru_cache(maxsize=64)
def _folders(home: Path, tenant: str) -> tuple[Path, Path]:
    """Return the folders of a tenant. Cached, because a search asks twenty times and pathlib is slow."""
    own = tenant_folder(home, tenant)
    return Path(own), Path(cache_folder(own))


class Workspace(Struct, frozen=True):
    """The project that commands run in and the tenant that memories are kept for."""

    project: Project
    home: Path
    tenant: str
    configured_roots: tuple[str, ...] = ()
    claude: Path | None = None
    """Claude Code's own directory; None if its memory files are not indexed automatically."""
    remote_folders: tuple[str, ...] = ()
    """Directories in which remote clients may have new projects indexed."""

    @property
    def tenant_folder(self) -> Path:
        """Folder of the tenant's files that nothing else can rebuild."""
        return _folders(self.home, self.tenant)[0]

    @property
    def cache_folder(self) -> Path:
        """Folder of the tenant's derived files: index, vectors, symbols. Deleting it loses nothing."""
        return _folders(self.home, self.tenant)[1]

    @property
    def journals(self) -> Path:
        """The project's journals, in the main worktree: removing a linked one loses nothing.

        Each tenant has its own folder: tenants that work in the same project must not find each other's memories.
        """
        own = JOURNALS if self.tenant == DEFAULT_TENANT else Path(TENANTS) / self.tenant / "memory"
        return Path(self.project.id) / own

    @property
    def team_rules(self) -> Path:
        """The file of the team's rules; there is none until somebody exports some."""
        return Path(self.project.id) / TEAM_RULES

    @property
    def global_journals(self) -> Path:
        """Journals of memories without a project."""
        return self.tenant_folder / "memory"

    def journal_root(self, *, to_global: bool) -> Root:
        """Return the root for new memories. Raise StoreUnwritable if a link leads out of the project.

        A cloned repository is not trusted: a linked `.lorelog/memory` in it must not choose where we write.
        """
        directory, within = (self.global_journals, self.home) if to_global else (self.journals, Path(self.project.id))
        if leads_out(directory, within):
            raise StoreUnwritable(
                f"{directory} is a link that leads out of {within}", hint="make it a directory, or use --global"
            )
        return Root(os.path.realpath(directory), GLOBAL_PROJECT if to_global else self.project.id)

    def create(self) -> None:
        """Create the home and the tenant's folder, accessible to their owner only."""
        is_new = not os.path.lexists(data_folder(self.home))
        hint = "make its parent writable or point LORELOG_HOME elsewhere"
        with Writing(self.home, "created", hint=hint, names_file=True):
            for folder in (self.home, Path(data_folder(self.home)), self.tenant_folder, self.cache_folder.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_new:  # the user's home directory may be a repository, of dotfiles
                ignore_folder(str(self.home))


_FILES = {
    "memories": ("tombstones.jsonl", "lifecycle.jsonl", "authored.jsonl"),
    "records": ("ledger.jsonl",),
    "sessions": ("captures.db", "captures.db-wal"),
    "deliveries": ("deliveries", "guards.jsonl", "review.jsonl"),
    "costs": ("receipts.jsonl",),
}
_CATALOG = ("catalog.db", "catalog.db-wal")


def read_revision(home: str, tenant_folder: str) -> Mapping[str, str]:
    """Return texts that change when the memories, records, sessions, deliveries, costs or settings of a tenant change.

    Only sizes and times of files are read, so that it can be asked every second. A file that is missing counts, too.
    """
    cache = cache_folder(tenant_folder)
    catalog = [f"{cache}/{name}" for name in _CATALOG]
    paths = {subject: [f"{tenant_folder}/{name}" for name in names] for subject, names in _FILES.items()}
    paths["memories"] += catalog
    paths["settings"] = [f"{home}/config.toml"]
    return {subject: "-".join(_stamps(files)) for subject, files in paths.items()}


def _stamps(files: Iterable[str]) -> Iterable[str]:
    for file in files:
        yield _stamp(file)
        if file.endswith("/deliveries"):  # the last change of any file in it: a session appends to the file it has
            with suppress(OSError), os.scandir(file) as entries:
                yield f"{max((entry.stat().st_mtime_ns for entry in entries), default=0):x}"


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_mtime_ns:x}.{status.st_size:x}"
