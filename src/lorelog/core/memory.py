"""Memories on their way into a journal, and the replies of operations other than search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from lorelog.core.document import Document, StoredChunk
from lorelog.core.query import (
    NO_LIFECYCLE_STATE,
    UNCHECKED_VERDICT,
    Filters,
    FreshnessVerdict,
    LifecycleState,
    VectorCoverage,
)
from lorelog.core.record import CANDIDATE_TRUST, Trust
from lorelog.core.serializable import ReplyItems, Serializable


class NewMemory(Struct, frozen=True):
    """A memory to add."""

    text: str
    type: str = ""
    tags: tuple[str, ...] = ()
    origin: str = "user"
    id: str = ""
    """Fixed id for a memory that must not be written twice. Empty generates one."""
    source: tuple[tuple[str, str], ...] = ()
    """Further fields of its anchor, in order, such as `("session", "…")`."""
    at: datetime | None = None
    """Time in its heading; the time of writing by default."""
    supersedes: tuple[str, ...] = ()
    """Ids of the memories it replaces."""
    expires: str = ""
    """Last ISO day it is shown; empty means forever."""
    covers: tuple[str, ...] = ()
    """Content hashes of the chunks it summarizes."""
    cues: tuple[str, ...] = ()
    """When to deliver it to an agent: `kind=value`, such as `path=src/db/**`."""


class AdmissionDecision(StrEnum):
    """Outcome of the admission check for a new memory."""

    DURABLE = "durable"
    EPHEMERAL = "ephemeral"
    REFUSED = "refused"


class AdmissionResult(Serializable, Struct, frozen=True):
    """Whether a memory is kept, for how long, and why."""

    decision: AdmissionDecision
    reason: str
    expires: str = ""
    """Last ISO day it is shown; empty means forever."""


class AddReply(Serializable, Struct, frozen=True):
    """Location of a new memory. `searchable` is False if it is safe in its file but could not be indexed yet."""

    memory: str
    id: str
    source: str
    start_line: int
    end_line: int
    searchable: bool
    notes: tuple[str, ...] = ()
    admission: AdmissionResult = AdmissionResult(AdmissionDecision.DURABLE, "")
    redacted: Mapping[str, int] = field(default_factory=dict)
    """Number of secrets that were replaced before writing, by kind."""
    origin: str = ""
    """Who it comes from, as it was written: an agent's `user` is written as `agent`."""
    existed: bool = False
    """The same memory was there before, and nothing was written."""


class SupersedeReply(AddReply, frozen=True, kw_only=True):
    """The new memory, and the id of the one it replaces."""

    supersedes: str
    """Id of the memory that is hidden from now on."""


class ExpiryReply(Serializable, Struct, frozen=True):
    """Until when a memory is shown, and from when on it is due for review."""

    memory: str
    expires: str
    review_after: str
    changed: bool
    """False if nothing changed."""


class FeedbackReply(Serializable, Struct, frozen=True):
    """A recorded relevance judgement."""

    id: str
    memory: str
    query: str
    """As stored: lower case, without superfluous white space."""
    relevance: str
    changed: bool


class Duplicate(Serializable, Struct, frozen=True, kw_only=True):
    """One of several near-duplicate memories."""

    id: str
    memory: str
    source: str
    start_line: int
    end_line: int
    project: str
    date: str
    date_source: str
    type: str
    similarity: float
    """Similarity to the memory to keep, 0 to 1; 1 for that one itself."""
    keep: bool
    text: str
    """Enough of it to recognise it."""


class DuplicatesReply(ReplyItems[tuple[Duplicate, ...]], Struct, frozen=True):
    """Groups of near-duplicate memories, the one to keep first."""

    items_field = "groups"

    groups: tuple[tuple[Duplicate, ...], ...]
    compared: int
    """Number of memories compared."""
    by_vectors: int
    """How many of them were compared by vectors; the others by words."""
    more: bool = False
    """True if there are more groups than requested."""
    notes: tuple[str, ...] = ()


class FileProblem(Serializable, Struct, frozen=True):
    """A problem with one path; the run continued."""

    path: str
    message: str
    hint: str = ""


def count_failed(problems: Iterable[FileProblem]) -> int:
    """Return the number of paths with problems."""
    return len({problem.path for problem in problems})


