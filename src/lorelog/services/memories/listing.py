"""List documents and memories, newest first, and show the whole section around one from its file.

Record pages are not memories: tasks and the ledger list those. Only indexed files are read, and only if they are inside
their root: an id must not give access to any other file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from lorelog.core.document import Anchor, Chunk, FileStamp, SourceFile, StoredChunk
from lorelog.core.errors import NotFound, SourceError, UsageError, nearest_name
from lorelog.core.ids import parse_cited_id
from lorelog.core.memory import ExpandReply, GetReply, ListReply
from lorelog.core.options import ListOptions
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import NO_LIFECYCLE_STATE, Filters, Hit
from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex
from lorelog.services.memory_state.tombstones import Tombstone, Tombstones
from lorelog.services.places.roots import Root

MIN_ID_CHARS = 4
"""Shortest accepted prefix of the id of a chunk or memory."""
_MAX_CANDIDATES = 5
_MAX_LINE_CHARS = 60
_MAX_NAMES = 12
"""Types or tags named by a note, the most frequent first."""


def list_documents(store: Store, filters: Filters, limit: int, lifecycle: LifecycleIndex) -> ListReply:
    """Return matching documents, newest first. Raise UsageError for types and tags, which only memories have."""
    if filters.types or filters.tags:
        raise UsageError("documents have no type or tags", hint="list memories, without --documents")
    documents = [
        document
        for document in store.documents()
        if not lifecycle.is_page(document.source)
        and _is_placed(filters, document.source, document.project, document.date)
    ]
    documents.sort(key=lambda document: (document.date, document.source), reverse=True)
    return ListReply(tuple(documents[:limit]), (), more=len(documents) > limit)


def list_memories(
    store: Store,
    filters: Filters,
    limit: int,
    lifecycle: LifecycleIndex,
    options: ListOptions,
    *,
    is_open: Callable[[StoredChunk], bool] = lambda _: False,
) -> ListReply:
    """Return matching memories, newest first; a section that was split into pieces is one memory.

    Superseded and expired ones are included only if the options say so. `is_open` tells of a statement that nobody filed: it is left out.
    """
    notes: tuple[str, ...] = ()
    if options.due:  # the longest due first
        due = (
            stored
            for memory in lifecycle.due()
            for stored in store.find(memory)
            if stored.chunk.piece == 0 and stored.chunk.memory == memory
        )
        shown = [stored for stored in due if matches_filters(filters, stored) and not lifecycle.hides(stored, options)]
    else:
        shown, fetched = [], limit + 1
        while True:
            memories = store.recent(filters, fetched)
            shown = [
                stored
                for stored in memories
                if not (lifecycle.is_record(stored) or lifecycle.hides(stored, options) or is_open(stored))
            ]
            notes = (
                ("statements that nobody filed are left out: lorelog review",) if any(map(is_open, memories)) else ()
            )
            if len(shown) > limit or len(memories) < fetched:
                break
            fetched = 2 * fetched + limit + 1 - len(shown)
    states = {
        stored.id: state for stored in shown[:limit] if (state := lifecycle.shown_state(stored)) != NO_LIFECYCLE_STATE
    }
    return ListReply((), tuple(shown[:limit]), more=len(shown) > limit, lifecycles=states, notes=notes)


def explain_filters(store: Store, filters: Filters) -> tuple[str, ...]:
    """Return a note for each type or tag that nothing here has, with those that there are, and for a path that is not indexed."""
    projects = Filters(projects=filters.projects)
    notes = [
        _explain_unknown("type", name, known) for name in filters.types if name not in (known := store.types(projects))
    ]
    notes += [
        _explain_unknown("tag", name, known) for name in filters.tags if name not in (known := store.tags("", projects))
    ]
    prefix = filters.source_prefix
    if prefix and not store.recent(Filters(projects=filters.projects, source_prefix=prefix), 1):
        notes.append(f"nothing is indexed at or below {prefix}; 'lorelog index --list' lists the indexed paths")
    return tuple(notes)


def _explain_unknown(kind: str, name: str, known: Mapping[str, int]) -> str:
    near = nearest_name(name, known)
    guess = f" (did you mean {near!r}?)" if near else ""
    common = sorted(known, key=lambda other: (-known[other], other))
    others = f"; {kind}s: {', '.join(common[:_MAX_NAMES])}{', …' if len(common) > _MAX_NAMES else ''}" if known else ""
    return f"there is no {kind} {name!r} here{guess}{others}"


def matches_filters(filters: Filters, stored: StoredChunk) -> bool:
    chunk = stored.chunk
    of_kind = (not filters.types or chunk.type in filters.types) and set(filters.tags) <= set(chunk.tags)
    return of_kind and _is_placed(filters, chunk.source, stored.project, chunk.date[:10])


def _is_placed(filters: Filters, source: str, project: str, day: str) -> bool:
    """Return whether project, path and day of a file or memory are admitted."""
    return (
        (filters.projects is None or project in filters.projects)
        and (not filters.source_prefix or is_below(source, filters.source_prefix))
        and (not filters.since or day >= filters.since)
        and (not filters.until or (day != "" and day <= filters.until))
    )


def expand(identity: str, store: Store, *, lines: int | None = None) -> ExpandReply:
    """Return the section around a chunk, or `lines` lines before and after it."""
    if lines is not None and lines < 0:
        raise UsageError(f"--lines must not be negative: {lines}")
    stored = find_chunk_anywhere(identity, store)
    chunk, transcript, text = stored.chunk, "", None
    if stored.machine:  # neither its file nor its transcript is here
        note = f"its file is on another machine ({stored.machine}); showing the text as it was indexed there"
    else:
        document = store.document(chunk.source)
        if document is None:
            raise NotFound(f"{chunk.source} was just removed from the index", hint="search again")
        transcript = _transcript_address(chunk.anchor, chunk.source)
        text, note = read_current_text(chunk, Root(document.root, document.project), document.file_hash)
    if text is None:
        content, start, end = chunk.content, chunk.start_line, chunk.end_line
    else:
        rows = text.split("\n")
        if lines is None:
            from lorelog.ingest.outline import section_bounds

            start, end = section_bounds(text, chunk.source, chunk.start_line, chunk.heading_level)
        else:
            start, end = max(1, chunk.start_line - lines), min(len(rows), chunk.end_line + lines)
        content = "\n".join(rows[start - 1 : end])
    return ExpandReply(
        chunk=stored,
        content=content,
        start_line=start,
        end_line=end,
        transcript=transcript,
        notes=(note,) if note else (),
        tokens=estimate_tokens(content),
    )


def find_chunk(identity: str, store: Store) -> StoredChunk:
    """Return the chunk with an id or memory id, or the prefix of one."""
    identity = identity.strip()
    if not identity:
        raise UsageError("an id is needed", hint="'lorelog search' shows the id of each hit")
    matches = store.find(identity)
    if not matches and parse_cited_id(identity) != identity:
        return find_chunk(parse_cited_id(identity), store)
    if not matches:
        raise NotFound(
            f"no chunk or memory has an id that starts with {identity!r}",
            hint="ids change with their text; search again for the current one",
        )
    exact = [stored for stored in matches if stored.id == identity]
    if len(identity) < MIN_ID_CHARS and not exact and all(stored.chunk.memory != identity for stored in matches):
        raise UsageError(f"{identity!r} is too short for an id", hint=f"give at least {MIN_ID_CHARS} characters of it")
    if len(matches) > 1 and not exact:
        # Pieces of one long entry share its memory id; return the first.
        sections = {
            (
                stored.chunk.source,
                stored.chunk.heading_path,
                stored.chunk.anchor and replace(stored.chunk.anchor, covers=()),
            )
            for stored in matches
        }
        # A summary cites its sources by content hash, and the same content may be in two files.
        contents = {stored.chunk.content_hash for stored in matches}
        is_cited = len(contents) == 1 and contents.pop().startswith(identity)
        if len(sections) > 1 and not is_cited:
            raise _ambiguous_error(identity, matches)
        return min(matches, key=lambda stored: stored.chunk.start_line)
    return (exact or matches)[0]


def _ambiguous_error(identity: str, matches: Sequence[StoredChunk]) -> UsageError:
    """Return the error for a prefix of several ids, with the id that has the prefix and the line of each."""
    named = {
        next((name for name in names if name.startswith(identity)), stored.id): stored
        for stored in reversed(matches)
        for names in [(stored.id, stored.chunk.memory, stored.chunk.content_hash)]
    }
    shown = [
        f"{name} ({Path(stored.chunk.source).name}:{stored.chunk.start_line} {_first_line(stored.chunk)})"
        for name, stored in sorted(named.items())[:_MAX_CANDIDATES]
    ]
    more = f"; and {len(named) - len(shown)} more" if len(named) > len(shown) else ""
    return UsageError(f"{len(named)} ids start with {identity!r}", hint=f"give more of it: {'; '.join(shown)}{more}")


def _first_line(chunk: Chunk) -> str:
    """Return the beginning of a chunk's text, without its anchor and heading."""
    lines = (line.strip() for line in chunk.text.split("\n"))
    line = next((line for line in lines if line and not line.startswith(("<!--", "#"))), chunk.heading)
    return line if len(line) <= _MAX_LINE_CHARS else line[: _MAX_LINE_CHARS - 1] + "…"


