"""Soft deletion: a memory leaves the index, stays in its file, and can be restored.

A deletion is written under the index writer's lock. Every writer of a document reads the deletions under the same lock, so a run in
progress cannot bring back a deleted memory that it had read before.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from lorelog.core.document import Document, FileStamp, SourceFile, StoredChunk
from lorelog.core.errors import NotFound, StoreError, UsageError
from lorelog.core.memory import DeleteReply, GetReply
from lorelog.core.ports import Store
from lorelog.services.indexing.documents import utc_now
from lorelog.services.indexing.run import IndexJob, IndexRun
from lorelog.services.memories.expand import find_chunk, find_chunk_anywhere
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

_MIN_PREFIX_CHARS = 4
"""Minimum characters of an abbreviated id; fewer are taken for a typing error."""
_MAX_FOUND = 10
"""Maximum chunks that a store returns for an id; there may be more."""
_WAIT_S = 30.0


def get_memory(identity: str, store: Store, tombstones: Tombstones) -> GetReply:
    """Return a memory by its id, or when it was deleted, or an empty reply."""
    try:
        return GetReply(find_chunk_anywhere(identity, store))
    except NotFound:
        stones = _find_tombstones(identity.strip(), tombstones)
        forgotten = next((stone for stone in stones if stone.forgotten), None)
        last = forgotten or next(iter(stones), None)
        return GetReply(deleted_at=last.at if last else "", forgotten=forgotten is not None)


def delete_memory(identity: str, store: Store, tombstones: Tombstones) -> DeleteReply:
    """Hide a memory, with all its pieces and copies, from every search and list. Its file is not touched."""
    try:
        chunk = find_memory(identity, store)
    except NotFound:
        stones = _find_tombstones(identity.strip(), tombstones)
        if not stones:
            _reject_remote_memory(identity.strip(), store)
            raise
        stone = stones[0]
        return DeleteReply(identity, stone.memory, stone.source, 0, changed=False, notes=("it was deleted before",))
    with store.writer(wait_s=_WAIT_S) as writer:
        chunk = find_memory(chunk.id, store)  # it may have changed during the wait
        key = _deletion_key(chunk, store)
        documents = _candidate_documents(chunk, store) if is_in_sync(store, tombstones) else store.documents()
        affected = list(find_deleted(store, documents, tombstones.keys() | {key}))
        ids = tuple(stored.id for _, gone in affected for stored in gone.get(key, ()))
        memory = chunk.chunk.anchor.memory if chunk.chunk.anchor else ""
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
    stones = _find_tombstones(identity, tombstones)
    # An earlier restore may have been interrupted before the files were read again: complete it.
    undone = [] if stones else tombstones.find_restored(identity)
    if not stones and not undone:
        short = f"; at least {_MIN_PREFIX_CHARS} characters are needed" if len(identity) < _MIN_PREFIX_CHARS else ""
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
        shown, notes = _restored_chunks(stone, store), ("it was restored before",)
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


def _restored_chunks(stone: Tombstone, store: Store) -> list[StoredChunk]:
    """Return the chunks of a memory that is shown again."""
    return [stored for name in filter(None, (stone.memory, *stone.ids)) for stored in store.find(name)]


def _reject_remote_memory(identity: str, store: Store) -> None:
    """Raise UsageError for a memory of another machine: it can only be deleted there."""
    matches = store.find_remote(identity) if identity else []
    if matches:
        raise UsageError(
            f"{identity} is a memory of another machine ({matches[0].machine})",
            hint="delete it there; it is then no longer found here",
        )


def _find_tombstones(identity: str, tombstones: Tombstones) -> list[Tombstone]:
    """Return the deletions with this id, or the only one whose id starts with it. Raise UsageError if it is ambiguous."""
    stones = tombstones.find(identity)
    if any(identity in (stone.memory, *stone.ids) for stone in stones):
        return stones
    if len(identity) < _MIN_PREFIX_CHARS:
        return []
    if len(stones) > 1:
        raise UsageError(
            f"{len(stones)} deleted memories have an id that starts with {identity!r}: "
            f"{', '.join(stone.name for stone in stones[:5])}",
            hint="give more of the id",
        )
    return stones


def find_memory(identity: str, store: Store) -> StoredChunk:
    """Return the chunk with an id; of a memory that is in several files, the first."""
    identity = identity.strip()
    matches = store.find(identity) if identity else []
    if matches and all(stored.chunk.anchor and stored.chunk.anchor.memory == identity for stored in matches):
        return min(matches, key=lambda stored: (stored.chunk.source, stored.chunk.start_line))
    return find_chunk(identity, store)


def _deletion_key(chunk: StoredChunk, store: Store) -> str:
    stored = store.chunks_of(chunk.chunk.source)
    keys = deletion_keys((other.chunk for other in stored), chunk.project)
    return next(key for other, key in zip(stored, keys, strict=True) if other.id == chunk.id)


def _candidate_documents(chunk: StoredChunk, store: Store) -> Sequence[Document]:
    """Return the documents that may contain the same memory."""
    memory = chunk.chunk.anchor.memory if chunk.chunk.anchor else ""
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