class ReembedReport(Serializable, Struct, frozen=True, rename={"old": "from", "new": "to"}):
    """Result of re-embedding the index, or of rolling back."""

    old: str
    """Provider and model served before."""
    new: str
    swapped: bool = False
    """True if the index serves the new vectors now."""


class IndexReport(Serializable, Struct, frozen=True):
    """Result of an index run."""

    files: int = 0
    changed: int = 0
    unchanged: int = 0
    touched: int = 0
    """Files with a new time stamp and unchanged text: not chunked again."""
    removed: int = 0
    chunks: int = 0
    """Chunks of the changed files."""
    embedded: int = 0
    """Texts sent to the model."""
    truncated: int = 0
    """How many of those exceeded the model's input limit."""
    waiting: int = 0
    """Chunks of the whole index without a vector."""
    problems: tuple[FileProblem, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    failed: int = 0
    """Number of paths with problems."""
    reembedding: ReembedReport | None = None
    """None unless re-embedding was requested."""


class CoveredChunk(Serializable, Struct, frozen=True):
    """A chunk that a summary covers, at its current location."""

    content_hash: str
    """Lines of the summary cite its first digits."""
    id: str
    source: str
    start_line: int
    end_line: int
    date: str


class ExpandReply(Serializable, Struct, frozen=True):
    """The whole section around a chunk."""

    chunk: StoredChunk
    content: str
    start_line: int
    end_line: int
    transcript: str = ""
    """Address of the conversation that the section's anchor names."""
    transcript_exists: bool = False
    notes: tuple[str, ...] = ()
    tokens: int = 0
    """Estimated tokens of `content`."""
    transcript_tokens: int | None = None
    """Estimated tokens of the whole conversation, from its file size; None if there is no file."""
    lifecycle: LifecycleState = NO_LIFECYCLE_STATE
    covers: tuple[CoveredChunk, ...] = ()
    """For a summary: the first of its sources that still exist."""
    covered: int = 0
    """For a summary: number of chunks it covers."""
    trust: Trust = CANDIDATE_TRUST
    verdict: FreshnessVerdict = UNCHECKED_VERDICT
    derived_cues: tuple[str, ...] = ()
    """Cues that are derived from its text, if they were asked for. Those written by hand are in the anchor."""

    @property
    def id(self) -> str:
        return self.chunk.id


class ListReply(ReplyItems[Any], Struct, frozen=True):
    """Documents or memories, newest first, and whether there are more. Its items are the ones that were listed."""

    items_field = "memories"

    documents: tuple[Document, ...]
    memories: tuple[StoredChunk, ...]
    more: bool
    lifecycles: Mapping[str, LifecycleState] = field(default_factory=dict)
    """Lifecycle states of the superseded or expired memories, by chunk id."""
    notes: tuple[str, ...] = ()

    def _items(self) -> tuple[Any, ...]:
        return self.memories or self.documents


class GetReply(Serializable, Struct, frozen=True):
    """A memory by its id. A deleted one is distinguished from an unknown one, without its text."""

    memory: StoredChunk | None = None
    deleted_at: str = ""
    """When it was deleted or forgotten; empty if it was not."""
    forgotten: bool = False
    """True if its text was erased permanently: there is nothing to restore."""
    lifecycle: LifecycleState = NO_LIFECYCLE_STATE
    trust: Trust = CANDIDATE_TRUST

    @property
    def exists(self) -> bool:
        """True if the id is or was a memory's."""
        return self.memory is not None or bool(self.deleted_at)


class DeleteReply(Serializable, Struct, frozen=True):
    """A memory hidden from the index, or restored to it."""

    id: str
    memory: str
    """Its memory id; empty for a section without one."""
    source: str
    chunks: int
    """Number of its chunks."""
    changed: bool
    """False if nothing changed."""
    notes: tuple[str, ...] = ()


class HealthCheck(Serializable, Struct, frozen=True):
    """Result of one check, and what to do if it failed."""

    name: str
    ok: bool
    message: str
    hint: str = ""


class HealthReply(ReplyItems[HealthCheck], Struct, frozen=True):
    """Health of an index."""

    ok: bool
    """True if every check passed."""
    checks: tuple[HealthCheck, ...]
    coverage: VectorCoverage
    duplicates: tuple[tuple[str, ...], ...] = ()
    """Locations of identical texts, each `source:lines`."""


NO_LLM = "none"
"""Provider name of an extractive summary."""


class CompactOptions(Struct, frozen=True):
    """What to summarize, with which model, and where the summary is written."""

    filters: Filters = field(default_factory=Filters)
    output_dir: str = ""
    """Folder of the day's file; empty means the project's journals."""
    llm: str = ""
    """`none` extracts sentences; otherwise a provider, or the one in the settings."""
    prompt_file: str = ""
    dry_run: bool = False


class DroppedLine(Serializable, Struct, frozen=True):
    """A line of the model's output that was rejected."""

    text: str
    reason: str
    batch: int = 0
    """Number of the batch, from 1; 0 for the merge of batches."""


class CompactBatch(Serializable, Struct, frozen=True):
    """Sources that are summarized together."""

    chunks: int
    first_day: str
    last_day: str
    tokens: int
    """Maximum cost in tokens, estimated; 0 without a model."""
    lines: int = 0
    extracted: bool = False
    """True if sentences were extracted because no model was asked or its output did not hold."""


class CompactReply(Serializable, Struct, frozen=True):
    """The memory that summarizes the chosen chunks."""

    worded_by: str
    """Provider and model; `none` for extracted sentences."""
    chunks: int
    """Number of chunks it covers."""
    changed: bool
    """False if nothing was written."""
    summary: AddReply | None = None
    text: str = ""
    batches: tuple[CompactBatch, ...] = ()
    dropped: tuple[DroppedLine, ...] = ()
    covered_before: int = 0
    """Chunks left out because a summary covers them already."""
    tokens_most: int = 0
    """Maximum cost in tokens, as far as it is known beforehand."""
    tokens_spent: int = 0
    calls: int = 0
    dry_run: bool = False
    notes: tuple[str, ...] = ()


class MeanInterval(Serializable, Struct, frozen=True):
    """A mean and its 95 % confidence interval."""

    mean: float
    low: float
    high: float


class RankingMeasure(MeanInterval, frozen=True, kw_only=True):
    """A measure of a ranking, such as nDCG@10."""

    name: str


class RankingResult(Serializable, Struct, frozen=True):
    """The measures of one ranking."""

    name: str
    measures: tuple[RankingMeasure, ...]
    ours_ahead: MeanInterval | None = None
    """Paired difference of our ranking in nDCG; None for itself, or if it was not measured."""


class MissingDocument(Serializable, Struct, frozen=True):
    """A judged document that search cannot return."""

    document: str
    reason: str


class EvaluateReply(ReplyItems[RankingResult], Struct, frozen=True):
    """The measurements, their basis, and notes for the reader."""

    k: int
    questions: int
    """Number of questions read."""
    judged: int
    """Number of questions with a relevant document; only these count."""
    documents: int
    """Number of distinct documents judged relevant."""
    unknown: tuple[MissingDocument, ...]
    """They count as not found."""
    rankings: tuple[RankingResult, ...]
    problems: tuple[FileProblem, ...]
    failed: int
    """Number of problems."""
    notes: tuple[str, ...]


class HostCaptures(Serializable, Struct, frozen=True):
    """Captures of one host."""

    host: str
    first_event: str
    last_event: str
    last_capture: str
    """ISO, UTC; empty if nothing was captured yet."""
    captured: int
    today: int
    """Turns that were written today, whenever they were held."""
    statements: int
    """Statements of the user that were written today."""


class SessionStatus(Serializable, Struct, frozen=True):
    """Captures of all hosts, and pending events."""

    hosts: tuple[HostCaptures, ...]
    waiting: int
    """Events in the spool."""
    oldest_s: float
    """Age of the oldest event."""
    failed: int
    """Events that were set aside after failures."""
    tokens_today: int = 0
    rules: int = 0
    """The user's rules that stand in this project."""
    decisions: int = 0
    edited: int = 0
    """Of both, how many were changed outside lorelog: the user is asked about them."""
    sessions: dict[str, str] = {}
    """Sessions of this project without an end and with an event within a day, newest first: `on`, or how they are paused."""
