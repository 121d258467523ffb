"""A backup: one gzipped tar file with a manifest that names every file in it and its SHA-256.

It holds what nothing else can rebuild: the journals of all known projects, the data of all tenants, settings and the
records of installed hosts; private keys only if asked for. The cache is left out. Every file is copied in a consistent
state while other processes write: the ledger under its writers' lock, databases in one read transaction, other files
under a shared lock. Databases that say what was captured are copied before the journals, so that a turn is never named
as captured whose text is missing. The backup is written under a temporary name and renamed when it is complete. The home
notes its name first: what a killed process leaves is found, and removed by the next backup or `forget`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sqlite3
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from functools import partial
from glob import escape
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from msgspec import Struct, ValidationError, convert, field, to_builtins
from msgspec.structs import replace

from lorelog.core import VERSION
from lorelog.core.atomic_file import TEMPORARY_SUFFIX, AtomicFile, Writing, open_regular
from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import LorelogError, NotFound, StoreBusy, StoreDamaged, UsageError
from lorelog.core.paths import data_folder, is_below
from lorelog.core.processes import acquire_file_lock
from lorelog.core.serializable import utc_now
from lorelog.core.sqlite_file import connect
from lorelog.services.memory_state.append_log import AppendLog
from lorelog.services.places.roots import Roots
from lorelog.services.places.workspace import Project, Workspace

if TYPE_CHECKING:
    from lorelog.records.ledger import Ledger

FORMAT = "lorelog-backup"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
IDENTITIES = "identities"
_HOME_FILES = ("config.toml",)
_HOME_FOLDERS = (IDENTITIES, "hosts", "backups/hosts", "paused")
_PROJECT_SETTINGS = ".lorelog.toml"
_LEFT_OUT_SUFFIXES = (".lock", ".new", TEMPORARY_SUFFIX, "-wal", "-shm", ".plan")
_LEFT_OUT_NAMES = frozenset({"ledger.import", "traces.spool", "writer.key"})
_MAX_MANIFEST_BYTES = 32_000_000
_BLOCK = 1 << 20
_TRIES = 20
_LOCK_S = 10.0


class BackupFile(Struct, frozen=True):
    name: str
    """Name in the archive."""
    kind: str
    """`home`, `data` (of a tenant), `journal` (of a project) or `settings` (of a project)."""
    path: str
    """Relative to the home, to the tenant's folder, to the journals or to the project."""
    tenant: str = ""
    project: str = ""
    bytes: int = 0
    sha256: str = ""


class BackupManifest(Struct, frozen=True, kw_only=True):
    """What a backup holds, and where it comes from."""

    created_at: str
    home: str
    lorelog: str = VERSION
    format: str = FORMAT
    version: int = FORMAT_VERSION
    with_keys: bool = False
    tenants: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    """Projects whose journals are in it."""
    counts: dict[str, int] = field(default_factory=dict)
    files: tuple[BackupFile, ...] = ()
    problems: tuple[str, ...] = ()
    """Files that could not be read."""


_PlannedFile = tuple[BackupFile, Callable[[], bytes]]
"""A file to copy, and how to read it."""


def _is_private_key(path: Path) -> bool:
    return path.suffix == ".key" and path.parent.name == IDENTITIES


