"""Restore a backup into an empty home or an existing one, and undo it.

The whole backup is checked before anything is changed. Each file is written completely or not at all, and the file that
it replaces is copied first, to `backups/restore-…` in the home, with a list of changes for `undo`. Merging a file twice
changes nothing, so a restore that was killed is completed by running it again.

Files of a backup are merged into those that are here: nothing twice, nothing lost, and what is here wins. Unlike a sync, which knows the
state that both sides began with (`sync/merge.py`), a restore knows only two.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.atomic_file import OpenDescriptor, Writing, append_line, open_regular, write_atomic
from lorelog.core.errors import LorelogError, NotFound, StoreBusy
from lorelog.core.options import ChunkOptions
from lorelog.core.paths import is_below, tenant_folder
from lorelog.core.processes import FileLock, acquire_file_lock
from lorelog.core.serializable import Serializable
from lorelog.core.sqlite_file import connect, transaction
from lorelog.ingest.markdown import chunk_markdown
from lorelog.records.chain import Segments
from lorelog.services.backup import archive
from lorelog.services.memories.journal import JournalPart, entry_digest, read_bytes, split_journal
from lorelog.services.memory_state.append_log import AppendLog
from lorelog.services.memory_state.authored import AUTHORED_FILE
from lorelog.services.memory_state.tombstones import Tombstones, deletion_keys
from lorelog.services.places.roots import Roots

UNDO_FOLDER = "backups"
_UNDO_PREFIX = "restore-"
_CHANGES = "changes.jsonl"
_LOCK_S = 10.0


class ForgottenMemories(Struct, frozen=True):
    """What was erased permanently here: deletion keys, and ids of memories and chunks."""

    keys: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()

    @classmethod
    def of_tenant(cls, folder: Path) -> ForgottenMemories:
        """Read the tombstones of a tenant. A deleted memory is only hidden; its text may come back, still hidden."""
        stones = [stone for stone in Tombstones(folder / "tombstones.jsonl").all() if stone.forgotten]
        names = {name for stone in stones for name in (stone.memory, *stone.ids) if name}
        return cls(frozenset(stone.key for stone in stones), frozenset(names))


class MergedText(Struct, frozen=True):
    """The merged content of a file, and what was done."""

    content: bytes
    added: int = 0
    forgotten: int = 0
    """Entries that are left out because they were forgotten here."""
    different: tuple[str, ...] = ()
    """Memories whose text here is another; it is kept."""


def read_entries(text: str) -> list[JournalPart]:
    return [part for part in split_journal(text) if part.is_entry]


def merge_journal(
    here: bytes | None,
    backup: bytes,
    *,
    source: str,
    projects: Collection[str],
    present: Collection[str],
    forgotten: ForgottenMemories,
) -> MergedText:
    """Append the entries of a backup that are missing here. `present` are ids and digests of entries of this folder.

    `projects` are the names of the project, which the deletion keys of sections without an id depend on.
    """
    text = backup.decode("utf-8", "replace")
    sections = read_entries(text)
    gone = forgotten_lines(text, source, projects, forgotten) if forgotten.keys else set()
    wanted = [
        section
        for section in sections
        if section.memory not in forgotten.ids and not gone & set(range(section.first_line, section.last_line + 1))
    ]
    skipped = len(sections) - len(wanted)
    digests = {section.key: entry_digest(section.text) for section in wanted}
    own = {
        section.key: entry_digest(section.text) for section in read_entries((here or b"").decode("utf-8", "replace"))
    }
    known = {*present, *own, *own.values()}
    fresh = [section for section in wanted if not {section.key, digests[section.key]} & known]
    different = tuple(key for key, digest in digests.items() if own.get(key, digest) != digest)
    if here is None and not skipped and len(fresh) == len(sections):
        return MergedText(backup, len(fresh))
    if not fresh:
        return MergedText(here if here is not None else b"", 0, skipped, different)
    title = text.lstrip().partition("\n")[0]
    before = here if here is not None else (f"{title}\n" if title.startswith("# ") else "").encode()
    parts = b"\n\n".join(section.text.strip("\n").encode("utf-8", "replace") for section in fresh)
    separator = b"\n\n" if before.strip() else b""
    return MergedText(before.rstrip(b"\n") + separator + parts + b"\n", len(fresh), skipped, different)


def forgotten_lines(text: str, source: str, projects: Collection[str], forgotten: ForgottenMemories) -> set[int]:
    """Return the lines of sections that were forgotten here."""
    chunks = chunk_markdown(text, source, ChunkOptions()).chunks
    return {
        line
        for project in projects
        for chunk, key in zip(chunks, deletion_keys(chunks, project), strict=True)
        if key in forgotten.keys
        for line in range(chunk.start_line, chunk.end_line + 1)
    }


def merge_lines(here: bytes | None, backup: bytes, forgotten: ForgottenMemories) -> MergedText:
    """Put the lines of a backup that are missing here before those that are here: the last line about a thing counts."""
    own = (here or b"").splitlines(keepends=True)
    known = {line.rstrip(b"\n") for line in own}
    lines = [line.rstrip(b"\n") for line in backup.splitlines() if line.strip()]
    missing = [line for line in dict.fromkeys(lines) if line not in known]
    fresh = [line for line in missing if not any(name.encode() in line for name in forgotten.ids)]
    content = b"".join(line + b"\n" for line in fresh) + b"".join(own)
    return MergedText(content, len(fresh), len(missing) - len(fresh))


class RestoredFile(Serializable, Struct, frozen=True, kw_only=True):
    """What was done with one file of the backup."""

    path: str
    action: str
    """`created`, `merged`, `unchanged`, `kept` (the one here is another and stays), `skipped` or `failed`."""
    added: int = 0
    """Entries, lines or records that were added."""
    forgotten: int = 0
    """Entries that stay out because they were forgotten here."""
    different: tuple[str, ...] = ()
    """Memories whose text here is another; it is kept."""
    reason: str = ""


class RestoreReport(Serializable, Struct, frozen=True, kw_only=True):
    """What a restore did, or would do."""

    created_at: str
    dry_run: bool
    undo: str = ""
    """Folder with the copies of changed files; empty if nothing was changed."""
    files: tuple[RestoredFile, ...] = ()
    notes: tuple[str, ...] = ()

    def count(self, *actions: str) -> int:
        """Return the number of files with one of these actions."""
        return sum(file.action in actions for file in self.files)


class Restorer(Struct):
    """Restores one backup. `projects` maps projects of the backup to where they are now."""

    home: Path
    projects: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    patterns: tuple[str, ...] = ()
    """Regular expressions of additional text to redact from records that are imported."""
    _undo: _UndoLog | None = None
    """None for a dry run, which changes nothing."""
    _notes: list[str] = field(default_factory=list)
    _former_home: str = ""

    def run(self, file: Path) -> RestoreReport:
        """Restore a backup. Raise an error of `read_backup`, or StoreUnwritable; run it again after that."""
        with Writing(
            self.home,
            hint="files restored so far are complete; free some space or make it writable, and restore again",
            names_file=True,
        ):
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _restore_lock(self.home):
                for left in (self.home / "run").glob("restore-*"):
                    shutil.rmtree(left, ignore_errors=True)  # of a restore that was killed
                with TemporaryDirectory(prefix="restore-", dir=self.home / "run") as staged:
                    return self._restore(file, Path(staged))

    def _restore(self, file: Path, staged: Path) -> RestoreReport:
        manifest = archive.read_backup(file, staged)
        self._former_home = manifest.home
        if not self.dry_run:
            self._undo = _UndoLog(self.home, manifest)
        # Journals first, so that nothing names a memory that is not there yet; before them, the registry of whose they are.
        files = [file for file in manifest.files if not (file.kind == "data" and file.path.startswith("ledger"))]
        files.sort(key=lambda file: (file.path != AUTHORED_FILE, file.kind != "journal", file.name))
        done = [self._restore_file(entry, staged / entry.name) for entry in files]
        for tenant in manifest.tenants:
            done += self._restore_ledger(staged / "data" / tenant, Path(tenant_folder(self.home, tenant)))
        if any(result.action in {"created", "merged"} for result in done) and not self.dry_run:
            self._notes.append("'lorelog index' in each project, or the daemon, makes the restored memories searchable")
        undo = str(self._undo.finish()) if self._undo is not None and self._undo.changes else ""
        return RestoreReport(
            created_at=manifest.created_at, dry_run=self.dry_run, undo=undo, files=tuple(done), notes=tuple(self._notes)
        )

    def _restore_file(self, entry: archive.BackupFile, staged: Path) -> RestoredFile:
        try:
            if entry.kind in {"journal", "settings"}:
                return self._restore_project_file(entry, staged)
            if entry.kind == "home":
                return self._create(self.home / entry.path, staged)
            return self._restore_data_file(entry, staged)
        except LorelogError as error:
            return RestoredFile(path=entry.path, action="failed", reason=error.message)

    def _restore_data_file(self, entry: archive.BackupFile, staged: Path) -> RestoredFile:
        folder = Path(tenant_folder(self.home, entry.tenant))
        target = folder / entry.path
        forgotten = ForgottenMemories.of_tenant(folder)
        if entry.path.startswith("memory/") and target.suffix == ".md":
            return self._merge_journal(target, staged, folder / "memory", ("",), forgotten)
        if entry.path in {"roots.json", "code_roots.json"}:
            return self._merge_roots(target, staged)
        if target.suffix == ".jsonl":
            return self._merge(target, lambda here: merge_lines(here, staged.read_bytes(), forgotten))
        if entry.path == "captures.db" and target.exists():
            return self._merge_captures(target, staged)
        return self._create(target, staged)

    def _restore_project_file(self, entry: archive.BackupFile, staged: Path) -> RestoredFile:
        project = self.projects.get(entry.project, entry.project)
        if not Path(project).is_dir():
            hint = f"there is no directory {project}: use --project-map {entry.project}=DIR, or restore again once it exists"
            return RestoredFile(path=f"{project}/{entry.path}", action="skipped", reason=hint)
        if entry.kind == "settings":
            return self._create(Path(project) / entry.path, staged)
        folder = archive.project_workspace(self.home, entry.tenant, os.path.realpath(project)).journals
        if not is_below(os.path.realpath(folder / entry.path), os.path.realpath(project)):
            return RestoredFile(path=str(folder), action="skipped", reason="it is a link that leads out of the project")
        forgotten = ForgottenMemories.of_tenant(Path(tenant_folder(self.home, entry.tenant)))
        names = tuple(dict.fromkeys((entry.project, os.path.realpath(project))))
        return self._merge_journal(folder / entry.path, staged, folder, names, forgotten)

    def _merge_journal(
        self, target: Path, staged: Path, folder: Path, projects: tuple[str, ...], forgotten: ForgottenMemories
    ) -> RestoredFile:
        present: set[str] = set()
        for path in sorted(folder.rglob("*.md")):
            if path != target and path.is_file() and not path.is_symlink():
                present.update(
                    part.key for part in read_entries(archive.read_consistently(path).decode("utf-8", "replace"))
                )
        backup = staged.read_bytes()
        return self._merge(
            target,
            lambda here: merge_journal(
                here, backup, source=str(target), projects=projects, present=present, forgotten=forgotten
            ),
        )

    def _create(self, target: Path, staged: Path) -> RestoredFile:
        """Write a file that does not exist here; one that does is kept."""
        if not os.path.lexists(target):
            return self._merge(target, lambda _: MergedText(staged.read_bytes(), 1))
        if target.is_file() and not target.is_symlink() and target.read_bytes() == staged.read_bytes():
            return RestoredFile(path=str(target), action="unchanged")
        return RestoredFile(
            path=str(target), action="kept", reason="the file here differs from the backup's, and stays"
        )

    def _merge(self, target: Path, merge: Callable[[bytes | None], MergedText]) -> RestoredFile:
        """Replace a file by its merged content, while others are kept from appending to it."""
        with open_locked(target) as here:
            merged = merge(here)
            unchanged = merged.content == (here or b"")
            if not unchanged and self._undo is not None:
                self._undo.record(target, here, merged.content)
                write_whole_file(target, merged.content, replaces=here is not None)
        action = "unchanged" if unchanged else "created" if here is None else "merged"
        done = RestoredFile(path=str(target), action=action, added=merged.added)
        return replace(done, forgotten=merged.forgotten, different=merged.different)

    def _merge_roots(self, target: Path, staged: Path) -> RestoredFile:
        known = {root.path for root in Roots(target).all()}
        fresh = []
        for root in Roots(staged).all():
            project = self.projects.get(root.project, root.project)
            moves = ((self._former_home, str(self.home)), (root.project, project))
            paths = (new + root.path[len(old) :] for old, new in moves if old and is_below(root.path, old))
            path = next(paths, root.path)
            if path not in known and Path(path).exists():
                fresh.append(replace(root, path=path, project=project))
        if fresh and self._undo is not None:
            self._undo.record(target, target.read_bytes() if target.exists() else None, None)
            Roots(target).remember(fresh)
        action = "unchanged" if not fresh else "merged" if target.exists() and known else "created"
        return RestoredFile(path=str(target), action=action, added=len(fresh))

    def _merge_captures(self, target: Path, staged: Path) -> RestoredFile:
        """Add the rows of a database of captures that are missing, in one transaction."""
        if self._undo is None:
            return RestoredFile(path=str(target), action="merged", reason="rows that are missing would be added")
        with closing(connect(target)) as database:
            database.execute("ATTACH ? AS other", (str(staged),))
            before = database.total_changes
            with transaction(database):
                shared = "SELECT name FROM main.sqlite_master JOIN other.sqlite_master USING (type, name) WHERE type = 'table'"
                for (table,) in database.execute(shared).fetchall():
                    if table.isidentifier():
                        database.execute(f'INSERT OR IGNORE INTO main."{table}" SELECT * FROM other."{table}"')  # noqa: S608
            added = database.total_changes - before
        return RestoredFile(path=str(target), action="merged" if added else "unchanged", added=added)

    def _restore_ledger(self, staged: Path, folder: Path) -> list[RestoredFile]:
        if not staged.is_dir() or not list(staged.glob("ledger*.jsonl")):
            return []
        check = archive.open_ledger(staged).verify()
        if check.faults:
            self._notes.append(
                f"the ledger of the backup has {len(check.faults)} altered lines; 'lorelog ledger check' lists them"
            )
        path = str(folder / "ledger.jsonl")
        relation = _compare_ledgers(Segments(folder), Segments(staged))
        if relation in {"same", "longer"}:
            return [RestoredFile(path=path, action="unchanged")]
        if relation == "diverged":
            return [self._import_records(staged, folder)]
        projects = [record.project for record in archive.open_ledger(staged).read()]
        moved = sorted({project for project in projects if project in self.projects})
        if moved:
            self._notes.append(f"records keep their project {', '.join(moved)}: 'search --all-projects' finds them")
        had = sum(1 for _ in archive.open_ledger(folder).read()) if folder.is_dir() else 0
        if self._undo is not None:
            self._extend_ledger(staged, folder)
        return [RestoredFile(path=path, action="merged" if had else "created", added=len(projects) - had)]

    def _extend_ledger(self, staged: Path, folder: Path) -> None:
        """Replace a ledger by one that begins with it, segment by segment: after each step it is an unbroken chain."""
        backup, here = Segments(staged), Segments(folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with archive.open_ledger(folder).exclusive() as lock:
            sealed = backup.sealed()
            for number in (*sealed, backup.last_sealed() + 1):
                if number in here.sealed():
                    continue
                source = backup.sealed_path(number) if number in sealed else backup.open_path
                content = source.read_bytes() if source.exists() else b""
                previous = here.open_path.read_bytes() if here.open_path.exists() else None
                if self._undo is not None:
                    self._undo.record(here.open_path, previous, content)
                write_whole_file(here.open_path, content, replaces=previous is not None)
                if number in sealed:
                    here.seal(number)
            head = staged / "ledger.head"
            if head.exists() and os.fstat(lock).st_size == 0:
                os.pwrite(lock, head.read_bytes(), 0)

    def _import_records(self, staged: Path, folder: Path) -> RestoredFile:
        """Append the records that are missing here: two ledgers with different lines cannot become one chain."""
        from lorelog.services.records.exports import write_jsonl
        from lorelog.services.records.record_importer import ImportOptions, import_lines

        ledger = folder / "ledger.jsonl"
        before = ledger.read_bytes() if ledger.exists() else None
        options = ImportOptions(restore=True, dry_run=self.dry_run, patterns=self.patterns)
        report = import_lines(
            folder, self.home, lambda: map(str.encode, write_jsonl(archive.open_ledger(staged).read())), options
        )
        if report.written and self._undo is not None:
            self._undo.record(ledger, before, ledger.read_bytes())
        different = tuple(problem.id for problem in report.problems if problem.id)
        if not report.written:
            return RestoredFile(path=str(ledger), action="unchanged", different=different)
        reason = "the ledger here has other records: missing ones are appended as an import"
        return RestoredFile(path=str(ledger), action="merged", added=report.written, different=different, reason=reason)


class _UndoLog:
    """Copies of changed files, and the list of changes, in a folder of the home."""

    def __init__(self, home: Path, manifest: archive.BackupManifest) -> None:
        digest = hashlib.sha256(repr([file.sha256 for file in manifest.files]).encode()).hexdigest()[:8]
        folder = home / UNDO_FOLDER / f"{_UNDO_PREFIX}{digest}"
        number = 1
        while (folder / "complete").exists():  # an earlier restore of the same backup
            number += 1
            folder = folder.with_name(f"{_UNDO_PREFIX}{digest}-{number}")
        self.folder = folder
        self.changes = len(_changes(folder).lines())

    def record(self, path: Path, previous: bytes | None, content: bytes | None) -> None:
        """Keep the previous content of a file that is about to be changed. `content` is None if it is not known yet."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = ""
        if previous is not None:
            name = f"{self.changes:06d}"
            write_whole_file(self.folder / name, previous, replaces=True)
        after = "" if content is None else hashlib.sha256(content).hexdigest()
        line = json.dumps({"path": str(path), "previous": name, "after": after})
        append_line(self.folder / _CHANGES, line.encode(), durable=True)
        self.changes += 1

    def finish(self) -> Path:
        """Mark the restore as complete, and return the folder."""
        (self.folder / "complete").touch(0o600)
        return self.folder


