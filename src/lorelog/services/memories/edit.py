"""Edit, delete and restore memories, and replace files that others write to as well.

Deleting is soft: a memory leaves the index, stays in its file, and can be restored. A deletion is written under the index
writer's lock. Every writer of a document reads the deletions under the same lock, so a run in progress cannot bring back a
deleted memory that it had read before.

A journal is also written by other lorelog processes, which honour its lock, and by editors, which do not. So the file is
replaced under its lock; if its content changed meanwhile, the edit is made again from the new content. An edit of a section
names the text that it replaces: if the file says something else by now, nothing is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.atomic_file import AtomicFile, OpenDescriptor, Writing, open_regular, write_atomic
from lorelog.core.document import Document, FileStamp, SourceFile, StoredChunk
from lorelog.core.errors import NotFound, SourceChanged, StoreBusy, StoreError, UsageError
from lorelog.core.memory import DeleteReply, NewMemory
from lorelog.core.ports import Embedder, Store
from lorelog.core.processes import acquire_file_lock
from lorelog.core.serializable import Serializable, utc_now
from lorelog.services.indexing import IndexJob
from lorelog.services.indexing.run import IndexRun, index_written
from lorelog.services.memories.journal import OwnEntries, is_closed_at_end, is_same_file, read_bytes
from lorelog.services.memories.listing import MIN_ID_CHARS, find_chunk, find_tombstones
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.memory_state.lifecycle_index import SummaryLinks
from lorelog.services.memory_state.tombstones import (
    Tombstone,
    Tombstones,
    deletion_keys,
    find_deleted,
    is_in_sync,
    mark_in_sync,
    omitted_keys,
)
from lorelog.services.places.roots import Root

EditBytes = Callable[[bytes], bytes]
_LOCK_WAIT_S = 10.0
_MAX_TRIES = 5
_IDS = re.compile(r"<!--[^>]*?\bmemory:([^\s>]+)")
_MAX_FOUND = 10
"""Maximum chunks that a store returns for an id; there may be more."""
_WAIT_S = 30.0


def delete_memory(identity: str, store: Store, tombstones: Tombstones) -> DeleteReply:
    """Hide a memory, with all its pieces and copies, from every search and list. Its file is not touched."""
    try:
        chunk = find_memory(identity, store)
    except NotFound:
        stones = find_tombstones(identity.strip(), tombstones)
        if not stones:
            remote = store.find_remote(identity.strip()) if identity.strip() else []
            if not remote:
                raise
            raise UsageError(
                f"{identity} is a memory of another machine ({remote[0].machine})",
                hint="delete it there; it is then no longer found here",
            ) from None
        stone = stones[0]
        return DeleteReply(identity, stone.memory, stone.source, 0, changed=False, notes=("it was deleted before",))
    with store.writer(wait_s=_WAIT_S) as writer:
        chunk = find_memory(chunk.id, store)  # it may have changed during the wait
        key = deletion_key_of(chunk, store)
        documents = _candidate_documents(chunk, store) if is_in_sync(store, tombstones) else store.documents()
        affected = list(find_deleted(store, documents, tombstones.keys() | {key}))
        ids = tuple(stored.id for _, gone in affected for stored in gone.get(key, ()))
        memory = chunk.chunk.memory
        tombstones.append([Tombstone(key, memory, chunk.chunk.source, ids, utc_now())])
        notes = tuple(
            f"the summary {summary} may still contain it: 'lorelog delete {summary}' hides it, too"
            for summary in SummaryLinks(store.summary_links()).summaries_of(chunk)
        )
        try:
            writer.put([update for update, _ in affected])
            mark_in_sync(writer, tombstones)
        except StoreError as error:  # the deletion is recorded: the next run applies it
            notes = (*notes, f"deleted, but still found until the next index run: {error.message}")
    notes = (*notes, *filter(None, [tombstones.damage()]))
    return DeleteReply(chunk.id, memory, chunk.chunk.source, len(ids), changed=True, notes=notes)


def restore_memory(identity: str, store: Store, tombstones: Tombstones, job: IndexJob) -> DeleteReply:
    """Restore a deleted memory with its current text in the file."""
    identity = identity.strip()
    if not identity:
        raise UsageError("an id is needed", hint="'lorelog delete' shows the id of what it hides")
    stones = find_tombstones(identity, tombstones)
    # An earlier restore may have been interrupted before the files were read again: complete it.
    undone = [] if stones else tombstones.find_restored(identity)
    if not stones and not undone:
        short = f"; at least {MIN_ID_CHARS} characters are needed" if len(identity) < MIN_ID_CHARS else ""
        raise NotFound(
            f"nothing deleted has an id that starts with {identity!r}{short}",
            hint="'lorelog delete' prints the id of what it hides; a backup is restored by its file name",
        )
    if any(stone.forgotten for stone in stones):
        raise UsageError(f"{identity} was forgotten for good", hint="its text is gone; add it again if you have it")
    keys = {stone.key for stone in (*stones, *undone)}
    with store.writer(wait_s=_WAIT_S) as writer:
        in_sync = is_in_sync(store, tombstones)
        if stones:
            tombstones.append([replace(stone, at=utc_now(), deleted=False) for stone in stones])
        if in_sync:
            mark_in_sync(writer, tombstones)
        # Any later index run would read these files again; do it now.
        documents = [document for document in store.documents() if keys & omitted_keys(document)]
    notes = _reindex(documents, store, job)
    shown = [key for document in documents for key in _chunks_with_keys(document.source, keys, store)]
    stone = (stones or undone)[0]
    if undone and not documents:
        names = filter(None, (stone.memory, *stone.ids))
        shown, notes = [stored for name in names for stored in store.find(name)], ("it was restored before",)
    if not shown and not notes:
        notes = ("no indexed file contains its text now; it is shown again once one does",)
    return DeleteReply(
        id=shown[0].id if shown else next(iter(stone.ids), identity),
        memory=stone.memory,
        source=shown[0].chunk.source if shown else stone.source,
        chunks=len(shown),
        changed=bool(stones or documents),
        notes=(*notes, *filter(None, [tombstones.damage()])),
    )


def deletion_key_of(chunk: StoredChunk, store: Store) -> str:
    """Return the key under which the deletion of a memory is recorded."""
    stored = store.chunks_of(chunk.chunk.source)
    keys = deletion_keys((other.chunk for other in stored), chunk.project)
    return next(key for other, key in zip(stored, keys, strict=True) if other.id == chunk.id)


def find_memory(identity: str, store: Store) -> StoredChunk:
    """Return the chunk with an id; of a memory that is in several files, the first."""
    identity = identity.strip()
    matches = store.find(identity) if identity else []
    if matches and all(stored.chunk.memory == identity for stored in matches):
        return min(matches, key=lambda stored: (stored.chunk.source, stored.chunk.start_line))
    return find_chunk(identity, store)


def _candidate_documents(chunk: StoredChunk, store: Store) -> Sequence[Document]:
    """Return the documents that may contain the same memory."""
    memory = chunk.chunk.memory
    if not memory:
        return [document for document in store.documents() if document.project == chunk.project]
    matches = store.find(memory)
    if len(matches) >= _MAX_FOUND:
        return store.documents()
    sources = dict.fromkeys(stored.chunk.source for stored in matches)
    return [document for source in sources if (document := store.document(source)) is not None]


def _chunks_with_keys(source: str, keys: set[str], store: Store) -> list[StoredChunk]:
    stored = store.chunks_of(source)
    own_keys = deletion_keys((entry.chunk for entry in stored), stored[0].project if stored else "")
    return [entry for entry, key in zip(stored, own_keys, strict=True) if key in keys]


def _reindex(documents: Sequence[Document], store: Store, job: IndexJob) -> tuple[str, ...]:
    """Index files again, each under its previous root, even if that is no longer registered."""
    files: list[SourceFile] = []
    notes: list[str] = []
    for document in documents:
        try:
            files.append(SourceFile(document.source, document.root, FileStamp.from_stat(Path(document.source).lstat())))
        except OSError as error:
            notes.append(f"{document.source} cannot be read now: {error.strerror}")
    roots = tuple({document.root: Root(document.root, document.project) for document in documents}.values())
    try:
        report = IndexRun(store, None, replace(job, roots=roots, force=True)).over_files(files)
    except StoreError as error:
        return (*notes, f"restored, but found only after the next index run: {error.message}")
    return (*notes, *(problem.message for problem in report.problems))


class SectionEdit(Struct, frozen=True):
    """The text of a section as it was read, and as it shall be."""

    before: str
    after: str

    def apply(self, data: bytes) -> bytes:
        """Return a file's content with the section replaced. Raise SourceChanged if it does not contain it once."""
        text = data.decode("utf-8", "surrogateescape")
        lines = text.replace("\r\n", "\n")
        has_crlf = lines != text
        if has_crlf and lines.replace("\n", "\r\n") != text:
            raise UsageError("the file has mixed line ends", hint="make them the same, then edit the memory again")
        places = _find_lines(lines, self.before)
        if len(places) != 1:
            if not places and len(_find_lines(lines, self.after)) == 1:
                return data  # the same edit was made before
            raise SourceChanged(
                "the section was changed in its file meanwhile", hint="read it again, and edit the current text"
            )
        edited = lines[: places[0]] + self.after + lines[places[0] + len(self.before) :]
        return (edited.replace("\n", "\r\n") if has_crlf else edited).encode("utf-8", "surrogateescape")


