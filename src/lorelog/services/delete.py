"""Deleting softly: a memory leaves the index and stays in its file, and can be brought back.

What is deleted is written down while nobody else may write the index. Whoever puts a document looks at the deletions under
the same lock, so a run that is under way cannot bring back what it had read before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from lorelog.core.document import Document, SourceFile, Stamp, StoredChunk
from lorelog.core.errors import NotFound, StoreError, UsageError
from lorelog.core.memory import DeleteReply, GetReply
from lorelog.core.ports import Store
from lorelog.services.coverings import Coverings
from lorelog.services.expand import find_anywhere, find_chunk
from lorelog.services.hiding import hidden_in, is_in_step, keys_of, left_out, note_step
from lorelog.services.index import IndexJob, IndexRun
from lorelog.services.roots import Root
from lorelog.services.tombstones import Tombstone, Tombstones

_SHORTEST = 4
"""Characters of an id that are enough to mean one: fewer are a slip of the hand."""
_MOST_FOUND = 10
"""As many chunks as a store returns for an id; there may be more of them."""
_WAIT_S = 30.0


def get(identity: str, store: Store, tombstones: Tombstones) -> GetReply:
    """Return a memory by its id, or that it is deleted, or that there is none."""
    try:
        return GetReply(find_anywhere(identity, store))
    except NotFound:
        found = _deleted(identity.strip(), tombstones)
        return GetReply(deleted_at=found[0].at if found else "")


def delete(identity: str, store: Store, tombstones: Tombstones) -> DeleteReply:
    """Hide a memory, with all its pieces and copies, from every search and list. Its file is not touched."""
    try:
        chunk = find_memory(identity, store)
    except NotFound:
        known = _deleted(identity.strip(), tombstones)
        if not known:
            _check_not_elsewhere(identity.strip(), store)
            raise
        stone = known[0]
        return DeleteReply(identity, stone.memory, stone.source, 0, changed=False, notes=("it was deleted before",))
    with store.writer(wait_s=_WAIT_S) as writer:
        chunk = find_memory(chunk.id, store)  # it may have gone while we waited
        key = _key(chunk, store)
        documents = _holders(chunk, store) if is_in_step(store, tombstones) else store.documents()
        found = list(hidden_in(store, documents, tombstones.keys() | {key}))
        ids = tuple(one.id for _, gone in found for one in gone.get(key, ()))
        memory = chunk.chunk.anchor.memory if chunk.chunk.anchor else ""
        tombstones.append([Tombstone(key, memory, chunk.chunk.source, ids, _now())])
        notes = tuple(
            f"the summary {one} may still say it: 'lorelog delete {one}' hides that, too"
            for one in Coverings(store.coverings()).of(chunk)
        )
        try:
            writer.put([update for update, _ in found])
            note_step(writer, tombstones)
        except StoreError as error:  # it holds: the next run sees that the index did not follow
            notes = (*notes, f"written down, but still found until the next index run: {error.message}")
    return DeleteReply(chunk.id, memory, chunk.chunk.source, len(ids), changed=True, notes=notes)


def restore(identity: str, store: Store, tombstones: Tombstones, job: IndexJob) -> DeleteReply:
    """Bring a deleted memory back, as its file has it now."""
    identity = identity.strip()
    if not identity:
        raise UsageError("an id is needed", hint="'lorelog delete' shows the id of what it hides")
    found = _deleted(identity, tombstones)
    if not found:
        short = f"; at least {_SHORTEST} characters are needed" if len(identity) < _SHORTEST else ""
        raise NotFound(f"nothing deleted has an id that starts with {identity!r}{short}", hint="'lorelog get ID' tells")
    keys = {stone.key for stone in found}
    with store.writer(wait_s=_WAIT_S) as writer:
        in_step = is_in_step(store, tombstones)
        tombstones.append([replace(stone, at=_now(), deleted=False) for stone in found])
        if in_step:
            note_step(writer, tombstones)
        # From here on any index run reads these again; it is only sooner to do it now.
        documents = [one for one in store.documents() if keys & left_out(one)]
    notes = _read_again(documents, store, job)
    shown = [one for document in documents for one in _chunks(document.source, keys, store)]
    stone = found[0]
    if not shown and not notes:
        notes = ("its text is in no indexed file now; it is shown again once it is",)
    return DeleteReply(
        id=shown[0].id if shown else next(iter(stone.ids), identity),
        memory=stone.memory,
        source=shown[0].chunk.source if shown else stone.source,
        chunks=len(shown),
        changed=True,
        notes=notes,
    )


def _check_not_elsewhere(identity: str, store: Store) -> None:
    """Raise UsageError for a memory of another machine: only there can it be deleted."""
    there = store.find_elsewhere(identity) if identity else []
    if there:
        raise UsageError(
            f"{identity} is a memory of another machine ({there[0].machine})",
            hint="delete it there: it is not found here any more from then on",
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _deleted(identity: str, tombstones: Tombstones) -> list[Tombstone]:
    """Return what is deleted under this id or, of an id's beginning, the only one. Raise UsageError where it means several."""
    found = tombstones.find(identity)
    if any(identity in (stone.memory, *stone.ids) for stone in found):
        return found
    if len(identity) < _SHORTEST:
        return []
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} deleted memories have an id that starts with {identity!r}: "
            f"{', '.join(stone.name for stone in found[:5])}",
            hint="give more of the id",
        )
    return found


