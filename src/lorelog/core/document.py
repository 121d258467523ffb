"""Documents and chunks: what a Markdown file becomes on its way in."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

GLOBAL = ""
"""The project of memories that belong to no project and are seen from all."""

BETWEEN_HEADINGS = " > "
_MOMENT = r"(?:session[ \t]+)?(?:\d{4}-\d\d-\d\d)?[T \t]*(?:\d{1,2}:\d\d(?::\d\d)?)?"
_MOMENT_ALONE = re.compile(_MOMENT, re.IGNORECASE)
_RECORD = r"\d{4}-\d\d-\d\d \d\d:\d\d [a-z ]{1,40} #\d+(?: by [^\n]*)?"
"""The heading of a record: when, of which kind, which number, by whom. What it says stands below."""
_UNTOLD = re.compile(rf"{_MOMENT}|{_RECORD}", re.IGNORECASE)
_UNTOLD_HEADING = re.compile(rf"\A#{{1,6}}[ \t]+(?:{_RECORD}|{_MOMENT})[ \t]*(?:\n+|\Z)", re.IGNORECASE)
"""Headings that say nothing of what the text is about."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the file system says of a file without reading it."""

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """Return the stamp of a file's status, cut to what fits a signed number: some file systems have larger ones."""
        most = 0x7FFF_FFFF_FFFF_FFFF
        return cls(status.st_size, max(-most, min(most, status.st_mtime_ns)), status.st_ino & most)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Markdown file that the scan found: real path, the root it was found under, and its stamp."""

    path: str
    root: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Document:
    """A Markdown file as the index knows it."""

    source: str
    root: str
    project: str
    stamp: Stamp
    file_hash: str
    title: str = ""
    date: str = ""
    """ISO day the text speaks of, or of its last change when it names none."""
    indexed_at: str = ""
    recipe: str = ""
    """How it was cut: a document that would be cut otherwise today is read again."""
    chunk_count: int = 0


@dataclass(frozen=True, slots=True)
class Anchor:
    """The comment under a heading that says where a memory comes from.

    All dialects meet here. `transcript` is the conversation's address whatever the dialect called it
    (`transcript:`, `rollout:`, `db:`), and `dialect` keeps that word.
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
    """Content hashes of the chunks that this one sums up; only the first piece of a section bears them."""

    @property
    def superseded(self) -> tuple[str, ...]:
        """The ids of the memories in whose place this one stands; itself does not count."""
        return tuple(one for one in dict.fromkeys(self.supersedes.split(",")) if one and one != self.memory)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit of retrieval: a run of whole lines of one section.

    `content` is exactly lines `start_line..end_line` (1-based, inclusive) joined by newlines, unless a single line was
    too long and had to be cut. `text` is the same without comments: what is embedded and matched. `context` is what a
    reader of the file would know from the headings above and `text` does not repeat.
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
    """ISO day, or day and time (`2026-03-05T14:30`), that the text speaks of."""
    type: str = ""
    tags: tuple[str, ...] = ()
    anchor: Anchor | None = None
    piece: int = 0
    """Which piece of its section this is; a section that was not cut has one, number 0."""
    content_hash: str = field(default="")

    def __post_init__(self) -> None:
        if not self.content_hash:
            object.__setattr__(self, "content_hash", short_hash(self.content))

    @property
    def embedded_text(self) -> str:
        """The text a model sees: where it stands, then what it says."""
        return embedded_text(self.context, self.text)

    @property
    def matched_text(self) -> str:
        """The text that words are found in: all headings above, days and times too, then what it says."""
        return f"{self.context}\n{self.text}" if self.context else self.text

    @property
    def vector_key(self) -> str:
        """Address of this text's vector: moving, renaming or inserting lines elsewhere does not change it."""
        return hashlib.sha256(self.embedded_text.encode()).hexdigest()[:32]

    @property
    def begins_entry(self) -> bool:
        """Whether it begins an entry of its file."""
        return self.piece == 0 and names_entry(self.heading_path)

    def identify(self, model: str) -> str:
        """Return the composite id under a model's name."""
        return chunk_id(self.source, self.start_line, self.end_line, self.content_hash, model)


def names_entry(heading_path: Sequence[str]) -> bool:
    """Say whether a section is an entry, with all that is below it.

    That is an outermost section, or what has no heading; and in a journal, where days and sittings are above it, each turn.
    """
    return len(heading_path) <= 1 or all(map(_MOMENT_ALONE.fullmatch, heading_path))


def embedded_text(context: str, text: str) -> str:
    """Return what a model sees of a text and the headings above it.

    Headings that only tell the day or the time are left out: they are on every entry of a journal and say nothing of what it
    is about, but pull all vectors of a day together (on dialogue turns, vectors alone: nDCG@10 .504 without them, .481
    with the time of day, .448 with the date). Dates are looked for by other means. So is who wrote which record: with it, a
    record's vector depends on the minute in which it was written (task questions: MRR .970 with it, .982 without).
    """
    said = _UNTOLD_HEADING.sub("", text, count=1) or text
    above = [title for title in context.split(BETWEEN_HEADINGS) if not _UNTOLD.fullmatch(title)]
    return f"{BETWEEN_HEADINGS.join(above)}\n{said}" if above else said


def short_hash(text: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def chunk_id(source: str, start_line: int, end_line: int, content_hash: str, model: str) -> str:
    """Return the composite chunk id that memsearch and OpenClaw use too."""
    return short_hash(f"markdown:{source}:{start_line}:{end_line}:{content_hash}:{model}")


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as a store returns it, with what the store knows beyond the chunk itself."""

    key: Key
    id: str
    chunk: Chunk
    project: str
    has_vector: bool
    machine: str = ""
    """Whose it is, where another machine has indexed it; its file is there, and `chunk.source` says so. Empty for what is here."""


Key = int | str
"""A store's own handle of a chunk: opaque to everyone else, valid until the next write."""
