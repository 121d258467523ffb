"""A memory on its way into a journal, and the replies of the verbs that are not searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from lorelog.core.document import Document, StoredChunk
from lorelog.core.query import NO_FATE, Coverage, Fate
from lorelog.core.record import CANDIDATE_TRUST, Trust


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
    supersedes: tuple[str, ...] = ()
    """Ids of the memories in whose place it stands."""
    expires: str = ""
    """The last ISO day it is shown on; empty for good."""
    covers: tuple[str, ...] = ()
    """Content hashes of the chunks that it sums up."""


class Decision(StrEnum):
    """What becomes of a new memory."""

    DURABLE = "durable"
    EPHEMERAL = "ephemeral"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a memory is kept, for how long, and why."""

    decision: Decision
    reason: str
    expires: str = ""
    """The last ISO day it is shown on; empty for good."""


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
    admission: Admission = Admission(Decision.DURABLE, "")


@dataclass(frozen=True, slots=True)
class SupersedeReply:
    """What stands in the place of what."""

    old: str
    """Own id of the memory that is hidden from now on."""
    added: AddReply


@dataclass(frozen=True, slots=True)
class ExpiryReply:
    """Until when a memory is shown, and from when on it should be looked at again."""

    memory: str
    expires: str
    review_after: str
    changed: bool
    """False when it was so before."""


@dataclass(frozen=True, slots=True)
class FeedbackReply:
    """Whose relevance to what was judged."""

    id: str
    memory: str
    query: str
    """As it is kept: in lower case, without superfluous space."""
    relevance: str
    changed: bool


@dataclass(frozen=True, slots=True)
class Twin:
    """One of several memories that say nearly the same."""

    stored: StoredChunk
    similarity: float
    """To the one that is to be kept, 0 to 1; 1 for that one itself."""


@dataclass(frozen=True, slots=True)
class TwinsReply:
    """Groups of memories that say nearly the same, the one to keep first."""

    groups: tuple[tuple[Twin, ...], ...]
    compared: int
    """How many memories were looked at."""
    by_vectors: int
    """How many of them by what they mean; the others by their words."""
    more: bool = False
    """Whether there are more groups than were asked for."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EpisodeReply:
    """The one memory that sums up an episode."""

    summary: AddReply
    sources: tuple[str, ...]
    """Ids of the memories it is made of, oldest first."""
    retained: bool
    """Whether they are still shown."""
    changed: bool
    """False when the same was summed up before, and nothing was written."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that did not work, about one path; the run went on."""

    path: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class KnownItems:
    """How well vectors alone find chunks by questions made of what the chunks say."""

    hit_at_5: float
    """Of how many of them the chunk is among the first five, 0 to 1."""
    mrr: float
    """Mean reciprocal rank."""


@dataclass(frozen=True, slots=True)
class Reembedding:
    """What came of making all vectors anew, or of going back."""

    old: str
    """Provider and model that were served before."""
    new: str
    probes: int
    """How many questions both were asked; 0 when it did not come to that."""
    before: KnownItems | None = None
    """None where the old model cannot be asked any more."""
    after: KnownItems | None = None
    worse: bool = False
    """Whether the new one is clearly worse."""
    swapped: bool = False
    """Whether the index serves the new vectors now."""


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
    reembedding: Reembedding | None = None
    """What came of making all vectors anew; None where none were to be."""


@dataclass(frozen=True, slots=True)
class CoveredChunk:
    """A chunk that a summary sums up, where it stands now."""

    content_hash: str
    """Lines of the summary cite the beginning of it."""
    id: str
    source: str
    start_line: int
    end_line: int
    date: str


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
    fate: Fate = NO_FATE
    covers: tuple[CoveredChunk, ...] = ()
    """Of a summary: what it sums up, the first of it, as far as it is still there."""
    covered: int = 0
    """Of a summary: how many chunks it sums up."""
    trust: Trust = CANDIDATE_TRUST


@dataclass(frozen=True, slots=True)
class ListReply:
    """Documents or memories, newest first, and whether there are more of them."""

    documents: tuple[Document, ...]
    memories: tuple[StoredChunk, ...]
    more: bool
    fates: Mapping[str, Fate] = field(default_factory=dict)
    """What has become of those memories of which there is something to tell, by chunk id."""


@dataclass(frozen=True, slots=True)
class GetReply:
    """A memory by its id. A deleted one is told from one that never was, without its text."""

    memory: StoredChunk | None = None
    deleted_at: str = ""
    """When it was deleted; empty when it was not."""
    fate: Fate = NO_FATE
    trust: Trust = CANDIDATE_TRUST

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
