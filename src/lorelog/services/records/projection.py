"""Records become pages that are indexed like any other file, so that every search finds them.

Pages are derived: they follow the tables, which follow the ledger. How far they have come is noted in the index itself, so an
index that was deleted, or is another's, is simply filled anew. Whoever writes a record does not wait for this; whoever searches
catches up first, by words alone, and never stays waiting for another writer.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lorelog.core.document import Document, SourceFile, Stamp
from lorelog.core.errors import StoreBusy, StoreError, StoreUnwritable
from lorelog.core.options import ChunkOptions
from lorelog.core.paths import is_below
from lorelog.core.ports import DocumentUpdate, Store, StoreWriter
from lorelog.core.record import DIGEST, FOREIGN, Record
from lorelog.records.tables import RecordTables
from lorelog.services.place import PAGES
from lorelog.services.reading import Reading, now
from lorelog.services.records.book import Book
from lorelog.services.records.open_tasks import note_all
from lorelog.services.records.page import FORMAT, anchored, render
from lorelog.services.roots import Root

_NOTED = "records"
_BESIDE = ".projected"
_A_BATCH = 500
_CHUNKS_A_PUT = 2_000
_PATIENCE_S = 0.05
_PLAIN = re.compile(r"[0-9a-z][0-9a-z_-]{0,99}")
"""Ids that can be the name of a file anywhere, and of no other id's file."""


def records_folder(tenant_folder: Path) -> Path:
    """Return where the pages lie that are made of a tenant's records, as the index knows paths."""
    return Path(os.path.realpath(tenant_folder / PAGES))


@dataclass(frozen=True, slots=True)
class Caught:
    """What catching up came to."""

    pages: int = 0
    """Pages that are new or changed."""
    note: str = ""
    """What a reader should know: that some records are not found yet, and why."""


@dataclass(frozen=True, slots=True)
class _State:
    """How far the pages have come: after which record of which tables. `anew` until all were looked at again."""

    tables: str
    place: int = 0
    record: str = ""
    anew: bool = True

    def __str__(self) -> str:
        return f"{self.tables} {self.place} {self.record or '-'}{' anew' if self.anew else ''}"


@dataclass(frozen=True, slots=True)
class _Page:
    """Which records stand on one page: those of a task, or of a thread without one, in one project."""

    project: str
    task: str
    thread: str

    @classmethod
    def of(cls, record: Record) -> _Page:
        return cls(record.project, record.task, "" if record.task else record.thread or record.id)

    def path(self, folder: Path) -> Path:
        # No plain id has a dot in it: a thread's page is never taken for a task's.
        name = f"{_file_name(self.task)}.md" if self.task else f"{_file_name(self.thread)}.thread.md"
        return folder / _folder_name(self.project) / name

    def records(self, tables: RecordTables) -> list[Record]:
        found = tables.of_task(self.task) if self.task else tables.of_thread(self.thread)
        if not found and not self.task:
            found = tables.of_ids([self.thread])
        # Of two lines with one id the first counts, as it does for trust.
        first = {one.id: one for one in reversed(found)}
        return [one for one in found if first[one.id] is one and one.kind != DIGEST and _Page.of(one) == self]


