"""Writes what import sources yield: into journals of their own, once, without secrets, with date, author and origin.

Each import is a batch: a folder `imports/<batch>/` below the journals, with a file per day. Entries have the origin `import` and an
id derived from their text, so a second import adds nothing, and what was deleted or forgotten here does not come back. Archive
material has the type `archive`. Entries are written in portions, each listed before it is written: an import that is
interrupted is continued by running it again.

The tenant's folder has a list of each batch, with the id and digest of every entry, and no text. It is written before the entries, so an
interrupted import can be taken back, too. Taking a batch back removes exactly the entries that are still as they were written; one that was
edited since is kept and named.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

from msgspec import Struct, ValidationError, convert, field, to_builtins

from lorelog.core.atomic_file import Writing, write_atomic
from lorelog.core.document import ARCHIVE_TYPE, GLOBAL_PROJECT, FileStamp, SourceFile
from lorelog.core.errors import LorelogError, NotFound, StoreError, UsageError
from lorelog.core.memory import AdmissionDecision, NewMemory
from lorelog.core.paths import is_below
from lorelog.core.ports import group_by
from lorelog.core.serializable import Serializable
from lorelog.ingest.importers.source import (
    ImportedEntry,
    ImportedItem,
    ImportedSetting,
    SkippedItem,
    check_text,
    clean_tags,
    import_id,
)
from lorelog.light.spool import PauseNotes
from lorelog.services.indexing.run import IndexRun
from lorelog.services.memories import journal
from lorelog.services.memories.add import admit, redact_memories
from lorelog.services.memory_state.append_log import AppendLog, encode_line
from lorelog.services.memory_state.tombstones import Tombstones
from lorelog.services.places.roots import Root
from lorelog.services.sessions.capture import CaptureContext, index_journals

FILE_SOURCE = "file"
"""Source of memories in a file of `lorelog export`, or OMF: other homes are not other tools."""
_PORTION = 200
_MAX_SAMPLES = 3
_MAX_LISTED = 100
_SAMPLE_CHARS = 100
_ADDRESS_FIELDS = frozenset({"transcript", "rollout", "db"})
_IMPORTED_ID = re.compile(rb"\bmemory:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")


BATCHES_FOLDER = "imports"
"""In the tenant's folder: lists of batches. Below the journals: their entries."""
_BATCH_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,80}")


class BatchEntry(Struct, frozen=True, omit_defaults=True):
    id: str
    file: str = ""
    digest: str = ""
    key: str = ""
    """Digest of its name in the source; empty if it has none."""


class ChangedSetting(Struct, frozen=True, rename={"key": "setting"}):
    key: str
    value: str = ""
    old: str | None = None
    """None if it was not set in that file."""
    of_project: bool = False


class ImportBatch(Struct):
    name: str
    source: str = ""
    path: str = ""
    at: str = ""
    done: bool = False
    """False if it was interrupted."""
    entries: list[BatchEntry] = field(default_factory=list)
    settings: list[ChangedSetting] = field(default_factory=list)


class UndoReport(Serializable, Struct):
    """What taking a batch back removed, and what it kept."""

    batch: str
    removed: int = 0
    kept: list[str] = field(default_factory=list)
    """Entries that were edited since, as `file: id`."""
    missing: int = 0
    """Entries that were not there any more."""
    settings: list[str] = field(default_factory=list)
    """Settings that were put back, or kept because they were changed since."""
    notes: list[str] = field(default_factory=list)