def undo_restore(home: Path) -> RestoreReport:
    """Put back the files that the last restore changed; undone again, those of the one before.

    A file that was changed since is kept. Raise NotFound if there is no restore to undo.
    """
    folders = [path for path in (home / UNDO_FOLDER).glob(f"{_UNDO_PREFIX}*") if _changes(path).lines()]
    if not folders:
        raise NotFound("there is no restore to undo", hint=f"restores that can be undone are in {home / UNDO_FOLDER}")
    folder = max(folders, key=lambda path: (path / _CHANGES).stat().st_mtime_ns)
    with _restore_lock(home):
        done = [_undo_change(folder, change) for change in reversed(_changes(folder).lines())]
        (folder / _CHANGES).replace(folder / "undone.jsonl")
    return RestoreReport(created_at="", dry_run=False, undo=str(folder), files=tuple(done))


def _undo_change(folder: Path, change: Mapping[str, str]) -> RestoredFile:
    path = Path(change["path"])
    is_ledger = path.name == "ledger.jsonl"
    with (
        archive.open_ledger(path.parent).exclusive() if is_ledger else nullcontext() as lock,
        open_locked(path) as here,
    ):
        if here is None and change["previous"]:
            return RestoredFile(path=str(path), action="kept", reason="it was deleted since")
        if change["after"] and here is not None and hashlib.sha256(here).hexdigest() != change["after"]:
            return RestoredFile(path=str(path), action="kept", reason="it was changed since the restore")
        if change["previous"]:
            write_whole_file(path, (folder / change["previous"]).read_bytes(), replaces=True)
        elif here is not None:
            path.unlink()
        if lock is not None:
            os.ftruncate(lock, 0)  # the last acknowledged line is one that was restored
    return RestoredFile(path=str(path), action="merged", reason="as before the restore")


