"""The workspace: a project and a tenant, and the paths of the tenant's files.

A project's `.lorelog` folder is ignored by Git, open to its owner only, and never created through a link out of the
project.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import StoreUnwritable
from lorelog.core.paths import cache_folder, data_folder, is_below, tenant_folder
from lorelog.services.places.project import Project
from lorelog.services.places.roots import Root

FOLDER = ".lorelog"
GITIGNORE_TEXT = (
    "# Conversations with agents are kept here and stay out of the repository. Delete this file to share them.\n*\n"
)


def ignore_folder(folder: str) -> None:
    """Write a `.gitignore` that keeps a folder out of commits, unless there is one."""
    try:  # no look before: another process may create it in between
        with open(os.path.join(folder, ".gitignore"), "x", encoding="utf-8", opener=_open_private) as file:
            file.write(GITIGNORE_TEXT)
    except FileExistsError:
        return


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


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
    if not os.path.isdir(folder) or not is_below(os.path.realpath(folder), os.path.realpath(directory)):
        raise StoreUnwritable(
            f"{folder} is not a directory inside the project",
            hint="replace it with a directory; lorelog does not follow links out of a project",
        )
    return folder


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
    def global_journals(self) -> Path:
        """Journals of memories without a project."""
        return self.tenant_folder / "memory"

    def journal_root(self, *, to_global: bool) -> Root:
        """Return the root for new memories. Raise StoreUnwritable if a link leads out of the project.

        A cloned repository is not trusted: a linked `.lorelog/memory` in it must not choose where we write.
        """
        directory, within = (self.global_journals, self.home) if to_global else (self.journals, Path(self.project.id))
        real = os.path.realpath(directory)
        if not is_below(real, os.path.realpath(within)):
            raise StoreUnwritable(
                f"{directory} is a link that leads out of {within}", hint="make it a directory, or use --global"
            )
        return Root(real, GLOBAL_PROJECT if to_global else self.project.id)

    def create(self) -> None:
        """Create the home and the tenant's folder, accessible to their owner only."""
        is_new = not os.path.lexists(data_folder(self.home))
        try:
            for folder in (self.home, Path(data_folder(self.home)), self.tenant_folder, self.cache_folder.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_new:  # the user's home directory may be a repository, of dotfiles
                ignore_folder(str(self.home))
        except OSError as error:
            raise StoreUnwritable(
                f"{error.filename or self.home} cannot be created: {error.strerror}",
                hint="make its parent writable or point LORELOG_HOME elsewhere",
            ) from error


_FILES = {
    "memories": ("tombstones.jsonl", "lifecycle.jsonl", "authored.jsonl"),
    "records": ("ledger.jsonl",),
    "sessions": ("captures.db", "captures.db-wal"),
    "deliveries": ("deliveries", "guards.jsonl"),
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


def _stamps(paths: Iterable[str]) -> Iterable[str]:
    for path in paths:
        yield _stamp(path)
        if path.endswith("/deliveries"):
            yield _newest(path)


def _newest(folder: str) -> str:
    """Return the time of the last change of any file in a folder: a session appends to the file it has."""
    with suppress(OSError), os.scandir(folder) as entries:
        return f"{max((entry.stat().st_mtime_ns for entry in entries), default=0):x}"
    return ""


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_mtime_ns:x}.{status.st_size:x}"