class Projection:
    """The pages of one tenant's records, and the index they go to."""

    def __init__(self, book: Book, store: Store, folder: Path, chunking: ChunkOptions) -> None:
        self._book = book
        self._store = store
        self._folder = folder
        self._recipe = f"{FORMAT}/{chunking.recipe.replace(' ', '/')}"
        self._reading = Reading(chunking, None)

    def catch_up(self, most_s: float | None = None, *, patience_s: float = _PATIENCE_S) -> Caught:
        """Make and index the pages of what is new, by words. It never fails: what could not be done is a note.

        With `most_s` it ends after the step in which so many seconds have passed; whoever comes next goes on. Another writer
        is waited for no longer than `patience_s`.
        """
        pages = 0
        ends = None if most_s is None else time.monotonic() + most_s
        try:
            tables = self._book.tables()
            state, new = self._look(tables)
            while new or state.anew:
                pages += self._step(tables, patience_s)
                state, new = self._look(tables)
                if new and ends is not None and time.monotonic() > ends:
                    return Caught(pages, self._not_yet("there are many, and the next search goes on with them"))
        except (StoreBusy, StoreUnwritable) as error:
            return Caught(pages, self._not_yet(error.message))
        except StoreError as error:
            return Caught(pages, f"records could not be looked at: {error.message}")
        return Caught(pages)

    def sources(self) -> list[str]:
        """Return the pages that the index knows."""
        return [one.source for one in self._store.documents() if self.holds(one.source)]

    def holds(self, source: str) -> bool:
        """Say whether a file is, or would be, one of the pages."""
        return is_below(source, str(self._folder))

    def _look(self, tables: RecordTables) -> tuple[_State, list[tuple[int, Record]]]:
        """Return how far the pages have come, and the next records. What does not fit these tables begins anew."""
        name = f"{tables.generation() or 'first'}/{self._recipe}"
        state = _read_state(self._noted(), name)
        if state.place and self._folder.is_dir():
            rows = tables.after(state.place - 1, 1 + _A_BATCH)
            if rows and rows[0][0] == state.place and anchored(rows[0][1].id) == state.record:
                return state, rows[1:]
        fresh = tables.after(0, _A_BATCH)
        if not fresh and not (state.anew and self._folder.is_dir()):
            return replace(state, anew=False), fresh
        return _State(name), fresh

    def _noted(self) -> str:
        """Return what was noted. An index that serves another model keeps its notes for that one: a file tells, then."""
        if self._store.serves_model():
            return self._store.remark(_NOTED)
        with suppress(OSError, ValueError):
            return (self._folder / _BESIDE).read_text("utf-8")
        return ""

    def _step(self, tables: RecordTables, patience_s: float) -> int:
        """Index the pages of the next records, and note it; return how many changed."""
        with self._store.writer(wait_s=patience_s) as writer:
            state, new = self._look(tables)  # another may have been faster
            if not new and not state.anew:
                return 0
            try:
                changed = self._put(writer, tables, [one for _, one in new])
                if new:
                    state = replace(state, place=new[-1][0], record=anchored(new[-1][1].id))
                if len(new) < _A_BATCH and state.anew:
                    self._drop_stale(writer, tables)
                    note_all(self._folder.parent, tables)
                    state = replace(state, anew=False)
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _write(self._folder / _BESIDE, str(state).encode())
            except OSError as error:
                raise StoreUnwritable(
                    f"{error.filename or self._folder} cannot be written: {error.strerror or error}",
                    hint="make it writable, or free some space",
                ) from error
            writer.remark(_NOTED, str(state))
        return changed

    def _put(self, writer: StoreWriter, tables: RecordTables, records: Sequence[Record]) -> int:
        changed, held = 0, 0
        updates: list[DocumentUpdate] = []
        touched: list[Document] = []
        for page in dict.fromkeys(_Page.of(one) for one in records if one.kind != DIGEST):
            update = self._update(page, tables)
            if isinstance(update, DocumentUpdate):
                updates.append(update)
                held += 1 + len(update.chunks)
                changed += 1
            elif update is not None:
                touched.append(update)
            if held >= _CHUNKS_A_PUT:
                writer.put(updates)
                updates, held = [], 0
        if updates:
            writer.put(updates)
        if touched:
            writer.touch(touched)
        return changed

    def _update(self, page: _Page, tables: RecordTables) -> DocumentUpdate | Document | None:
        """Write a page; return what it makes, or of one that is known its new stamp, or None where nothing is new."""
        records = page.records(tables)
        if not records:
            return None
        path = page.path(self._folder)
        text = render(_title(page, records, tables), records)
        data = text.encode()
        digest = hashlib.sha256(data).hexdigest()
        known = self._store.document(str(path))
        is_same = known is not None and known.file_hash == digest and known.project == page.project
        stamp = _stamp(path)
        if is_same and known is not None and self._reading.is_current(known) and known.stamp == stamp:
            return None
        if stamp is None or _read(path) != data:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(path, data)
            stamp = _stamp(path) or Stamp(len(data), 0, 0)
        if is_same and known is not None and self._reading.is_current(known):
            return replace(known, stamp=stamp, indexed_at=now())
        root = Root(str(path.parent), page.project)
        return self._reading.cut(SourceFile(str(path), root.path, stamp), root, text, digest)

    def _drop_stale(self, writer: StoreWriter, tables: RecordTables) -> None:
        """Let go of pages whose records are not in the ledger any more."""
        wanted = {str(_Page.of(one).path(self._folder)) for one in _all(tables) if one.kind != DIGEST}
        gone = [source for source in self.sources() if source not in wanted]
        if gone:
            writer.remove(gone)
        for file in self._folder.glob("*/*.md"):
            if str(file) not in wanted:
                file.unlink(missing_ok=True)

    def _not_yet(self, why: str) -> str:
        with suppress(StoreError):
            _, new = self._look(self._book.tables())
            if not new:
                return ""
            count = f"{len(new):,}" if len(new) < _A_BATCH else f"{_A_BATCH:,} or more"
            are = "record is" if len(new) == 1 else "records are"
            return f"{count} {are} not searchable yet: {why}"
        return f"some records may not be searchable yet: {why}"


def _read_state(noted: str, name: str) -> _State:
    words = noted.split(" ")
    if len(words) < 3 or words[0] != name or not words[1].isdecimal():
        return _State(name)
    return _State(name, int(words[1]), words[2], anew=words[3:] == ["anew"])


def _all(tables: RecordTables) -> Iterator[Record]:
    place = 0
    while some := tables.after(place, _A_BATCH):
        yield from (one for _, one in some)
        place = some[-1][0]


def _title(page: _Page, records: Sequence[Record], tables: RecordTables) -> str:
    task = tables.task(page.task) if page.task else None
    first = next((one for one in records if task is not None and one.id == task.started_by), records[0])
    said = (task.goal if task else "") or first.text("goal") or first.text("summary") or first.kind.replace("_", " ")
    # It stands above whatever others say on this page, who did not bring it.
    return f'quoted from {first.origin}: "{said}"' if first.origin in FOREIGN else said


def _folder_name(project: str) -> str:
    return hashlib.sha256(project.encode("utf-8", "surrogatepass")).hexdigest()[:16] if project else "global"


def _file_name(identity: str) -> str:
    if _PLAIN.fullmatch(identity):
        return identity
    return "_" + hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _stamp(path: Path) -> Stamp | None:
    try:
        return Stamp.of(path.lstat())
    except FileNotFoundError:
        return None


def _read(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


def _write(path: Path, data: bytes) -> None:
    """Write a file that its owner alone may read; whoever reads meanwhile has the old one or the new one."""
    beside = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    beside.replace(path)
