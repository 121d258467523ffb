"""What deletions mean for a document: which of its chunks are left out, and when that changes.

A memory is known by its own id. A section without one is known by its project, the headings above it and what it says, all
pieces together: so it stays hidden when its file is renamed or moved within the project, when white space changes, and when
long sections are cut otherwise. An edited section is a new one.

Two things keep the index in step, and both work whoever wrote the deletion down. A document notes in its recipe which keys were
left out of it: one that is no longer deleted makes the next run read the file again. The index notes up to which
generation of deletions it has been looked through: another one makes the next run look at every chunk.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from lorelog.core.document import Chunk, Document, StoredChunk, short_hash
from lorelog.core.ports import DocumentUpdate, Store, StoreWriter
from lorelog.services.tombstones import Tombstones

_NOTED = "deletions"
_WITHOUT = " without "


def keys_of(chunks: Iterable[Chunk], project: str) -> list[str]:
    """Return what each chunk of a document, given in order, would be deleted as."""
    keys: list[str] = []
    for section in _sections(chunks):
        anchor = section[0].anchor
        if anchor is not None and anchor.memory:
            key = memory_key(anchor.memory)
        else:
            key = short_hash(json.dumps(["section", project, section[0].heading_path, _said(section)]))
        keys += [key] * len(section)
    return keys


def memory_key(memory: str) -> str:
    """Return what a memory with an id of its own is deleted as."""
    return short_hash(json.dumps(["memory", memory]))


def left_out(document: Document) -> frozenset[str]:
    """Return the keys of what was deleted when this document was cut."""
    return frozenset(document.recipe.partition(_WITHOUT)[2].split())


def is_cut_by(document: Document, recipe: str, deleted: Collection[str]) -> bool:
    """Say whether a document was cut so, and nothing was left out of it that is not deleted any more."""
    return document.recipe.partition(_WITHOUT)[0] == recipe and all(key in deleted for key in left_out(document))


def without_deleted(update: DocumentUpdate, deleted: Collection[str]) -> DocumentUpdate:
    """Return the update without what is deleted, and with a note of that."""
    if not deleted:
        return update
    document = update.document
    keys = keys_of(update.chunks, document.project)
    gone = [key for key in keys if key in deleted]
    if not gone:
        return update
    recipe = document.recipe.partition(_WITHOUT)[0] + _WITHOUT + " ".join(sorted({*gone, *left_out(document)}))
    kept = tuple(chunk for chunk, key in zip(update.chunks, keys, strict=True) if key not in deleted)
    return DocumentUpdate(replace(document, recipe=recipe), kept)


def is_in_step(store: Store, tombstones: Tombstones) -> bool:
    """Say whether the index holds nothing that is deleted, as far as it knows."""
    return store.remark(_NOTED) == tombstones.generation()


def note_step(writer: StoreWriter, tombstones: Tombstones) -> None:
    """Note that the index holds nothing that is deleted."""
    writer.remark(_NOTED, tombstones.generation())


def hide_missed(store: Store, writer: StoreWriter, tombstones: Tombstones) -> None:
    """Take out of the index what was deleted and never followed: by someone who was stopped, or in another place."""
    if is_in_step(store, tombstones):
        return
    found = [update for update, _ in hidden_in(store, store.documents(), tombstones.keys())]
    if found:
        writer.put(found)
    note_step(writer, tombstones)


def hidden_in(
    store: Store, documents: Iterable[Document], deleted: Collection[str]
) -> Iterator[tuple[DocumentUpdate, dict[str, list[StoredChunk]]]]:
    """Yield the documents that hold something deleted: without it, and what that is by key. No file is read."""
    for document in documents:
        stored = store.chunks_of(document.source)
        gone: dict[str, list[StoredChunk]] = {}
        for one, key in zip(stored, keys_of((one.chunk for one in stored), document.project), strict=True):
            if key in deleted:
                gone.setdefault(key, []).append(one)
        if gone:
            yield without_deleted(DocumentUpdate(document, tuple(one.chunk for one in stored)), deleted), gone


def _sections(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    section: list[Chunk] = []
    for chunk in chunks:
        if section and (chunk.piece <= section[-1].piece or chunk.heading_path != section[-1].heading_path):
            yield section
            section = []
        section.append(chunk)
    if section:
        yield section


def _said(section: Sequence[Chunk]) -> str:
    """Return the section's text without white space. Pieces repeat lines, and share those that were too long for one."""
    lines: dict[int, str] = {}
    for piece in section:
        for number, line in enumerate(piece.content.split("\n"), piece.start_line):
            bare = "".join(line.split())
            if lines.get(number) != bare:
                lines[number] = lines.get(number, "") + bare
    return "".join(lines[number] for number in sorted(lines))
