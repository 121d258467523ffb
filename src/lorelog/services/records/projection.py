"""Renders records as Markdown pages and keeps the pages and the index up to date with the ledger.

A page holds the records of a task, a section with an anchor for each. A record's text may have been written to deceive:
none of it may pass for a heading, an anchor, a fence or a comment, or it would be chunked wrongly or gain another
record's trust.

Pages are derived from the tables. The position reached is stored in the index itself, so a deleted or replaced index is
simply filled again. A writer does not wait for this; a search catches up first, lexically, without waiting for other
writers.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

from msgspec import Struct, json
from msgspec.structs import replace

from lorelog.core.atomic_file import Writing, write_atomic
from lorelog.core.document import Document, FileStamp, SourceFile
from lorelog.core.errors import StoreBusy, StoreError, StoreUnwritable
from lorelog.core.options import ChunkOptions
from lorelog.core.paths import cache_folder, is_below
from lorelog.core.ports import DocumentUpdate, Store
from lorelog.core.record import UNPAGED_KINDS, UNTRUSTED_ORIGINS, Record
from lorelog.core.serializable import local_time, utc_now
from lorelog.ingest.files import FileText
from lorelog.records.kinds import search_text
from lorelog.records.tables import RecordTables
from lorelog.services.indexing.documents import DocumentBuilder
from lorelog.services.places.roots import Root
from lorelog.services.places.workspace import RECORD_PAGES
from lorelog.services.records.store import RecordStore, rewrite_open_tasks

PAGE_FORMAT = "2"
"""Increase this when the same records render differently: all pages are then rebuilt."""

_MAX_TITLE_CHARS = 200
_MAX_NAME_CHARS = 100
_BLANKED = dict.fromkeys([*range(9), *range(0x0B, 0x20), *range(0x7F, 0xA0)], " ")
_LIST_ITEM = r"(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*"
_MARKUP = re.compile(rf"([ \t]*)(?={_LIST_ITEM}(?:#|`{{3}}|~{{3}})|(?:=+|-+)\s*$)")
"""Text that would begin a heading or a fence, or underline the line before it."""


def render_page(title: str, records: Sequence[Record]) -> str:
    """Return a page: its title, and a section for each record in order."""
    return "\n".join([f"# {_one_line(title, _MAX_TITLE_CHARS) or 'untitled'}", *map(_render_section, records), ""])


def decode_anchor_id(anchored_as: str) -> str:
    return unquote(anchored_as)


def _render_section(record: Record) -> str:
    by = _one_line(record.agent, _MAX_NAME_CHARS)
    # The number keeps two records that say the same in the same minute apart: neither is a repeat of the other.
    heading = f"{_format_time(record.at)} {_one_line(record.kind.replace('_', ' '), _MAX_NAME_CHARS)} #{record.seq}"
    words = {"memory": record.id, "type": record.kind, "origin": record.origin}
    anchor = " ".join(f"{name}:{quote(value, safe='')}" for name, value in words.items() if value)
    shown = _escape_text(search_text(record))
    if not shown.strip():  # control characters alone: a section without a word would be none
        shown = _escape_text(record.kind)
    body = (_MARKUP.sub(r"\1\\", line, count=1) for line in shown.split("\n"))
    return "\n".join(["", f"## {heading} by {by}" if by else f"## {heading}", f"<!-- {anchor} -->", "", *body])


def _escape_text(text: str) -> str:
    """Return valid text without comments, and without line breaks other than newlines."""
    whole = text.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    return whole.translate(_BLANKED).replace("<!--", "<! --")


def _one_line(text: str, max_chars: int) -> str:
    line = " ".join(_escape_text(text).split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def _format_time(at: str) -> str:
    """Return the local day and time, as in journals."""
    moment = local_time(at)
    return f"{moment:%Y-%m-%d %H:%M}" if moment else _one_line(at.replace("T", " "), 16)


_REMARK_NAME = "records"
_STATE_FILE = ".projected"
_BATCH_SIZE = 500
_LOCK_WAIT_S = 0.05
_SAFE_FILE_NAME = re.compile(r"[0-9a-z][0-9a-z_-]{0,99}")
"""Ids that are valid file names everywhere and cannot collide with another id's file."""


