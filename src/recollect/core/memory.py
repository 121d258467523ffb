"""A memory on its way into a journal, and the replies of the verbs that are not searches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from recollect.core.document import Document, StoredChunk
from recollect.core.query import Coverage


@dataclass(frozen=True, slots=True)
class NewMemory:
    """What someone wants remembered."""

    text: str
    type: str = ""
    tags: tuple[str, ...] = ()
    origin: str = "user"
    id: str = ""
    """Where it must not be written twice: the id that it would have both times. Empty makes a new one."""
    source: tuple[tuple[str, str], ...] = ()
    """Where it comes from: further words of its anchor, in order, such as `("session", "…")`."""
    at: datetime | None = None
    """What its heading tells; the time of writing if not given."""


@dataclass(frozen=True, slots=True)
class AddReply:
    """Where a new memory stands. `searchable` is False when it is safe in its file but could not be indexed yet."""

    memory: str
    id: str
    source: str
    start_line: int
    end_line: int
    searchable: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that did not work, about one path; the run went on."""

    path: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What an index run did."""

    files: int
    changed: int
    unchanged: int
    touched: int
    """Files with a new time stamp and the old text: not chunked again."""
    removed: int
    chunks: int
    """Chunks of the changed files."""
    embedded: int
    """Texts sent to the model."""
    truncated: int
    """Of those, how many were longer than the model reads."""
    waiting: int
    """Chunks of the whole index that still have no vector."""
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class ExpandReply:
    """The whole section around a chunk."""

    chunk: StoredChunk
    content: str
    start_line: int
    end_line: int
    transcript: str = ""
    """Where the conversation lies that the section's anchor names."""
    transcript_exists: bool = False
    notes: tuple[str, ...] = ()
    tokens: int = 0
    """Estimated tokens of `content`."""
    transcript_tokens: int | None = None
    """Estimated tokens of the whole conversation, by its file's size; None when there is no such file."""


@dataclass(frozen=True, slots=True)
class ListReply:
    """Documents or memories, newest first, and whether there are more of them."""

    documents: tuple[Document, ...]
    memories: tuple[StoredChunk, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class GetReply:
    """A memory by its id. A deleted one is told from one that never was, without its text."""

    memory: StoredChunk | None = None
    deleted_at: str = ""
    """When it was deleted; empty when it was not."""

    @property
    def found(self) -> bool:
        """Whether the id is or was a memory's."""
        return self.memory is not None or bool(self.deleted_at)


@dataclass(frozen=True, slots=True)
class DeleteReply:
    """What was hidden from the index, or is shown in it again."""

    id: str
    memory: str
    """The memory's own id; empty when it is a section without one."""
    source: str
    chunks: int
    """How many chunks it was or is."""
    changed: bool
    """False when it was so before."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, and what to do where it is not as it should be."""

    name: str
    ok: bool
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class HealthReply:
    """Whether an index is as it should be."""

    checks: tuple[Check, ...]
    coverage: Coverage
    duplicates: tuple[tuple[str, ...], ...] = ()
    """Places that say the same, each `source:lines`."""

    @property
    def ok(self) -> bool:
        """Whether every check went well."""
        return all(check.ok for check in self.checks)