def _changes(folder: Path) -> AppendLog[dict[str, str]]:
    """Return the list of changes of a restore; a torn last line is of a change that was not made."""
    return AppendLog(folder / _CHANGES, dict, is_optional=True)


def write_whole_file(path: Path, content: bytes, *, replaces: bool) -> None:
    """Write a file and its folder. Without `replaces`, raise FileExistsError for a file that has appeared meanwhile."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(path, content, keep_mode=replaces, exclusive=not replaces)


@contextmanager
def open_locked(path: Path) -> Iterator[bytes | None]:
    """Yield the content of a file, or None if there is none, and keep others from appending to it."""
    while True:
        try:
            descriptor = open_regular(path)
        except FileNotFoundError:
            yield None
            return
        with OpenDescriptor(descriptor):
            if not acquire_file_lock(descriptor, _LOCK_S):
                raise StoreBusy(f"{path} is locked by another process", hint="try again in a moment")
            if os.fstat(descriptor).st_nlink:  # else it was replaced while we waited
                yield read_bytes(descriptor)
                return


def _restore_lock(home: Path) -> FileLock:
    (home / "run").mkdir(mode=0o700, parents=True, exist_ok=True)
    busy = StoreBusy("another restore is running", hint="wait until it has finished")
    return FileLock(home / "run" / "restore.lock", busy)


def _compare_ledgers(here: Segments, backup: Segments) -> str:
    """Return how the ledger here relates to the backup's: `same`, `longer`, `shorter` or `diverged`."""
    for own, other in zip_longest(here.raw_lines(), backup.raw_lines()):
        if own != other:
            return "longer" if other is None else "shorter" if own is None else "diverged"
    return "same"
