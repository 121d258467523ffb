"""Questions and answers: query, filters, hits and the explanation of a score."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum

from recollect.core.document import Anchor, Key


class Lane(StrEnum):
    """A way of finding."""

    HYBRID = "hybrid"
    LEXICAL = "lexical"
    DENSE = "dense"


class Fusion(StrEnum):
    """How the lanes' scores become one."""

    CONVEX = "convex"
    RRF = "rrf"


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


@dataclass(frozen=True, slots=True)
class Term:
    """One analysed word of a query."""

    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that one lane proposes, with that lane's own score (higher is better)."""

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
    """`source:lines` of other places that say exactly the same."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the searched index has vectors of the current model."""

    chunks: int
    with_vectors: int


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
