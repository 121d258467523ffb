"""Showing the whole section around a hit, from the file itself.

Only files that the index knows are read, and only where they lie inside the root they were indexed under: an id is
not a way to read anything else.
"""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

from lorelog.core.document import Anchor, Chunk, SourceFile, Stamp, StoredChunk
from lorelog.core.errors import NotFound, SourceError, UsageError
from lorelog.core.identity import cited_id
from lorelog.core.memory import ExpandReply
from lorelog.core.ports import Store
from lorelog.core.query import Hit
from lorelog.ingest.bounds import section_bounds
from lorelog.ingest.scan import read_text
from lorelog.retrieval.cost import estimate_tokens
from lorelog.services.roots import Root

_BYTES_A_TOKEN = 2.7
"""Of a transcript, which is mostly JSON: 2.5 to 2.9 on eight of Claude Code and OpenCode, with Claude 2's tokenizer."""


def expand(identity: str, store: Store, *, lines: int | None = None) -> ExpandReply:
    """Return the section around a chunk, or `lines` lines before and after it."""
    if lines is not None and lines < 0:
        raise UsageError(f"--lines must not be negative: {lines}")
    stored = find_anywhere(identity, store)
    if stored.machine:
        return _as_kept(stored)
    chunk = stored.chunk
    document = store.document(chunk.source)
    if document is None:
        raise NotFound(f"{chunk.source} has just left the index", hint="search again")
    transcript = _transcript(chunk.anchor, chunk.source)
    text, note = text_now(chunk, Root(document.root, document.project), document.file_hash)
    if text is None:
        content, start, end = chunk.content, chunk.start_line, chunk.end_line
    else:
        rows = text.split("\n")
        if lines is None:
            start, end = section_bounds(text, chunk.start_line, chunk.heading_level)
        else:
            start, end = max(1, chunk.start_line - lines), min(len(rows), chunk.end_line + lines)
        content = "\n".join(rows[start - 1 : end])
    return ExpandReply(
        chunk=stored,
        content=content,
        start_line=start,
        end_line=end,
        transcript=transcript,
        transcript_exists=bool(transcript) and os.path.exists(transcript),  # noqa: PTH110
        notes=(note,) if note else (),
        tokens=estimate_tokens(content),
        transcript_tokens=_transcript_tokens(transcript),
    )


def find_chunk(identity: str, store: Store) -> StoredChunk:
    """Return the chunk that an id, a memory's id, or the beginning of either names."""
    identity = identity.strip()
    if not identity:
        raise UsageError("an id is needed", hint="'lorelog search' shows the id of each hit")
    found = store.find(identity)
    if not found and cited_id(identity) != identity:
        return find_chunk(cited_id(identity), store)
    if not found:
        raise NotFound(
            f"no chunk or memory has an id that starts with {identity!r}",
            hint="ids change when their lines do: search again for the current one",
        )
    exact = [one for one in found if one.id == identity]
    if len(found) > 1 and not exact:
        # Pieces of one long entry share its memory id; the first of them stands for all.
        sections = {(one.chunk.source, one.chunk.heading_path, _whose(one.chunk.anchor)) for one in found}
        # A summary cites what it sums up by its content, which may stand in two places.
        contents = {one.chunk.content_hash for one in found}
        is_cited = len(contents) == 1 and contents.pop().startswith(identity)
        if len(sections) > 1 and not is_cited:
            raise UsageError(
                f"{len(found)} ids start with {identity!r}: {', '.join(one.id for one in found[:5])}",
                hint="give more of the id",
            )
        return min(found, key=lambda one: one.chunk.start_line)
    return (exact or found)[0]


def find_anywhere(identity: str, store: Store) -> StoredChunk:
    """Return the chunk that an id names here, or else on another machine whose chunks are found here."""
    try:
        return find_chunk(identity, store)
    except NotFound:
        there = store.find_elsewhere(identity.strip())
        if not there:
            raise
        exact = [one for one in there if one.id == identity.strip()]
        return (exact or sorted(there, key=lambda one: one.chunk.start_line))[0]


def _as_kept(stored: StoredChunk) -> ExpandReply:
    """Return a chunk of another machine as the store holds it: neither its file nor its conversation is here."""
    chunk = stored.chunk
    return ExpandReply(
        chunk=stored,
        content=chunk.content,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        transcript="",
        transcript_exists=False,
        notes=(f"its file is on another machine ({stored.machine}); showing the text as it was indexed there",),
        tokens=estimate_tokens(chunk.content),
        transcript_tokens=None,
    )


def _whose(anchor: Anchor | None) -> Anchor | None:
    """Return what is the same for all pieces of a section."""
    return anchor and replace(anchor, covers=())


def text_now(chunk: Chunk | Hit, root: Root, known_hash: str) -> tuple[str | None, str]:
    """Return the file's text as it is now, or None with the reason why the stored lines must do."""
    source = chunk.source
    if os.path.realpath(source) != source or not root.holds(source):
        return None, "the file is now a link to somewhere else; showing the text as it was indexed"
    try:
        text, digest = read_text(SourceFile(source, root.path, Stamp(0, 0, 0)))
    except SourceError as error:
        return None, f"{error.message}; showing the text as it was indexed"
    if digest == known_hash:
        return text, ""
    if chunk.content in text:
        here = text[: text.index(chunk.content)].count("\n") + 1
        if here == chunk.start_line:
            return text, "the file has changed since it was indexed; the section is as it is now"
    return (
        None,
        "the file has changed since it was indexed; showing the text as it was ('lorelog index' refreshes it)",
    )


def _transcript(anchor: Anchor | None, source: str) -> str:
    """Return where the anchor's conversation lies: relative addresses start at the journal, and URLs stay as they are."""
    if anchor is None or not anchor.transcript:
        return ""
    if "://" in anchor.transcript:
        return anchor.transcript
    try:
        return str(Path(source).parent / Path(anchor.transcript).expanduser())
    except RuntimeError:  # nobody of that name has a home here
        return anchor.transcript


def _transcript_tokens(transcript: str) -> int | None:
    """Return about what the whole conversation would cost, by the size of its file; None where that is no file."""
    try:
        status = Path(transcript).stat() if transcript else None
    except (OSError, ValueError):
        return None
    return round(status.st_size / _BYTES_A_TOKEN) if status and stat.S_ISREG(status.st_mode) else None