def _find_lines(text: str, part: str) -> list[int]:
    """Return where a text consists of whole lines of another; places may overlap."""
    return [match.start() for match in re.finditer(rf"(?m)^(?={re.escape(part)}$)", text)] if part else []


class EditReply(Serializable, Struct, frozen=True):
    """A memory that was edited in its file."""

    memory: str
    source: str
    changed: bool
    """False if the file said so already."""
    redacted: dict[str, int]
    """Number of secrets that were removed from the new text, by kind."""
    notes: tuple[str, ...] = ()


class MemoryEditor(Struct, frozen=True):
    """Edits memories in their files, and brings the index up to date."""

    store: Store
    embedder: Embedder | None
    job: IndexJob
    authored: AuthoredMemories
    own_entries: OwnEntries
    refresh: Callable[[], None]
    """Brings what hooks read up to date."""

    def edit(self, identity: str, before: str, after: str, patterns: Sequence[str] | None) -> EditReply:
        """Replace the section of a memory. Raise SourceChanged if its file says something else by now.

        Secrets in the new text are redacted, and what matches `patterns`; None keeps them.
        """
        from lorelog.ingest.redaction.redact import redact

        stored = find_memory(identity, self.store)
        source, document = stored.chunk.source, self.store.document(stored.chunk.source)
        if stored.machine or document is None:
            raise NotFound(f"the file of {stored.id} is not on this machine", hint="edit it on the machine it is on")
        path, root = Path(source), Root(document.root, document.project)
        if os.path.realpath(source) != source or not root.holds(source):
            raise UsageError(f"{source} is a link now, and is not edited", hint="edit the file that it leads to")
        after = after.replace("\r\n", "\n").strip("\n")
        redaction = None if patterns is None else redact(after, patterns)
        after = after if redaction is None else redaction.text
        _check_section(stored, before, after)
        own = self._own_memories(stored, before, after)
        with self.own_entries(own, project=stored.project, before=_body(before)):
            changed = edit_file(path, SectionEdit(before, after).apply)
        if not changed and not path.exists():
            raise NotFound(f"{path} does not exist any more", hint="search again")
        notes = index_written([path], replace(self.job, roots=(root,)), self.store, self.embedder)
        self.refresh()
        return EditReply(
            memory=stored.chunk.memory or stored.id,
            source=str(path),
            changed=changed,
            redacted=dict(redaction.kinds) if redaction is not None else {},
            notes=notes,
        )

    def _own_memories(self, stored: StoredChunk, before: str, after: str) -> list[NewMemory]:
        """Return a memory with its new text, if it is the user's own: the registry knows its text."""
        anchor = stored.chunk.anchor
        if anchor is None or not self.authored.wrote(anchor, _body(before)):
            return []
        source = (("session", anchor.session), (anchor.dialect or "transcript", anchor.transcript))
        new = NewMemory(
            _body(after),
            anchor.type,
            anchor.tags,
            anchor.origin,
            id=anchor.memory,
            source=source if anchor.transcript else (),
            supersedes=anchor.superseded_ids,
            expires=anchor.expires,
            cues=anchor.cues,
        )
        return [new]


