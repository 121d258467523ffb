"""Documents and chunks: a Markdown file as the index stores it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import force_setattr

from lorelog.core.ids import sha256
from lorelog.core.serializable import Serializable

TURN_TYPE = "turn"
"""Type of the note that capture writes about a turn."""
ARCHIVE_TYPE = "archive"
"""Type of imported records of the past, such as conversations: found by a search, never shown by a hook."""
GLOBAL_PROJECT = ""
"""Project of the memories that belong to no project and are visible in all."""

DATE_IN_TEXT, DATE_OF_FILE = "text", "file"
"""Sources of a date: the text states it (in its headings, front matter or file name), or it is that of the last change."""

HEADING_SEPARATOR = " > "
# Compiled at first use, by the cache of `re`: a search needs none of them.
_TIMESTAMP_PATTERN = r"(?:session[ \t]+)?(?:\d{4}-\d\d-\d\d)?[T \t]*(?:\d{1,2}:\d\d(?::\d\d)?)?"
_RECORD_HEADING_PATTERN = r"\d{4}-\d\d-\d\d \d\d:\d\d [a-z ]{1,40} #\d+(?: by [^\n]*)?"
"""Heading of a record: time, kind, number, agent."""
_UNINFORMATIVE_TITLE = rf"(?i){_TIMESTAMP_PATTERN}|{_RECORD_HEADING_PATTERN}"
_UNINFORMATIVE_HEADING = rf"(?i)\A#{{1,6}}[ \t]+(?:{_RECORD_HEADING_PATTERN}|{_TIMESTAMP_PATTERN})[ \t]*(?:\n+|\Z)"
"""Headings that say nothing about the text below them."""


class FileStamp(Struct, frozen=True):
    """A file's metadata from the file system, without its contents."""

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def from_stat(cls, status: os.stat_result) -> FileStamp:
        """Return the stamp of a file's status, truncated to signed 64 bits: some file systems have larger inode
        numbers.
        """
        most = 0x7FFF_FFFF_FFFF_FFFF
        return cls(status.st_size, max(-most, min(most, status.st_mtime_ns)), status.st_ino & most)

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> FileStamp | None:
        """Return the stamp of a file, of a link itself; None if there is none."""
        try:
            return cls.from_stat(os.lstat(path))
        except OSError:
            return None


class SourceFile(Struct, frozen=True):
    """A Markdown file from a scan: real path, the root above it, and its stamp."""

    path: str
    root: str
    stamp: FileStamp


class Document(Serializable, Struct, frozen=True):
    """A Markdown file in the index."""

    source: str
    root: str
    project: str
    stamp: FileStamp
    file_hash: str
    title: str = ""
    date: str = ""
    """ISO day in the text, or else of the last change."""
    indexed_at: str = ""
    recipe: str = ""
    """Chunking rules it was split with; under other rules it is read again."""
    chunk_count: int = 0
    date_source: str = DATE_IN_TEXT


class Anchor(Serializable, Struct, frozen=True):
    """The comment under a heading that states the origin of a memory.

    All dialects map to this class. `transcript` is the conversation's address under any of the dialects' names
    (`transcript:`, `rollout:`, `db:`); `dialect` is that name.
    """

    session: str = ""
    turn: str = ""
    transcript: str = ""
    dialect: str = ""
    memory: str = ""
    type: str = ""
    tags: tuple[str, ...] = ()
    origin: str = ""
    supersedes: str = ""
    expires: str = ""
    branch: str = ""
    commit: str = ""
    covers: tuple[str, ...] = ()
    """Content hashes of the chunks it summarizes; only on the first piece of a section."""
    cues: tuple[str, ...] = ()
    """Cues written by hand, as `kind=value`. They come from the file, so they may be malformed."""

    @property
    def superseded_ids(self) -> tuple[str, ...]:
        """Ids of the memories this one replaces, without its own."""
        return tuple(memory for memory in dict.fromkeys(self.supersedes.split(",")) if memory and memory != self.memory)