class BatchLists:
    """The lists of one tenant's import batches."""

    def __init__(self, tenant_folder: Path) -> None:
        self._folder = tenant_folder / BATCHES_FOLDER

    def start(self, source: str, path: str) -> ImportBatch:
        """Start a batch. Nothing is written before its first entries."""
        now = datetime.now().astimezone()
        name = f"{source}-{now:%Y%m%d-%H%M%S}-{token_hex(2)}"
        return ImportBatch(name, source, path, now.isoformat(timespec="seconds"))

    def add(
        self, batch: ImportBatch, entries: Sequence[BatchEntry] = (), settings: Sequence[ChangedSetting] = ()
    ) -> None:
        """Append entries and changed settings to a list; they are on disk when this returns."""
        head = [] if batch.entries or batch.settings else [_head(batch)]
        self._log(batch.name).append([*head, *map(to_builtins, (*entries, *settings))])
        batch.entries += entries
        batch.settings += settings

    def finish(self, batch: ImportBatch) -> None:
        if not batch.done and (batch.entries or batch.settings):
            self._log(batch.name).append([{"done": True}])
            batch.done = True

    def read(self, name: str) -> ImportBatch:
        """Return a batch by its name, or the only one whose name begins so. Raise NotFound or UsageError."""
        names = [path.stem for path in self._paths()]
        if name not in names:
            matches = [other for other in names if name and other.startswith(name)]
            if len(matches) > 1:
                raise UsageError(
                    f"{len(matches)} batches begin with {name!r}", hint=f"give more of it: {', '.join(matches[:5])}"
                )
            if not matches:
                raise NotFound(f"there is no import batch {name!r}", hint="'lorelog import' lists the batches")
            name = matches[0]
        batch = ImportBatch(name)
        for line in self._log(name).lines():
            if "batch" in line:
                batch.source, batch.path, batch.at = (str(line.get(name, "")) for name in ("source", "path", "at"))
            elif "done" in line:
                batch.done = line["done"] is True
            with suppress(ValidationError):  # a line that someone changed
                if "setting" in line:
                    batch.settings.append(convert(line, ChangedSetting))
                elif "id" in line:
                    batch.entries.append(convert(line, BatchEntry))
        return batch

    def all(self) -> list[ImportBatch]:
        batches = [self.read(path.stem) for path in self._paths()]
        return sorted(batches, key=lambda batch: batch.at, reverse=True)

    def keys(self, source: str) -> dict[str, str]:
        """Return the newest entry of each name in a source, by the name's digest."""
        known: dict[str, str] = {}
        for batch in reversed(self.all()):
            if batch.source == source:
                known |= {entry.key: entry.id for entry in batch.entries if entry.key}
        return known

    def replace(self, batch: ImportBatch) -> None:
        """Write a list anew with what is left of its batch; delete it if nothing is."""
        path = self._folder / f"{batch.name}.jsonl"
        if not batch.entries and not batch.settings:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # other lists are in it
                self._folder.rmdir()
            return
        lines = [_head(batch), *map(to_builtins, (*batch.entries, *batch.settings)), {"done": batch.done}]
        write_atomic(path, b"".join(map(encode_line, lines)))

    def _paths(self) -> list[Path]:
        try:
            return sorted(path for path in self._folder.glob("*.jsonl") if _BATCH_NAME.fullmatch(path.stem))
        except OSError:
            return []

    def _log(self, name: str) -> AppendLog[dict[str, Any]]:
        return AppendLog(self._folder / f"{name}.jsonl", dict)


def _head(batch: ImportBatch) -> dict[str, Any]:
    return {"batch": batch.name, "source": batch.source, "path": batch.path, "at": batch.at}


def key_digest(source: str, key: str) -> str:
    """Return the digest of an entry's name in its source: names are titles, and a list of titles would outlive a forget."""
    return hashlib.sha256(f"{source}\0{key}".encode("utf-8", "replace")).hexdigest()[:24] if key else ""


def take_back_files(batch: ImportBatch, within: Iterable[str], report: UndoReport) -> Iterator[tuple[Path, bool]]:
    """Remove a batch's entries from its files; yield each file and whether it is gone.

    Only files below one of `within` are changed: the list is a file, and must not lead elsewhere.
    """
    allowed = tuple(within)
    kept: list[BatchEntry] = []
    for name, entries in group_by(batch.entries, lambda entry: entry.file).items():
        if not any(is_below(os.path.realpath(name), folder) for folder in allowed):
            report.notes.append(f"{name} is not below the journals of this tenant and project; it stays as it is")
            kept += entries
            continue
        path = Path(name)
        kept += _take_back(path, entries, report)
        yield path, not path.exists()
    batch.entries = kept