def find_chunk_anywhere(identity: str, store: Store) -> StoredChunk:
    """Return the chunk with an id, here or on another machine that shares the store."""
    try:
        return find_chunk(identity, store)
    except NotFound:
        matches = store.find_remote(identity.strip())
        if not matches:
            raise
        exact = [stored for stored in matches if stored.id == identity.strip()]
        return (exact or sorted(matches, key=lambda stored: stored.chunk.start_line))[0]


def get_memory(identity: str, store: Store, tombstones: Tombstones) -> GetReply:
    """Return a memory by its id, or when it was deleted, or an empty reply."""
    try:
        return GetReply(find_chunk_anywhere(identity, store))
    except NotFound:
        stones = find_tombstones(identity.strip(), tombstones)
        forgotten = next((stone for stone in stones if stone.forgotten), None)
        last = forgotten or next(iter(stones), None)
        return GetReply(deleted_at=last.at if last else "", forgotten=forgotten is not None)


def find_tombstones(identity: str, tombstones: Tombstones) -> list[Tombstone]:
    """Return the deletions with this id, or the only one whose id starts with it. Raise UsageError if it is ambiguous."""
    stones = tombstones.find(identity)
    if any(identity in (stone.memory, *stone.ids) for stone in stones):
        return stones
    if len(identity) < MIN_ID_CHARS:
        return []
    if len(stones) > 1:
        raise UsageError(
            f"{len(stones)} deleted memories have an id that starts with {identity!r}: "
            f"{', '.join(stone.name for stone in stones[:5])}",
            hint="give more of the id",
        )
    return stones