class BackupWriter(Struct):
    """Writes the backup of a home. `projects` are backed up even if no root names them."""

    _home: Path
    with_keys: bool = False
    projects: Sequence[str] = ()
    _problems: list[str] = field(default_factory=list)

    def preview(self) -> BackupManifest:
        """Return what a backup would hold now, without sizes and hashes."""
        return self._manifest(file for file, _ in self._plan())

    def write(self, target: Path) -> BackupManifest:
        """Write a backup. Raise UsageError if the file exists, and StoreUnwritable if it cannot be written."""
        if os.path.lexists(target):
            raise UsageError(f"{target} exists", hint="choose another name: a backup is never overwritten")
        remove_partial_backups(self._home)
        with suppress(LorelogError):  # noted so that `forget` can name it, and what is left of it after a kill
            _backup_log(self._home).append([{"at": utc_now(), "file": os.path.realpath(target)}])
        with (
            Writing(
                target, hint="nothing was written; choose a folder that is writable and has space", names_file=True
            ),
            AtomicFile(target, exclusive=True) as stream,
        ):
            acquire_file_lock(stream.fileno(), 0.0)
            return self._write(stream)

    def _write(self, stream: IO[bytes]) -> BackupManifest:
        files: list[BackupFile] = []
        with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=6) as archive:
            for file, read in self._plan():
                try:
                    content = read()
                except FileNotFoundError:
                    continue  # deleted since it was listed
                except (OSError, sqlite3.Error, LorelogError) as error:
                    self._problems.append(f"{file.name}: {error}")
                    continue
                files.append(replace(file, bytes=len(content), sha256=hashlib.sha256(content).hexdigest()))
                _add_member(archive, file.name, content)
            manifest = self._manifest(files)
            _add_member(archive, MANIFEST, json.dumps(to_builtins(manifest), ensure_ascii=False, indent=1).encode())
        return manifest

    def _manifest(self, files: Iterable[BackupFile]) -> BackupManifest:
        listed = tuple(files)
        return BackupManifest(
            created_at=utc_now(),
            home=str(self._home),
            with_keys=self.with_keys,
            tenants=tuple(sorted({file.tenant for file in listed if file.tenant})),
            projects=tuple(sorted({file.project for file in listed if file.project})),
            counts={
                "files": len(listed),
                "journals": sum(
                    file.kind == "journal" or (file.kind == "data" and file.path.startswith("memory/"))
                    for file in listed
                ),
                "bytes": sum(file.bytes for file in listed),
                "keys_left_out": 0 if self.with_keys else sum(map(_is_private_key, self._listed_home_files())),
            },
            files=listed,
            problems=tuple(self._problems),
        )

    def _plan(self) -> Iterator[_PlannedFile]:
        for path in self._listed_home_files():
            if self.with_keys or not _is_private_key(path):
                yield _plan_file(path, self._home, "home", "home")
        for tenant in list_tenants(self._home):
            folder = Path(data_folder(self._home)) / tenant
            paths = sorted(_files_below(folder))
            databases = [path for path in paths if path.suffix == ".db"]
            for path in databases:
                yield _plan_data_file(path, folder, partial(_copy_database, path))
            yield from self._journals(tenant)
            yield from self._ledger_files(folder)
            for path in paths:
                if path not in databases and not path.name.startswith("ledger"):
                    yield _plan_data_file(path, folder)

    def _listed_home_files(self) -> Iterator[Path]:
        folders = [path for name in _HOME_FOLDERS for path in sorted(_files_below(self._home / name))]
        yield from (path for path in (*(self._home / name for name in _HOME_FILES), *folders) if path.is_file())

    def _journals(self, tenant: str) -> Iterator[_PlannedFile]:
        for project in self._projects(tenant):
            prefix = f"projects/{hashlib.sha256(project.encode()).hexdigest()[:12]}/{tenant}"
            folder = project_workspace(self._home, tenant, project).journals
            if is_below(os.path.realpath(folder), os.path.realpath(project)):
                for path in sorted(_files_below(folder)):
                    if path.suffix == ".md":
                        yield _plan_file(path, folder, prefix, "journal", tenant=tenant, project=project)
            settings = Path(project) / _PROJECT_SETTINGS
            if settings.is_file() and not settings.is_symlink():
                file, read = _plan_file(settings, Path(project), "", "settings", tenant=tenant, project=project)
                yield replace(file, name=prefix + _PROJECT_SETTINGS), read

    def _projects(self, tenant: str) -> list[str]:
        projects = set(self.projects)
        for name in ("roots.json", "code_roots.json"):
            roots = Roots(Path(data_folder(self._home)) / tenant / name)
            try:
                projects |= {root.project for root in roots.all()}
                if damage := roots.damage():
                    self._problems.append(f"projects of the tenant {tenant}: {damage}")
            except LorelogError as error:
                self._problems.append(f"projects of the tenant {tenant}: {error.message}")
        return sorted(projects - {GLOBAL_PROJECT})

    def _ledger_files(self, folder: Path) -> Iterator[_PlannedFile]:
        """Copy all segments and the last acknowledged line at one moment; sealed segments do not change any more."""
        if not (folder / "ledger.jsonl").exists() and not list(folder.glob("ledger-*.jsonl")):
            return
        with open_ledger(folder).exclusive():
            names = [path.name for path in folder.glob("ledger-*.jsonl")] + ["ledger.jsonl", "ledger.torn"]
            changing = {
                name: (folder / name).read_bytes()
                for name in ("ledger.jsonl", "ledger.torn", "ledger.lock")
                if (folder / name).exists()
            }
        for path in (folder / name for name in sorted(names)):
            if path.exists():
                content = changing.get(path.name)
                yield _plan_data_file(path, folder, None if content is None else partial(bytes, content))
        head = changing.get("ledger.lock", b"")
        yield _plan_data_file(folder / "ledger.head", folder, partial(bytes, head))