def _take_back(path: Path, entries: list[BatchEntry], report: UndoReport) -> list[BatchEntry]:
    """Remove entries from one file, and return those that were edited since."""
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        report.missing += len(entries)
        return []
    except OSError as error:
        report.notes.append(f"{path} cannot be read: {error.strerror}; it stays as it is")
        return entries
    wanted = {entry.id: entry for entry in entries}
    remaining: list[str] = []
    edited: list[BatchEntry] = []
    found: set[str] = set()
    for part in journal.split_journal(text):
        entry = wanted.get(part.memory)
        is_own = entry is not None and entry.id not in found
        if entry is not None and is_own:
            found.add(entry.id)
            is_own = journal.entry_digest(part.text) == entry.digest
            edited += [] if is_own else [entry]
        report.removed += is_own
        remaining += [] if is_own else [part.text]
    report.kept += [f"{path}: {entry.id}" for entry in edited]
    report.missing += len(wanted.keys() - found)
    rest = "\n".join(remaining)
    is_empty = not rest.strip().removeprefix("# ").replace("-", "").strip("0123456789")  # nothing, or the day's title
    with Writing(path, hint="nothing of it was changed"):
        if is_empty:
            path.unlink(missing_ok=True)
        else:
            write_atomic(path, rest.encode("utf-8", "surrogateescape"), keep_mode=True)
    for folder in (path.parent, path.parent.parent) if is_empty else ():
        with suppress(OSError):  # other files are in it
            folder.rmdir()
    return edited


class ImportTarget(Struct, frozen=True):
    """Which source an import reads, and where its entries go."""

    source: str
    path: str
    is_personal: bool = False
    """Entries without a project go to the global memories."""
    all_projects: bool = False
    """Entries of other projects are imported too, as global memories."""
    dry_run: bool = False
    to_global: bool | None = None
    """Where entries without a project go; None lets the source decide."""


class KindCounts(Serializable, Struct):
    """Counts of one kind of entry, and samples."""

    kind: str
    found: int = 0
    new: int = 0
    present: int = 0
    """Entries that were imported before, or deleted here."""
    archive: int = 0
    """New entries that no hook shows."""
    samples: list[str] = field(default_factory=list)


class ImportSummary(Serializable, Struct):
    """What an import added, or would add."""

    source: str
    path: str
    batch: str = ""
    dry_run: bool = False
    kinds: list[KindCounts] = field(default_factory=list)
    added: int = 0
    updated: int = 0
    """Added entries that replace an earlier version."""
    redacted: int = 0
    """Added entries from which secrets were removed."""
    to_project: int = 0
    to_global: int = 0
    skipped: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Reasons of skipped items, with counts."""
    skipped_items: list[str] = field(default_factory=list)
    """The first of them, as `place: reason`."""
    other_projects: dict[str, int] = field(default_factory=dict)
    """Entries of other projects, which were left out."""
    settings: list[ImportedSetting] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def skip(self, place: str, reason: str) -> None:
        """Count and name an item that is not imported."""
        self.skipped += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if len(self.skipped_items) < _MAX_LISTED:
            self.skipped_items.append(f"{place}: {reason}")

    def kind(self, name: str) -> KindCounts:
        found = next((counts for counts in self.kinds if counts.kind == name), None)
        if found is None:
            found = KindCounts(name)
            self.kinds.append(found)
        return found


class _Planned(Struct, frozen=True):
    """A memory to write, where, and the entry that it comes from."""

    memory: NewMemory
    root: Root
    entry: ImportedEntry
    redacted: bool


class Importer:
    """Imports into the journals of one project and tenant."""

    def __init__(self, context: CaptureContext, tombstones: Tombstones, patterns: Sequence[str]) -> None:
        self._context = context
        self._tombstones = tombstones
        self.patterns = tuple(patterns)
        self.lists = BatchLists(context.workspace.tenant_folder)

    def run(self, target: ImportTarget, items: Iterable[ImportedItem]) -> ImportSummary:
        """Import all items of a source, or show what that would do."""
        run = self.start(target)
        stream = iter(items)
        with run:
            while portion := list(islice(stream, _PORTION)):
                run.take(portion)
        return run.summary

    def start(self, target: ImportTarget) -> ImportRun:
        """Return a run that takes items in portions. Use it as a context manager."""
        return ImportRun(self, target)

    def undo(self, name: str) -> tuple[ImportBatch, UndoReport]:
        """Take a batch back: its unchanged entries leave their files and the index. Settings are left to the caller."""
        batch = self.lists.read(name)
        report = UndoReport(batch.name)
        roots: list[Root] = []
        for to_global in (False, True):
            with suppress(LorelogError):
                roots.append(self.root(to_global=to_global))
        gone: list[str] = []
        changed: list[SourceFile] = []
        folders = [f"{root.path}/{BATCHES_FOLDER}" for root in roots]
        for path, is_gone in take_back_files(batch, folders, report):
            if is_gone:
                gone.append(str(path))
            else:
                root = next(root for root in roots if root.holds(str(path)))
                changed.append(SourceFile(str(path), root.path, FileStamp.from_stat(path.lstat())))
        self.lists.replace(batch)
        if gone or changed:
            try:
                job = self._context.job(tuple(roots))
                IndexRun(self._context.store, self._context.embedder, job).over_files(changed, gone)
            except StoreError as error:
                report.notes.append(f"taken back, but still found until the next index run: {error.message}")
            self._context.refresh()
        return batch, report

    def root(self, *, to_global: bool) -> Root:
        return self._context.workspace.journal_root(to_global=to_global)

    def names_project(self, project: str) -> bool:
        """Return whether another tool's project, a directory or a name, is the current one."""
        own = self._context.workspace.project
        if Path(project).is_absolute():
            real = os.path.realpath(project)
            return is_below(real, os.path.realpath(own.id)) or is_below(real, os.path.realpath(own.root))
        return project.strip("/").lower() == Path(own.id).name.lower()

    def check_session(self, entry: ImportedEntry) -> str:
        """Return why an entry is not imported if its session was off the record then."""
        session, at = dict(entry.anchor).get("session", ""), None if entry.at is None else entry.at.timestamp()
        notes = PauseNotes(str(self._context.workspace.home), session)
        return "its session was off the record" if session and notes.covers(at, at or 0.0) else ""

    def written_ids(self, root: Root) -> set[str]:
        """Return the ids of entries in the journals of a root: the index may be behind, or deleted."""
        ids: set[str] = set()
        for folder, _, names in os.walk(root.path):
            for name in names:
                if name.endswith(".md"):
                    with suppress(OSError):
                        ids.update(map(bytes.decode, _IMPORTED_ID.findall(Path(folder, name).read_bytes())))
        return ids

    def is_known(self, identity: str) -> bool:
        """Return whether a memory is in the index, or was deleted or forgotten here."""
        if self._tombstones.keys() and any(stone.memory == identity for stone in self._tombstones.find(identity)):
            return True
        try:
            return bool(self._context.store.find(identity))
        except StoreError:
            return False

    def index(self, paths: Mapping[Root, Iterable[Path]]) -> list[str]:
        """Index written files, and bring the files that hooks read up to date. Errors become notes."""
        context = self._context
        return [note for root, files in paths.items() for note in index_journals(sorted(files), root, context)]