def read_current_text(chunk: Chunk | Hit, root: Root, known_hash: str) -> tuple[str | None, str]:
    """Return the file's current text, or None with the reason why the stored text must be used."""
    from lorelog.ingest.files import read_text

    source = chunk.source
    if os.path.realpath(source) != source or not root.holds(source):
        return None, "the file is now a link to somewhere else; showing the text as it was indexed"
    try:
        content = read_text(SourceFile(source, root.path, FileStamp(0, 0, 0)))
    except SourceError as error:
        return None, f"{error.message}; showing the text as it was indexed"
    text = content.text
    if content.digest == known_hash:
        return text, ""
    if chunk.content in text:
        line = text[: text.index(chunk.content)].count("\n") + 1
        if line == chunk.start_line:
            return text, "the file has changed since it was indexed; the section is as it is now"
    return (
        None,
        "the file has changed since it was indexed; showing the text as it was ('lorelog index' refreshes it)",
    )


def _transcript_address(anchor: Anchor | None, source: str) -> str:
    """Return the path or URL of the anchor's conversation; relative paths start at the journal."""
    if anchor is None or not anchor.transcript:
        return ""
    if "://" in anchor.transcript:
        return anchor.transcript
    try:
        return str(Path(source).parent / Path(anchor.transcript).expanduser())
    except RuntimeError:  # unknown user
        return anchor.transcript
