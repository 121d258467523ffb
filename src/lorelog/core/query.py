"""Questions and answers: query, filters, hits and the explanation of a score."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from lorelog.core.code import UNCHECKED, Verdict
from lorelog.core.document import Anchor, Key
from lorelog.core.errors import UsageError
from lorelog.core.record import CANDIDATE_TRUST, Tier, Trust

if TYPE_CHECKING:
    from lorelog.core.code_answers import CodeReply


class Lane(StrEnum):
    """A way of finding."""

    HYBRID = "hybrid"
    LEXICAL = "lexical"
    DENSE = "dense"


class Fusion(StrEnum):
    """How the lanes' scores become one."""

    CONVEX = "convex"
    RRF = "rrf"


class Trusted(StrEnum):
    """What a hit must be worth: anything, at least a record, or a record that a second writer stands by."""

    ANY = "any"
    CANONICAL = "canonical"
    VERIFIED = "verified"


@dataclass(frozen=True, slots=True)
class Filters:
    """What a hit must satisfy, whatever its score. Empty fields admit everything."""

    projects: tuple[str, ...] | None = None
    """Admitted projects; None admits all."""
    source_prefix: str = ""
    """Absolute real path of a file or directory; `/a/b` admits `/a/b` and `/a/b/…`, never `/a/bc`."""
    since: str = ""
    until: str = ""
    """First and last admitted ISO day, both inclusive."""
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Every one of these tags must be there."""

    def check(self) -> None:
        """Raise UsageError for what no filter can mean."""
        from datetime import date

        for day in (self.since, self.until):
            try:
                valid = not day or date.fromisoformat(day).isoformat() == day
            except ValueError:
                valid = False
            if not valid:
                raise UsageError(f"{day!r} is not a day", hint="write it as 2026-03-05")
        if self.since and self.until and self.since > self.until:
            raise UsageError(f"no day is both since {self.since} and until {self.until}")
        for value in (*self.types, *self.tags, *(self.projects or ())):
            if not value.isascii() and value.encode("utf-8", "replace").decode() != value:
                raise UsageError(f"{value!r} is not valid text")


@dataclass(frozen=True, slots=True)
class Term:
    """One analysed word of a query."""

    text: str
    weight: float = 1.0


class Candidate(NamedTuple):
    """A chunk that one lane proposes, with that lane's own score (higher is better).

    A tuple, since every search makes hundreds: a third of what a frozen dataclass takes.
    """

    key: Key
    score: float


@dataclass(frozen=True, slots=True)
class Part:
    """One named share of a score."""

    name: str
    value: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a hit scored what it scored: the parts add up to the score."""

    parts: tuple[Part, ...]

    @property
    def score(self) -> float:
        return fsum(part.value for part in self.parts)


class Form(StrEnum):
    """How much of a hit is shown under a token budget."""

    SECTION = "section"
    CHUNK = "chunk"
    SNIPPET = "snippet"


@dataclass(frozen=True, slots=True)
class Packed:
    """What a token budget left of a hit: the form it is shown in, its lines, and the text."""

    form: Form
    text: str
    tokens: int
    """Estimated tokens of the text and of naming the hit."""
    start_line: int
    end_line: int
    within: str = ""
    """Id of the better hit whose section holds this one too; `text` is then empty."""


@dataclass(frozen=True, slots=True)
class Grounding:
    """A record that a hit stands on."""

    record: str
    task: str
    thread: str
    kind: str
    tier: Tier


@dataclass(frozen=True, slots=True)
class Fate:
    """What has become of a memory since it was written down, as far as there is something to tell."""

    superseded_by: str = ""
    """Id of the memory that stands in its place."""
    expires: str = ""
    """The last ISO day it is shown on."""
    review_after: str = ""
    """The ISO day from which on someone should look at it again."""
    expired: bool = False
    due: bool = False
    """Whether that day has come."""


NO_FATE = Fate()


@dataclass(frozen=True, slots=True)
class Hit:
    """One result: where it stands, what it says, why it came up."""

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
    """Spans of `snippet` (start, end) that a word of the query matched."""
    anchor: Anchor | None
    explanation: Explanation
    duplicates: tuple[str, ...] = ()
    """`source:lines` of other places that say the same or nearly so."""
    relevance: float = 0.0
    """How likely it is relevant at all, 0 to 1; the score only ranks the hits of one question."""
    tokens: int = 0
    """Estimated tokens of `snippet`."""
    expand_tokens: int = 0
    """Estimated tokens of the section that `expand` would show."""
    packed: Packed | None = None
    """What to show of it under a token budget; None without one."""
    trust: Trust = CANDIDATE_TRUST
    grounding: tuple[Grounding, ...] = ()
    """Records behind it; none behind a memory."""
    fate: Fate = NO_FATE
    verdict: Verdict = UNCHECKED
    """What became of the code that it names."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the searched index has vectors of the current model."""

    chunks: int
    with_vectors: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """A hit that a token budget left out."""

    id: str
    source: str
    start_line: int
    end_line: int
    tokens: int
    """The least it would have cost."""
    reason: str


@dataclass(frozen=True, slots=True)
class Packing:
    """What a token budget was spent on. The sum of what the hits cost is `spent`, and at most `budget`."""

    budget: int
    spent: int
    dropped: tuple[Dropped, ...] = ()
    """Best first."""


@dataclass(frozen=True, slots=True)
class SearchReply:
    """The hits, best first, and what a reader should know about how they were found."""

    query: str
    lane: Lane
    hits: tuple[Hit, ...]
    coverage: Coverage
    notes: tuple[str, ...] = field(default=())
    weighing: str = ""
    """How much each lane counted for this question, and why; empty when one lane answered alone."""
    packing: Packing | None = None
    """Only with a token budget; `hits` are then those that fit."""
    code: CodeReply | None = None
    """What the code says to a question that is about it; None for any other."""
