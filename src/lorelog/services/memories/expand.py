"""Show the whole section around a hit, from its file.

Only indexed files are read, and only if they are inside their root: an id must not give access to any other file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from lorelog.core.document import Anchor, Chunk, FileStamp, SourceFile, StoredChunk
from lorelog.core.errors import NotFound, SourceError, UsageError
from lorelog.core.ids import parse_cited_id
from lorelog.core.memory import ExpandReply
from lorelog.core.ports import Store
from lorelog.core.query import Hit
from lorelog.ingest.files import read_text
from lorelog.ingest.outline import section_bounds
from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.services.places.roots import Root

MIN_ID_CHARS = 4
"""Shortest accepted prefix of the id of a chunk or memory."""
_MAX_CANDIDATES = 5
_MAX_LINE_CHARS = 60


def expand(identity: str, store: Store, *, lines: int | None = None) -> ExpandReply:
    """Return the section around a chunk, or `lines` lines before and after it."""
    if lines is not None and lines < 0:
        raise UsageError(f"--lines must not be negative: {lines}")
    stored = find_chunk_anywhere(identity, store)
    if stored.machine:
        return _expand_remote(stored)
    chunk = stored.chunk
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
    if len(identity) < MIN_ID_CHARS and not exact and not _is_memory_id(identity, matches):
        raise UsageError(f"{identity!r} is too short for an id", hint=f"give at least {MIN_ID_CHARS} characters of it")
    if len(matches) > 1 and not exact:
        # Pieces of one long entry share its memory id; return the first.
        sections = {
            (stored.chunk.source, stored.chunk.heading_path, _section_anchor(stored.chunk.anchor)) for stored in matches
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
    named = {_matching_id(stored, identity): stored for stored in reversed(matches)}
    shown = [
        f"{name} ({Path(stored.chunk.source).name}:{stored.chunk.start_line} {_first_line(stored.chunk)})"
        for name, stored in sorted(named.items())[:_MAX_CANDIDATES]
    ]
    more = f"; and {len(named) - len(shown)} more" if len(named) > len(shown) else ""
    return UsageError(f"{len(named)} ids start with {identity!r}", hint=f"give more of it: {'; '.join(shown)}{more}")


def _is_memory_id(identity: str, matches: Sequence[StoredChunk]) -> bool:
    return any(stored.chunk.anchor is not None and stored.chunk.anchor.memory == identity for stored in matches)


def _matching_id(stored: StoredChunk, prefix: str) -> str:
    """Return the id of a chunk that has the prefix: its own, its memory's, or the hash of its content."""
    memory = stored.chunk.anchor.memory if stored.chunk.anchor else ""
    candidates = (stored.id, memory, stored.chunk.content_hash)
    return next((name for name in candidates if name.startswith(prefix)), stored.id)


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


def _expand_remote(stored: StoredChunk) -> ExpandReply:
    """Return a chunk of another machine as stored: neither its file nor its transcript is here."""
    chunk = stored.chunk
    return ExpandReply(
        chunk=stored,
        content=chunk.content,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        transcript="",
        notes=(f"its file is on another machine ({stored.machine}); showing the text as it was indexed there",),
        tokens=estimate_tokens(chunk.content),
    )


def _section_anchor(anchor: Anchor | None) -> Anchor | None:
    """Return the part of an anchor that all pieces of a section share."""
    return anchor and replace(anchor, covers=())


def read_current_text(chunk: Chunk | Hit, root: Root, known_hash: str) -> tuple[str | None, str]:
    """Return the file's current text, or None with the reason why the stored text must be used."""
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