def _check_section(stored: StoredChunk, before: str, after: str) -> None:
    """Raise UsageError for a text that would lose an id or change what follows it."""
    if not after.strip():
        raise UsageError("the text is empty", hint="delete or forget the memory instead")
    if "\0" in after or after.encode("utf-8", "replace").decode() != after:
        raise UsageError("the text is not valid", hint="it must be Unicode text without NUL")
    lost = sorted(set(_IDS.findall(before)) - set(_IDS.findall(after)))
    if lost:
        raise UsageError(
            f"the comment with the id {lost[0]} is missing", hint="keep the line '<!-- memory:… -->': it is the id"
        )
    if not is_closed_at_end(after) and is_closed_at_end(before):
        raise UsageError("a code fence is not closed", hint="close it: it would swallow the next section")
    if stored.chunk.heading_level and before.startswith("#") and not after.startswith("#"):
        raise UsageError("the heading is missing", hint="keep the first line: it begins the section")


def _body(section: str) -> str:
    """Return a section without its heading and its anchor, as it was given to be remembered."""
    lines = section.split("\n")
    lines = lines[1:] if lines[0].startswith("#") else lines
    while lines and (not lines[0].strip() or (lines[0].startswith("<!--") and lines[0].rstrip().endswith("-->"))):
        lines = lines[1:]
    return "\n".join(lines)