def _plan_file(
    path: Path, folder: Path, prefix: str, kind: str, *, tenant: str = "", project: str = ""
) -> _PlannedFile:
    relative = str(path.relative_to(folder))
    return BackupFile(f"{prefix}/{relative}", kind, relative, tenant, project), partial(read_consistently, path)


def _plan_data_file(path: Path, folder: Path, read: Callable[[], bytes] | None = None) -> _PlannedFile:
    file, usual = _plan_file(path, folder, f"data/{folder.name}", "data", tenant=folder.name)
    return file, read or usual


def project_workspace(home: Path, tenant: str, project: str) -> Workspace:
    return Workspace(Project(project, project, Path(project).name, git=False), home, tenant)


def open_ledger(folder: Path) -> Ledger:
    from lorelog.records.ledger import Ledger  # a search loads this module for its types

    return Ledger(folder)


def list_tenants(home: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(data_folder(home)) if entry.is_dir())
    except OSError:
        return []


def read_backup(file: Path, extract_to: Path | None = None) -> BackupManifest:
    """Check every file of a backup against the manifest, and return it; extract the files if a folder is given.

    Raise NotFound, UsageError for a file that is no backup, and StoreDamaged if it is incomplete or was changed.
    """
    digests: dict[str, str] = {}
    manifest = b""
    try:
        with tarfile.open(file, mode="r|gz") as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isreg() else None
                if stream is None or member.name in digests or not _is_safe_name(member.name):
                    raise _not_a_backup(file, f"the entry {member.name!r}")
                if member.name == MANIFEST:
                    manifest = stream.read(_MAX_MANIFEST_BYTES)
                else:
                    digests[member.name] = _extract(stream, extract_to / member.name if extract_to else None)
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}", hint="'lorelog backup FILE' writes one") from None
    except (tarfile.TarError, EOFError, zlib.error) as error:
        if not digests:
            raise _not_a_backup(file, str(error)) from error
        raise StoreDamaged(f"{file} is damaged: {error}", hint="use another copy of the backup") from error
    except OSError as error:
        if not digests and error.errno is None:  # gzip: not a gzipped file
            raise _not_a_backup(file, str(error)) from error
        raise StoreDamaged(f"{file} cannot be read: {error}", hint="use another copy of the backup") from error
    return _check_manifest(file, manifest, digests)


