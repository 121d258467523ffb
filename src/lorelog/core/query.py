"""Queries and results: filters, candidates, hits and the explanation of a score."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from math import fsum
from typing import NamedTuple

from msgspec import Struct, field

from lorelog.core.document import DATE_IN_TEXT, Anchor, ChunkKey
from lorelog.core.errors import UsageError
from lorelog.core.record import CANDIDATE_TRUST, Trust, TrustTier
from lorelog.core.serializable import ReplyItems, Serializable


class Lane(StrEnum):
    """A retrieval method."""

    HYBRID = "hybrid"
    LEXICAL = "lexical"
    DENSE = "dense"


class Freshness(StrEnum):
    """State of the code that a memory mentions."""

    FRESH = "fresh"
    DRIFTED = "drifted"
    GONE = "gone"
    UNCHECKED = "unchecked"


class FreshnessFinding(Serializable, Struct, frozen=True, rename={"freshness": "verdict", "change": "how"}):
    """One thing that a memory mentions, and its state."""

    kind: str
    """`path`, `symbol`, `setting` or `command`."""
    name: str
    """As the memory spells it."""
    freshness: Freshness
    change: str = ""
    """The change, as a phrase that follows the name: `moved to src/a.py`. Empty if there is none."""


class FreshnessVerdict(Serializable, Struct, frozen=True, rename={"freshness": "verdict"}):
    """State of the code that a memory mentions, in the caller's working tree."""

    freshness: Freshness = Freshness.UNCHECKED
    unmerged: str = ""
    """The branch of the memory, if it is not merged into the checked-out one."""
    findings: tuple[FreshnessFinding, ...] = ()

    @property
    def label(self) -> str:
        """Short label for a stale memory; empty if it is fresh or unchecked."""
        stale = str(self.freshness) if self.freshness in {Freshness.DRIFTED, Freshness.GONE} else ""
        return ", ".join(filter(None, (f"on {self.unmerged}, not merged" if self.unmerged else "", stale)))

    @property
    def change_phrases(self) -> tuple[str, ...]:
        """One phrase for each thing that changed since the memory was written."""
        return tuple(f"{finding.name} {finding.change}" for finding in self.findings if finding.change)


UNCHECKED_VERDICT = FreshnessVerdict()


class Fusion(StrEnum):
    """How the scores of the two lanes are combined."""

    CONVEX = "convex"
    RRF = "rrf"


class TrustFilter(StrEnum):
    """Minimum trust of a hit: anything, a record, or a record confirmed by a second writer."""

    ANY = "any"
    CANONICAL = "canonical"
    VERIFIED = "verified"


class Filters(Struct, frozen=True):
    """Conditions a hit must satisfy regardless of its score. Empty fields admit everything."""

    projects: tuple[str, ...] | None = None
    """Admitted projects; None admits all."""
    source_prefix: str = ""
    """Absolute real path of a file or directory; `/a/b` admits `/a/b` and `/a/b/…`, never `/a/bc`."""
    since: str = ""
    until: str = ""
    """First and last admitted ISO day, both inclusive."""
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """All of these tags are required."""

    def check(self) -> None:
        """Raise UsageError for invalid values."""
        from datetime import date

        for day in (self.since, self.until):
            try:
                valid = not day or date.fromisoformat(day).isoformat() == day
            except ValueError:
                valid = False
            if not valid:
                raise UsageError(f"{day!r} is not a day", hint="write it as 2026-03-05")
        if self.since and self.until and self.since > self.until:
            raise UsageError(f"since {self.since} is after until {self.until}")
        for value in (*self.types, *self.tags, *(self.projects or ())):
            if not value.isascii() and value.encode("utf-8", "replace").decode() != value:
                raise UsageError(f"{value!r} is not valid text")


class Term(Struct, frozen=True):
    """One analysed word of a query."""

    text: str
    weight: float = 1.0


class Candidate(NamedTuple):
    """A chunk that one lane proposes, with that lane's own score (higher is better).

    A tuple because every search makes hundreds: it costs a third of a frozen dataclass.
    """

    key: ChunkKey
    score: float


def make_candidates(keys: Iterable[ChunkKey], scores: Iterable[float]) -> list[Candidate]:
    """Return candidates of keys and scores, in half of the time that their constructor takes."""
    return list(map(partial(tuple.__new__, Candidate), zip(keys, scores, strict=True)))


class ScorePart(Serializable, Struct, frozen=True):
    """One named part of a score."""

    name: str
    value: float
    note: str = ""


class Explanation(Serializable, Struct, frozen=True):
    """Breakdown of a hit's score: the parts add up to the score."""

    parts: tuple[ScorePart, ...]

    @property
    def score(self) -> float:
        return fsum(part.value for part in self.parts)


class HitForm(StrEnum):
    """How much of a hit is shown under a token budget."""

    SECTION = "section"
    CHUNK = "chunk"
    SNIPPET = "snippet"