def edit_file(path: Path, edit: EditBytes) -> bool:
    """Replace a file's content by what `edit` returns; return False if that changes nothing.

    Raise StoreUnwritable or StoreBusy, and then the file is as it was.
    """
    with Writing(path, "replaced", hint="make the file and its folder writable"):
        for _ in range(_MAX_TRIES):
            try:
                return _edit_locked(path, edit)
            except FileNotFoundError:
                return False
            except _ChangedMeanwhileError:
                continue
    raise StoreBusy(f"{path} is changed repeatedly by another program", hint="close it there, then try again")


class _ChangedMeanwhileError(Exception):
    """Another program changed the file since it was read."""


def _edit_locked(path: Path, edit: EditBytes) -> bool:
    """Replace a file once. Raise _ChangedMeanwhileError if another program changed it meanwhile."""
    with OpenDescriptor(open_regular(path, os.O_RDWR)) as descriptor:
        if not acquire_file_lock(descriptor, _LOCK_WAIT_S):
            raise StoreBusy(f"{path} is locked by another program", hint="try again")
        if not is_same_file(path, descriptor):
            raise _ChangedMeanwhileError
        before = read_bytes(descriptor)
        after = edit(before)
        if after == before:
            return False
        with AtomicFile(path, keep_mode=True) as file:
            file.write(after)
            if not is_same_file(path, descriptor) or read_bytes(descriptor) != before:
                raise _ChangedMeanwhileError
        late = read_bytes(descriptor)
        if late != before:  # a program without the lock wrote to the old file in the last moment
            write_atomic(path, edit(late), keep_mode=True)
        return True
