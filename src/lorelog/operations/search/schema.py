"""Request and reply of `memory.search`. docs/json.md explains the reply fields."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from lorelog.core.query import BudgetReport, LifecycleState, PackedHit, ScorePart, ValueChange, VectorCoverage
from lorelog.core.record import Trust
from lorelog.operations.replies import CodeAnswer, FreshnessJson, GroundingRef, Json, OperationReply, VerificationHint
from lorelog.operations.requests import FilteredRequest, Text

MAX_HITS = 100_000
"""Upper limit of `k`."""

LaneName = Literal["hybrid", "lexical", "dense"]


class SearchRequest(FilteredRequest, frozen=True, kw_only=True):
    """A search query and its options."""

    query: Annotated[Text, Meta(min_length=1, description="A question or keywords.")]
    k: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_HITS)] | None, Meta(description="Number of hits; search.k if not given.")
    ] = None
    lane: Annotated[
        LaneName | None,
        Meta(
            description="Search by keywords (lexical), by meaning (dense), or both (hybrid); search.lane if not given."
        ),
    ] = None
    fusion: Annotated[
        Literal["convex", "rrf"] | None,
        Meta(description="How the scores of both lanes are combined; search.fusion if not given."),
    ] = None
    token_budget: Annotated[
        Annotated[int, Meta(ge=0, le=10_000_000)] | None,
        Meta(
            description="Return the best hits that fit into this many tokens, whole sections where they fit; search.token_budget if not given, 0: no budget."
        ),
    ] = None
    min_relevance: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(
            description="Omit hits that are less likely to be relevant than this, 0 to 1; search.min_relevance if not given."
        ),
    ] = None
    explain: Annotated[bool, Meta(description="Include the parts of each score.")] = False
    include_superseded: Annotated[bool, Meta(description="Include superseded memories.")] = False
    include_expired: Annotated[bool, Meta(description="Include expired memories.")] = False
    trust: Annotated[
        Literal["any", "canonical", "verified"],
        Meta(description="Minimum trust of a hit: any, a record (canonical), or a record verified by a second writer."),
    ] = "any"
    one_per_memory: Annotated[
        bool, Meta(description="Return only the best chunk of each memory, or of each section of other text.")
    ] = False


class ChunkLocation(OperationReply, frozen=True, kw_only=True):
    """Where a chunk is, and what is known about it."""

    id: str
    source: str
    start_line: int
    end_line: int
    heading: str
    heading_level: int
    heading_path: tuple[str, ...]
    project: str
    date: str
    date_source: str
    type: str
    tags: tuple[str, ...]
    content_hash: str
    anchor: Json | None
    origin: str
    lifecycle: LifecycleState | UnsetType = UNSET


class HitJson(ChunkLocation, frozen=True, kw_only=True):
    """A search hit: its location, its text, and its score. With a token budget `packed` replaces the texts."""

    score: float
    content: str | UnsetType = UNSET
    snippet: str | UnsetType = UNSET
    matches: tuple[tuple[int, ...], ...] | UnsetType = UNSET
    duplicates: tuple[str, ...]
    relevance: float
    confidence: str | None
    tokens: int | UnsetType = UNSET
    expand_tokens: int
    trust: Trust
    verification_hint: VerificationHint
    grounding_refs: tuple[GroundingRef, ...]
    freshness: FreshnessJson
    now_was: tuple[ValueChange, ...]
    packed: PackedHit | UnsetType = UNSET
    explanation: tuple[ScorePart, ...] | UnsetType = UNSET


class SearchJson(OperationReply, frozen=True, kw_only=True):
    """Search hits, best first."""

    query: str
    lane: str
    hits: tuple[HitJson, ...]
    weighing: str
    coverage: VectorCoverage
    packing: BudgetReport | None
    notes: tuple[str, ...]
    code: CodeAnswer | None