class Chunk(Serializable, Struct, frozen=True):
    """The unit of retrieval: a run of whole lines of one section.

    `content` is exactly lines `start_line..end_line` (1-based, inclusive) joined by newlines, unless a single line
    was too long and had to be cut. `text` is the same without comments; it is embedded and matched. `context` is the
    part of the headings above that `text` does not repeat.
    """

    source: str
    heading: str
    heading_level: int
    heading_path: tuple[str, ...]
    start_line: int
    end_line: int
    content: str
    text: str
    context: str = ""
    date: str = ""
    """ISO day, or day and time (`2026-03-05T14:30`), in the text, or else the day of the file's last change."""
    type: str = ""
    tags: tuple[str, ...] = ()
    anchor: Anchor | None = None
    piece: int = 0
    """Index of the piece in its section; 0 in a section that was not split."""
    content_hash: str = field(default="")
    date_source: str = DATE_IN_TEXT

    def __post_init__(self) -> None:
        if not self.content_hash:
            force_setattr(self, "content_hash", short_hash(self.content))

    @property
    def memory(self) -> str:
        """The id of its memory; empty if it has none."""
        return self.anchor.memory if self.anchor is not None else ""

    @property
    def embedded_text(self) -> str:
        """Text for the embedding model: informative headings, then the text."""
        return embedded_text(self.context, self.text)

    @property
    def matched_text(self) -> str:
        """Text for the lexical lane: all headings above, days and times included, then the text."""
        return f"{self.context}\n{self.text}" if self.context else self.text

    @property
    def vector_key(self) -> str:
        """Key of this text's vector: moving, renaming or inserting lines elsewhere does not change it."""
        return sha256(self.embedded_text.encode()).hexdigest()[:32]

    @property
    def starts_entry(self) -> bool:
        """True if it begins an entry of its file."""
        return self.piece == 0 and is_entry_path(self.heading_path)

    def identify(self, model: str) -> str:
        """Return the composite id under a model's name."""
        return chunk_id(self.source, self.start_line, self.end_line, self.content_hash, model)


def is_entry_path(heading_path: Sequence[str]) -> bool:
    """Return True if a section is an entry, together with everything below it.

    An entry is an outermost section, or text without a heading; in a journal, where headings for days and sessions
    are above, it is each turn.
    """
    return len(heading_path) <= 1 or all(
        re.fullmatch(_TIMESTAMP_PATTERN, title, re.IGNORECASE) for title in heading_path
    )


def embedded_text(context: str, text: str) -> str:
    """Return the text that a model embeds for a text and the headings above it.

    Headings with only a day or a time are left out: every entry of a journal has them, they say nothing about its
    subject, and they pull all vectors of a day together (dialogue turns, dense lane only: nDCG@10 .504 without them,
    .481 with the time of day, .448 with the date). Dates are matched separately. The author and time of a record are
    left out too: with them its vector depends on the minute of writing (task questions: MRR .970 with, .982 without).
    """
    body = re.sub(_UNINFORMATIVE_HEADING, "", text, count=1) or text
    above = [title for title in context.split(HEADING_SEPARATOR) if not re.fullmatch(_UNINFORMATIVE_TITLE, title)]
    return f"{HEADING_SEPARATOR.join(above)}\n{body}" if above else body


def join_chunks(chunks: Iterable[tuple[int, int, str]]) -> str:
    """Return the text of adjacent chunks, given by first line, last line and content.

    Lines that two chunks share are in it once. Lines between chunks are blank. Pieces of a line that was cut are joined.
    """
    parts: list[str] = []
    last = 0
    for start, end, content in chunks:
        shared = last - start + 1 if parts else 0
        if shared > end - start:  # the same line goes on
            parts.append(content)
        elif shared > 0:
            parts += ["\n", *content.split("\n", shared)[shared:]]
        else:
            parts += ["\n" * (start - last) if parts else "", content]
        last = max(last, end)
    return "".join(parts)


def short_hash(text: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def chunk_id(source: str, start_line: int, end_line: int, content_hash: str, model: str) -> str:
    """Return the composite chunk id, in the format of memsearch and OpenClaw."""
    return short_hash(f"markdown:{source}:{start_line}:{end_line}:{content_hash}:{model}")


class StoredChunk(Serializable, Struct, frozen=True):
    """A chunk as a store returns it, with the store's own fields."""

    key: ChunkKey
    id: str
    chunk: Chunk
    project: str
    has_vector: bool
    machine: str = ""
    """The other machine that indexed it, where its file is; empty for local chunks."""
    title: str = ""
    """Title of its document, where the store knows it."""


ChunkKey = int | str
"""A store's own handle of a chunk: opaque to callers, valid until the next write."""


def without_anchors(text: str) -> str:
    """Return the text of a journal without the comments that say where its entries are from: the hit says so."""
    return "\n".join(line for line in text.split("\n") if not (line.startswith("<!-- ") and line.endswith("-->")))