def _check_manifest(file: Path, content: bytes, digests: dict[str, str]) -> BackupManifest:
    try:
        values = json.loads(content)
        if values["format"] != FORMAT:
            raise _not_a_backup(file, "its manifest")
        if values["version"] > FORMAT_VERSION:
            raise UsageError(
                f"{file} was written by a newer version ({values['lorelog']})", hint="update lorelog, then restore it"
            )
        manifest = convert(values, BackupManifest)
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise _not_a_backup(file, "no readable manifest: it is incomplete, or another program's") from error
    expected = {entry.name: entry.sha256 for entry in manifest.files}
    wrong = sorted(name for name in expected.keys() | digests.keys() if expected.get(name) != digests.get(name))
    if wrong:
        raise StoreDamaged(
            f"{file} is damaged: {wrong[0]} differs from the manifest ({len(wrong)} of {len(expected)} files)",
            hint="use another copy of the backup",
        )
    for entry in manifest.files:
        if not _is_safe_name(f"x/{entry.path}") or not _is_safe_name(f"x{entry.tenant and '/' + entry.tenant}"):
            raise _not_a_backup(file, "a path in its manifest")
    return manifest


def _not_a_backup(file: Path, what: str) -> UsageError:
    return UsageError(f"{file} is not a lorelog backup ({what})", hint="'lorelog backup FILE' writes one")


def _is_safe_name(name: str) -> bool:
    return not name.startswith("/") and "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def _extract(stream: IO[bytes], target: Path | None) -> str:
    """Return the SHA-256 of a file, and write it if a target is given."""
    digest = hashlib.sha256()
    if target is not None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with nullcontext() if target is None else target.open("xb") as output:
        while block := stream.read(_BLOCK):
            digest.update(block)
            if output is not None:
                output.write(block)
    return digest.hexdigest()


def _add_member(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o600
    archive.addfile(member, io.BytesIO(content))


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the regular files below a folder that belong into a backup; links are not followed."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in names:
            path = Path(parent, name)
            is_left_out = name.endswith(_LEFT_OUT_SUFFIXES) or name in _LEFT_OUT_NAMES
            if not is_left_out and not path.is_symlink() and path.is_file():
                yield path


def read_consistently(path: Path) -> bytes:
    """Return the content of a file at one moment, although others append to it or replace it."""
    for _ in range(_TRIES):
        descriptor = open_regular(path)
        with os.fdopen(descriptor, "rb") as stream:
            if not acquire_file_lock(descriptor, _LOCK_S, shared=True):  # a writer holds it
                raise StoreBusy(f"{path} is locked by another process", hint="try again in a moment")
            before = os.fstat(descriptor)
            content = stream.read()
            after = os.fstat(descriptor)
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns) and len(content) == after.st_size:
            return content
    raise StoreBusy(f"{path} keeps changing", hint="close the program that writes it, and try again")


def _copy_database(path: Path) -> bytes:
    """Return a consistent copy of an SQLite database as one file, while others write to it."""
    with closing(connect(path, "mode=ro", _LOCK_S)) as source:
        return source.serialize()  # all pages in one read transaction, those of the write-ahead log included


def written_backups(home: Path) -> dict[str, str]:
    """Return the backups that were written from this home and still exist, each with its time."""
    written = {str(line.get("file")): str(line.get("at")) for line in _backup_log(home).lines()}
    return {file: at for file, at in written.items() if Path(file).is_file()}


def remove_partial_backups(home: Path) -> list[str]:
    """Delete what killed processes left of backups of this home; return the paths."""
    removed = []
    for target in {Path(str(line.get("file"))) for line in _backup_log(home).lines()}:
        for path in target.parent.glob(f".{escape(target.name)}.*{TEMPORARY_SUFFIX}"):
            with suppress(OSError), path.open("rb") as file:
                # Its writer holds the lock from the first byte on.
                if path.lstat().st_size and acquire_file_lock(file.fileno(), 0.0):
                    path.unlink()
                    removed.append(str(path))
    return sorted(removed)


def _backup_log(home: Path) -> AppendLog[dict[str, Any]]:
    return AppendLog(home / "backups" / "written.jsonl", dict, is_optional=True)
