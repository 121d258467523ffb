"""Deleted memories whose text is still in a file.

Files belong to the user and are not edited, and the index is derived and must not be the only place that knows a deletion. So
deleting appends a line to a small file beside the index, and every index run omits the chunks named there. A reset or rebuilt
index keeps all deletions. A tombstone holds ids and a hash, never text; the last line about a memory counts.

A memory is identified by its own id. A section without an id is identified by its project, the headings above it and its whole
text: so it stays hidden when its file is renamed or moved within the project, when white space changes, and when long sections are
split differently. An edited section is a new one.

Two values in the index keep it in step with the file, even if another process wrote the deletion. A document's recipe lists the
omitted keys: if one is restored, the next run reads the file again. The index stores the generation of deletions it
reflects: a different one makes the next run check every chunk.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from lorelog.core.document import Chunk, Document, StoredChunk, short_hash
from lorelog.core.ports import DocumentUpdate, Store, StoreWriter
from lorelog.services.memory_state.append_log import AppendLog


class Tombstone(Struct, frozen=True):
    """A deletion of a memory by its id, or of a section by its text, headings and project."""

    key: str
    """A hash, from `deletion_keys`."""
    memory: str
    """The memory's id; empty for a section without one."""
    source: str
    """The file it was deleted in. Other files may contain it too."""
    ids: tuple[str, ...]
    """The ids of its chunks, so that a lookup of one of them finds the deletion."""
    at: str
    """ISO time."""
    deleted: bool = True
    """False on a line that undoes an earlier one."""
    forgotten: bool = False
    """True if the text was erased permanently: it cannot be restored, and must not be captured again."""

    @property
    def name(self) -> str:
        """An id to refer to it by."""
        return self.memory or next(iter(self.ids), self.key)


class Tombstones:
    """The deletions of one tenant. The file is read again whenever another process has changed it."""

    def __init__(self, path: Path) -> None:
        self._file = AppendLog(path, lambda entry: convert(entry, Tombstone), salvage=_salvage_tombstone)
        self._kept: frozenset[str] = frozenset()

    def keys(self) -> frozenset[str]:
        """Return the keys of current deletions, and those kept by `keep_omitted`."""
        return frozenset(self._read()) | self._kept

    def keep_omitted(self, documents: Callable[[], Iterable[Document]]) -> None:
        """If lines of the file cannot be read, keep what the index leaves out now, unless it was restored."""
        if not self._file.bad_lines():
            return
        restored = {stone.key for stone in self._file.lines() if not stone.deleted}
        self._kept = frozenset(key for document in documents() for key in omitted_keys(document)) - restored

    def generation(self) -> str:
        """Return a token that changes with every deletion and restoration and never repeats; empty at first."""
        stones = self._file.lines()
        return short_hash(repr(list(stones))) if stones else ""

    def find(self, identity: str) -> list[Tombstone]:
        """Return the deletions with this chunk or memory id; if there are none, those whose id starts with it."""
        stones = self._read().values()
        exact = [stone for stone in stones if identity in (stone.memory, *stone.ids)] if identity else []
        return exact or [
            stone for stone in stones if any(name.startswith(identity) for name in (stone.memory, *stone.ids))
        ]

    def find_restored(self, identity: str) -> list[Tombstone]:
        """Return the deletions with exactly this chunk or memory id that were undone."""
        last = {stone.key: stone for stone in self._file.lines()}
        return [stone for stone in last.values() if not stone.deleted and identity in (stone.memory, *stone.ids)]

    def all(self) -> Iterable[Tombstone]:
        return self._read().values()

    def damage(self) -> str:
        """Return a sentence about lines that cannot be read, or an empty string."""
        bad = self._file.bad_lines()
        if not bad:
            return ""
        lines = ", ".join(str(number) for number, _ in bad[:5])
        return f"{self._file.path} has lines that cannot be read ({lines}): what they deleted may be shown again"

    def append(self, stones: Iterable[Tombstone]) -> None:
        """Append deletions; they are on disk when this returns."""
        self._file.append(to_builtins(stone) for stone in stones)

    def _read(self) -> dict[str, Tombstone]:
        return self._file.folded(_current_stones)


def _current_stones(stones: Iterable[Tombstone]) -> dict[str, Tombstone]:
    current: dict[str, Tombstone] = {}
    for stone in stones:
        current.pop(stone.key, None)
        if stone.deleted:
            current[stone.key] = stone
    return current