class PackedHit(Serializable, Struct, frozen=True):
    """A hit under a token budget: its form, its lines, and the text."""

    form: HitForm
    text: str
    tokens: int
    """Estimated tokens of the text and of the hit's header."""
    start_line: int
    end_line: int
    within: str = ""
    """Id of a better hit whose section contains this one; `text` is then empty."""


_RECORD_NAMES = {"record": "artifact_id", "task": "task_id", "thread": "thread_id", "kind": "artifact_kind"}


class SupportingRecord(Serializable, Struct, frozen=True, rename=_RECORD_NAMES):
    """A record that supports a hit or a digest."""

    record: str
    task: str
    thread: str
    kind: str
    tier: TrustTier


class LifecycleState(Serializable, Struct, frozen=True):
    """Lifecycle of a memory after it was written."""

    superseded_by: str = ""
    """Id of the memory that replaces it."""
    successor: str = ""
    """First words of the memory in force that replaces it, where it is shown."""
    expires: str = ""
    """Last ISO day it is shown."""
    review_after: str = ""
    """ISO day from which it is due for review."""
    expired: bool = False
    due: bool = False
    """True if that day has come."""


NO_LIFECYCLE_STATE = LifecycleState()


class Hit(Serializable, Struct, frozen=True):
    """One result: location, text and explanation."""

    id: str
    score: float
    source: str
    start_line: int
    end_line: int
    heading: str
    heading_level: int
    heading_path: tuple[str, ...]
    project: str
    date: str
    type: str
    tags: tuple[str, ...]
    content: str
    content_hash: str
    snippet: str
    matches: tuple[tuple[int, int], ...]
    """Spans of `snippet` (start, end) that match words of the query."""
    anchor: Anchor | None
    explanation: Explanation
    duplicates: tuple[str, ...] = ()
    """`source:lines` of identical or nearly identical chunks."""
    relevance: float = 0.0
    """Probability that it is relevant at all, 0 to 1; 0 if nothing is known. The score only ranks the hits of one query."""
    tokens: int = 0
    """Estimated tokens of `snippet`."""
    expand_tokens: int = 0
    """Estimated tokens of the section that `expand` returns."""
    packed: PackedHit | None = None
    """Its form under a token budget; None without one."""
    trust: Trust = CANDIDATE_TRUST
    grounding: tuple[SupportingRecord, ...] = ()
    """Supporting records; none for a memory."""
    lifecycle: LifecycleState = NO_LIFECYCLE_STATE
    verdict: FreshnessVerdict = UNCHECKED_VERDICT
    """State of the code it mentions."""
    date_source: str = DATE_IN_TEXT
    """Whether its text states the date, or it is that of the file's last change."""
    confidence: str | None = None
    """The relevance in a word, in agreement with the order of the hits; None if nothing is known."""

    @property
    def origin(self) -> str:
        """Who its text comes from: user, agent, tool, import or repository; empty if unknown."""
        return self.anchor.origin if self.anchor is not None else ""

    @property
    def shown_source(self) -> str:
        """Its file below the project: the path of a checkout costs tokens and says nothing."""
        return self.source.removeprefix(f"{self.project}/") if self.project else self.source


class VectorCoverage(Serializable, Struct, frozen=True):
    """How much of the searched index has vectors of the current model."""

    chunks: int
    with_vectors: int


class DroppedHit(Serializable, Struct, frozen=True):
    """A hit that a token budget left out."""

    id: str
    source: str
    start_line: int
    end_line: int
    tokens: int
    """Its lowest possible cost."""
    reason: str


class BudgetReport(Serializable, Struct, frozen=True):
    """How a token budget was spent. `spent` is the sum of the hits' costs and that of `files`, at most `budget`."""

    budget: int
    spent: int
    dropped: tuple[DroppedHit, ...] = ()
    """Best first."""
    files: tuple[str, ...] = ()
    """Files that the conversations found have changed, those of the best first."""


FILES_LABEL = "Files changed in these conversations: "
NOTHING_RELEVANT = "Probably nothing relevant."
"""What all surfaces say if no hit is likely to be relevant."""


class SearchReply(ReplyItems[Hit], Struct, frozen=True):
    """The hits, best first, and notes for the reader about the search."""

    query: str
    lane: Lane
    hits: tuple[Hit, ...]
    coverage: VectorCoverage
    notes: tuple[str, ...] = field(default=())
    weighing: str = ""
    """Weight of each lane for this query, and the reason; empty if one lane answered alone."""
    packing: BudgetReport | None = None
    """Only with a token budget; `hits` are then those that fit."""
    explained: bool = False
    """True if the JSON of each hit has the parts of its score."""
    nothing_relevant: str = ""
    """`NOTHING_RELEVANT` if there is no hit, or probably none of the first three is relevant; then surfaces show them folded."""