def records_folder(tenant_folder: Path) -> Path:
    """Return the folder of a tenant's record pages, as a real path."""
    return Path(os.path.realpath(Path(cache_folder(tenant_folder)) / RECORD_PAGES))


class _ProjectionState(Struct, frozen=True):
    """Last record projected, its tables, and whether a rebuild is not complete."""

    tables: str
    place: int = 0
    record: str = ""
    rebuilding: bool = True


class _RecordPage(Struct, frozen=True):
    """The records of one page: those of a task, or of a thread without a task, in one project."""

    project: str
    task: str
    thread: str

    @classmethod
    def of(cls, record: Record) -> _RecordPage:
        return cls(record.project, record.task, "" if record.task else record.thread or record.id)

    def path(self, folder: Path) -> Path:
        # No plain id has a dot in it: a thread's page is never taken for a task's.
        name = f"{_file_name(self.task)}.md" if self.task else f"{_file_name(self.thread)}.thread.md"
        digest = hashlib.sha256(self.project.encode("utf-8", "surrogatepass")).hexdigest()
        return folder / (digest[:16] if self.project else "global") / name

    def records(self, tables: RecordTables) -> list[Record]:
        records = tables.where("task", self.task) if self.task else tables.where("thread", self.thread)
        if not records and not self.task:
            records = tables.by_ids([self.thread])
        # If two lines have the same id, the first counts, as it does for trust.
        first = {record.id: record for record in reversed(records)}
        return [
            record
            for record in records
            if first[record.id] is record and record.kind not in UNPAGED_KINDS and _RecordPage.of(record) == self
        ]