def find_memory(identity: str, store: Store) -> StoredChunk:
    """Return the chunk that an id names; of a memory that stands in several files, which all go, the first."""
    identity = identity.strip()
    found = store.find(identity) if identity else []
    if found and all(one.chunk.anchor and one.chunk.anchor.memory == identity for one in found):
        return min(found, key=lambda one: (one.chunk.source, one.chunk.start_line))
    return find_chunk(identity, store)


def _key(chunk: StoredChunk, store: Store) -> str:
    stored = store.chunks_of(chunk.chunk.source)
    keys = keys_of((one.chunk for one in stored), chunk.project)
    return next(key for one, key in zip(stored, keys, strict=True) if one.id == chunk.id)


def _holders(chunk: StoredChunk, store: Store) -> Sequence[Document]:
    """Return the documents that may hold the same."""
    memory = chunk.chunk.anchor.memory if chunk.chunk.anchor else ""
    if not memory:
        return [one for one in store.documents() if one.project == chunk.project]
    found = store.find(memory)
    if len(found) >= _MOST_FOUND:
        return store.documents()
    sources = dict.fromkeys(one.chunk.source for one in found)
    return [document for source in sources if (document := store.document(source)) is not None]


def _chunks(source: str, keys: set[str], store: Store) -> list[StoredChunk]:
    stored = store.chunks_of(source)
    found = keys_of((one.chunk for one in stored), stored[0].project if stored else "")
    return [one for one, key in zip(stored, found, strict=True) if key in keys]


def _read_again(documents: Sequence[Document], store: Store, job: IndexJob) -> tuple[str, ...]:
    """Cut files anew, each under the root it was indexed from, whether that is still known or not."""
    files: list[SourceFile] = []
    notes: list[str] = []
    for document in documents:
        try:
            files.append(SourceFile(document.source, document.root, Stamp.of(Path(document.source).lstat())))
        except OSError as error:
            notes.append(f"{document.source} cannot be read now: {error.strerror}")
    roots = tuple({one.root: Root(one.root, one.project) for one in documents}.values())
    try:
        report = IndexRun(store, None, replace(job, roots=roots, force=True)).over_files(files)
    except StoreError as error:
        return (*notes, f"written down, and shown again with the next index run: {error.message}")
    return (*notes, *(problem.message for problem in report.problems))