def _salvage_tombstone(line: bytes) -> Tombstone | None:
    """Return the deletion that a malformed line still names: what was deleted must stay deleted."""
    text = line.decode("utf-8", "replace")
    fields = dict(re.findall(r'"(key|memory|source|at)": "([^"\\]*)"', text))
    if "key" not in fields or re.search(r'"deleted": *false', text):
        return None
    ids = tuple(re.findall(r'"([^"\\]*)"', text.partition('"ids": [')[2].partition("]")[0]))
    return Tombstone(fields["key"], fields.get("memory", ""), fields.get("source", ""), ids, fields.get("at", ""))


_GENERATION_NOTE = "deletions"
"""The name of the store's note that holds the generation."""
_OMITTED_MARK = " without "


def deletion_keys(chunks: Iterable[Chunk], project: str) -> list[str]:
    """Return the deletion key of each chunk of a document, given in order."""
    keys: list[str] = []
    for section in _group_sections(chunks):
        anchor = section[0].anchor
        if anchor is not None and anchor.memory:
            key = memory_key(anchor.memory)
        else:
            key = short_hash(json.dumps(["section", project, section[0].heading_path, _section_text(section)]))
        keys += [key] * len(section)
    return keys


def memory_key(memory: str) -> str:
    """Return the deletion key of a memory with an id."""
    return short_hash(json.dumps(["memory", memory]))


def omitted_keys(document: Document) -> frozenset[str]:
    """Return the keys that were omitted when this document was chunked."""
    return frozenset(document.recipe.partition(_OMITTED_MARK)[2].split())


def is_chunked_with(document: Document, recipe: str, deleted: Collection[str]) -> bool:
    """Return whether a document has this recipe and no omitted key has been restored since."""
    return document.recipe.partition(_OMITTED_MARK)[0] == recipe and all(
        key in deleted for key in omitted_keys(document)
    )


def remove_deleted(update: DocumentUpdate, deleted: Collection[str]) -> DocumentUpdate:
    """Return the update without deleted chunks; its recipe lists the omitted keys."""
    if not deleted:
        return update
    document = update.document
    keys = deletion_keys(update.chunks, document.project)
    gone = [key for key in keys if key in deleted]
    if not gone:
        return update
    recipe = (
        document.recipe.partition(_OMITTED_MARK)[0] + _OMITTED_MARK + " ".join(sorted({*gone, *omitted_keys(document)}))
    )
    kept = tuple(chunk for chunk, key in zip(update.chunks, keys, strict=True) if key not in deleted)
    return replace(update, document=replace(document, recipe=recipe), chunks=kept)


def is_in_sync(store: Store, tombstones: Tombstones) -> bool:
    """Return whether the index reflects all deletions."""
    return store.get_note(_GENERATION_NOTE) == tombstones.generation()


def mark_in_sync(writer: StoreWriter, tombstones: Tombstones) -> None:
    """Record that the index reflects all deletions."""
    writer.set_note(_GENERATION_NOTE, tombstones.generation())


def apply_missed_deletions(store: Store, writer: StoreWriter, tombstones: Tombstones) -> None:
    """Remove deleted chunks that an interrupted process, or one with another index, left in this one."""
    if is_in_sync(store, tombstones):
        return
    updates = [update for update, _ in find_deleted(store, store.documents(), tombstones.keys())]
    if updates:
        writer.put(updates)
    mark_in_sync(writer, tombstones)


def find_deleted(
    store: Store, documents: Iterable[Document], deleted: Collection[str]
) -> Iterator[tuple[DocumentUpdate, dict[str, list[StoredChunk]]]]:
    """Yield documents that contain deleted chunks: the update without them, and those chunks by key. Reads no file."""
    for document in documents:
        stored = store.chunks_of(document.source)
        gone: dict[str, list[StoredChunk]] = {}
        chunks = tuple(entry.chunk for entry in stored)
        for entry, key in zip(stored, deletion_keys(chunks, document.project), strict=True):
            if key in deleted:
                gone.setdefault(key, []).append(entry)
        if gone:
            yield remove_deleted(DocumentUpdate(document, chunks), deleted), gone


def _group_sections(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    section: list[Chunk] = []
    for chunk in chunks:
        if section and (chunk.piece <= section[-1].piece or chunk.heading_path != section[-1].heading_path):
            yield section
            section = []
        section.append(chunk)
    if section:
        yield section


def _section_text(section: Sequence[Chunk]) -> str:
    """Return a section's text without white space. Pieces overlap, and share lines that are too long for one."""
    lines: dict[int, str] = {}
    for piece in section:
        for number, line in enumerate(piece.content.split("\n"), piece.start_line):
            bare = "".join(line.split())
            if lines.get(number) != bare:
                lines[number] = lines.get(number, "") + bare
    return "".join(lines[number] for number in sorted(lines))