class ImportRun:
    """One run over the items of a source."""

    def __init__(self, importer: Importer, target: ImportTarget) -> None:
        self._importer, self._target = importer, target
        self._batch = importer.lists.start(target.source, target.path)
        self._keys = importer.lists.keys(target.source)
        self._seen: set[str] = set()
        self._present: dict[Root, set[str]] = {}
        self._written: dict[Root, set[Path]] = {}
        self._now = datetime.now().astimezone()
        self.summary = ImportSummary(target.source, target.path, dry_run=target.dry_run)

    def take(self, items: Sequence[ImportedItem]) -> None:
        """Plan a portion of items, and write it."""
        planned: list[_Planned] = []
        for item in items:
            if isinstance(item, SkippedItem):
                self.summary.skip(item.place, item.reason)
            elif isinstance(item, ImportedSetting):
                self.summary.settings.append(item)
            else:
                plan = self._plan(item)
                planned += [plan] if plan else []
        if not self._target.dry_run and planned:
            self._write(planned)
        for plan in planned:
            self._count(plan)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Index what was written, whatever stopped the rest, and complete the batch if nothing did."""
        if self._batch.entries:
            self.summary.batch = self._batch.name
            if kind is None:
                self._importer.lists.finish(self._batch)
            self.summary.notes += self._importer.index(self._written)

    def _plan(self, entry: ImportedEntry) -> _Planned | None:
        """Return the memory to write; None if it is present, of another project, or cannot be written."""
        problem = check_text(entry.text) or self._importer.check_session(entry)
        if problem:
            self.summary.skip(entry.place, problem)
            return None
        target = self._target
        to_global = entry.is_users or target.is_personal if target.to_global is None else target.to_global
        if entry.project and not entry.is_users:
            is_own = self._importer.names_project(entry.project)
            if not is_own and not target.all_projects:
                name = Path(entry.project).name or entry.project
                self.summary.other_projects[name] = self.summary.other_projects.get(name, 0) + 1
                return None
            to_global = bool(target.to_global) if is_own else True
        root = self._importer.root(to_global=to_global)
        counts = self.summary.kind(entry.kind)
        counts.found += 1
        identity = import_id(entry.text)
        if self._is_present(identity, root) or (entry.known_id and self._is_present(entry.known_id, root)):
            counts.present += 1
            return None
        self._seen.add(identity)
        (memory,), (secrets,) = redact_memories([self._make_memory(entry, identity)], self._importer.patterns)
        admission = admit(memory, self._now.date())
        problem = admission.reason if admission.decision is AdmissionDecision.REFUSED else ""
        try:
            journal.check_memory(memory)
        except UsageError as error:
            problem = error.message
        if problem:
            counts.found -= 1
            self.summary.skip(entry.place, problem)
            return None
        return _Planned(memory, root, entry, bool(secrets))

    def _is_present(self, identity: str, root: Root) -> bool:
        if identity in self._seen:
            return True
        if root not in self._present:
            self._present[root] = self._importer.written_ids(root)
        return identity in self._present[root] or self._importer.is_known(identity)

    def _make_memory(self, entry: ImportedEntry, identity: str) -> NewMemory:
        source = self._target.source
        fields = [
            (key, journal.anchor_address(value) if key in _ADDRESS_FIELDS else journal.to_anchor_word(value))
            for key, value in entry.anchor
        ]
        fields += [("from", source), ("author", journal.to_anchor_word(entry.author)), ("batch", self._batch.name)]
        other = entry.project and not self._importer.names_project(entry.project)
        name = Path(entry.project).name
        tags = clean_tags(
            *entry.tags,
            "" if source == FILE_SOURCE else f"from:{source}",
            entry.type if entry.archive else "",
            f"project:{name}" if other else "",
        )
        old = self._keys.get(key_digest(source, entry.key)) if entry.key else None
        return NewMemory(
            entry.text,
            ARCHIVE_TYPE if entry.archive else entry.type,
            tags,
            "import",
            identity,
            source=tuple((key, value) for key, value in fields if value),
            at=entry.at,
            supersedes=(old,) if old and old != identity and self._importer.is_known(old) else (),
        )

    def _write(self, planned: Sequence[_Planned]) -> None:
        """List the entries, then append them to the journals of their days."""
        ordered = sorted(planned, key=lambda plan: (plan.root.path, plan.memory.at or self._now))
        files: dict[str, tuple[Root, list[NewMemory]]] = {}
        listed: list[BatchEntry] = []
        for plan in ordered:
            folder = Path(plan.root.path) / BATCHES_FOLDER / self._batch.name
            at = plan.memory.at or self._now
            path = journal.journal_path(folder, at)
            digest = journal.entry_digest(journal.format_entry(plan.memory, plan.memory.id, at))
            key = key_digest(self._target.source, plan.entry.key)
            listed.append(BatchEntry(plan.memory.id, str(path), digest, key))
            files.setdefault(str(path), (plan.root, []))[1].append(plan.memory)
        self._importer.lists.add(self._batch, listed)
        for name, (root, memories) in files.items():
            path = Path(name)
            journal.append_entries(
                path.parent, memories, memories[0].at or self._now, private=root.project == GLOBAL_PROJECT
            )
            self._written.setdefault(root, set()).add(path)
        self._keys |= {entry.key: entry.id for entry in listed if entry.key}

    def _count(self, plan: _Planned) -> None:
        summary, counts = self.summary, self.summary.kind(plan.entry.kind)
        counts.new += 1
        counts.archive += plan.entry.archive
        summary.added += 1
        summary.updated += bool(plan.memory.supersedes)
        summary.redacted += plan.redacted
        if plan.root.project == GLOBAL_PROJECT:
            summary.to_global += 1
        else:
            summary.to_project += 1
        if len(counts.samples) < _MAX_SAMPLES:
            day = f"{plan.memory.at:%Y-%m-%d}" if plan.memory.at else "no date"
            text = " ".join(plan.memory.text.split())
            counts.samples.append(f"{day}  {text[:_SAMPLE_CHARS]}{'…' if len(text) > _SAMPLE_CHARS else ''}")