class RecordProjection:
    """The pages of one tenant's records, and their index."""

    def __init__(self, records: RecordStore, store: Store, folder: Path, chunking: ChunkOptions) -> None:
        self._records = records
        self._store = store
        self._folder = folder
        self._recipe = f"{PAGE_FORMAT}/{chunking.recipe.replace(' ', '/')}"
        self._builder = DocumentBuilder(chunking, None)

    def catch_up(self, max_s: float | None = None, *, lock_wait_s: float = _LOCK_WAIT_S) -> str:
        """Build and index the pages of new records, without vectors; return why some are not searchable yet, or an empty text.

        With `max_s`, stop after the batch in which that many seconds have passed; the next call continues.
        `lock_wait_s` is how long to wait for another writer.
        """
        deadline = None if max_s is None else time.monotonic() + max_s
        try:
            tables = self._records.tables()
            state, new = self._next_batch(tables)
            while new or state.rebuilding:
                self._index_batch(tables, lock_wait_s)
                state, new = self._next_batch(tables)
                if new and deadline is not None and time.monotonic() > deadline:
                    return self._format_pending_note("there are many; the next search continues with them")
        except (StoreBusy, StoreUnwritable) as error:
            return self._format_pending_note(error.message)
        except StoreError as error:
            return f"records could not be read: {error.message}"
        return ""

    def sources(self) -> list[str]:
        return [document.source for document in self._store.documents() if self.holds(document.source)]

    def holds(self, source: str) -> bool:
        """Return True if a path is, or would be, a page."""
        return is_below(source, str(self._folder))

    def _next_batch(self, tables: RecordTables) -> tuple[_ProjectionState, list[tuple[int, Record]]]:
        """Return the saved position and the next records. A position from other tables starts a rebuild."""
        name = f"{tables.generation() or 'first'}/{self._recipe}"
        # From a file if the index serves another model, which has its own position.
        noted = self._store.get_note(_REMARK_NAME) if self._store.serves_model() else ""
        if not self._store.serves_model():
            with suppress(OSError, ValueError):
                noted = (self._folder / _STATE_FILE).read_text("utf-8")
        state = _ProjectionState(name)
        with suppress(ValueError):  # none was noted
            known = json.decode(noted or "", type=_ProjectionState)
            state = known if known.tables == name else state
        if state.place and self._folder.is_dir():
            rows = tables.applied_after(state.place - 1, 1 + _BATCH_SIZE)
            if rows and rows[0][0] == state.place and rows[0][1].id == state.record:
                return state, rows[1:]
        fresh = tables.applied_after(0, _BATCH_SIZE)
        if not fresh and not (state.rebuilding and self._folder.is_dir()):
            return replace(state, rebuilding=False), fresh
        return _ProjectionState(name), fresh

    def _index_batch(self, tables: RecordTables, lock_wait_s: float) -> None:
        """Index the pages of the next records and save the position."""
        with self._store.writer(wait_s=lock_wait_s) as writer:
            state, new = self._next_batch(tables)  # another process may have indexed it already
            if not new and not state.rebuilding:
                return
            with Writing(self._folder, hint="make it writable, or free some space", names_file=True):
                paged = (record for _, record in new if record.kind not in UNPAGED_KINDS)
                pages = [self._update_page(page, tables) for page in dict.fromkeys(map(_RecordPage.of, paged))]
                writer.put([update for update in pages if isinstance(update, DocumentUpdate)])
                writer.touch([document for document in pages if isinstance(document, Document)])
                if new:
                    state = replace(state, place=new[-1][0], record=new[-1][1].id)
                if len(new) < _BATCH_SIZE and state.rebuilding:
                    kept = (record for record in tables.all() if record.kind not in UNPAGED_KINDS)
                    current = {str(_RecordPage.of(record).path(self._folder)) for record in kept}
                    if gone := [source for source in self.sources() if source not in current]:
                        writer.remove(gone)
                    for file in self._folder.glob("*/*.md"):
                        if str(file) not in current:
                            file.unlink(missing_ok=True)
                    rewrite_open_tasks(self._folder.parent, tables)
                    state = replace(state, rebuilding=False)
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_atomic(self._folder / _STATE_FILE, json.encode(state), durable=False)
            writer.set_note(_REMARK_NAME, json.encode(state).decode())

    def _update_page(self, page: _RecordPage, tables: RecordTables) -> DocumentUpdate | Document | None:
        """Write a page; return its update, or the document with a new stamp if unchanged, or None if current."""
        records = page.records(tables)
        if not records:
            return None
        path = page.path(self._folder)
        task = tables.task(page.task) if page.task else None
        first = next((record for record in records if task is not None and record.id == task.started_by), records[0])
        title = (
            (task.goal if task else "") or first.text("goal") or first.text("summary") or first.kind.replace("_", " ")
        )
        # The title is shown above records from other origins, so it names its own.
        text = render_page(
            f'quoted from {first.origin}: "{title}"' if first.origin in UNTRUSTED_ORIGINS else title, records
        )
        data = text.encode()
        digest = hashlib.sha256(data).hexdigest()
        document = self._store.document(str(path))
        if document is not None and not (
            document.file_hash == digest and document.project == page.project and self._builder.is_current(document)
        ):
            document = None
        stamp = FileStamp.of(path)
        if document is not None and document.stamp == stamp:
            return None
        if stamp is None or path.read_bytes() != data:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(path, data, durable=False)
            stamp = FileStamp.of(path) or FileStamp(len(data), 0, 0)
        if document is not None:
            return replace(document, stamp=stamp, indexed_at=utc_now())
        root = Root(str(path.parent), page.project)
        return self._builder.build(SourceFile(str(path), root.path, stamp), root, FileText(text, digest))

    def _format_pending_note(self, why: str) -> str:
        with suppress(StoreError):
            _, new = self._next_batch(self._records.tables())
            if not new:
                return ""
            count = f"{len(new):,}" if len(new) < _BATCH_SIZE else f"{_BATCH_SIZE:,} or more"
            are = "record is" if len(new) == 1 else "records are"
            return f"{count} {are} not searchable yet: {why}"
        return f"some records may not be searchable yet: {why}"


def _file_name(identity: str) -> str:
    if _SAFE_FILE_NAME.fullmatch(identity):
        return identity
    return "_" + hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]
