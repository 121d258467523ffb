"""The operation `memory.search`: a family of its own, so that a cold search loads no other verb."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from lorelog.core.errors import ModelError
from lorelog.core.options import SearchOptions
from lorelog.core.query import (
    NO_LIFECYCLE_STATE,
    BudgetReport,
    FreshnessVerdict,
    Fusion,
    Hit,
    Lane,
    LifecycleState,
    PackedHit,
    ScorePart,
    SearchReply,
    SupportingRecord,
    TrustFilter,
    VectorCoverage,
)
from lorelog.core.record import Trust, VerificationHint
from lorelog.core.serializable import shows_as_json
from lorelog.operations.operation import Json, OperationFamily, OperationReply, ShellCommand, reply_from
from lorelog.operations.requests import FilteredRequest, LaneName, Text, about, read_filters

if TYPE_CHECKING:
    from lorelog.core.document import Anchor
    from lorelog.engine import Engine
    from lorelog.operations.operation import RequestContext

OPERATIONS = OperationFamily()
MAX_HITS = 100_000
"""Upper limit of `k`."""
if TYPE_CHECKING:  # Python callers may pass enums, too
    FusionName = Fusion | Literal["convex", "rrf"]
    TrustName = TrustFilter | Literal["any", "canonical", "verified"]
else:
    FusionName = Literal["convex", "rrf"]
    TrustName = Literal["any", "canonical", "verified"]


class SearchRequest(FilteredRequest, frozen=True):
    """A search query and its options."""

    query: Annotated[Text, about("A question or keywords.", min_length=1)]
    k: Annotated[Annotated[int, Meta(ge=1, le=MAX_HITS)] | None, about("Number of hits; search.k if not given.")] = None
    lane: Annotated[
        LaneName | None,
        about("Search by keywords (lexical), by meaning (dense), or both (hybrid); search.lane if not given."),
    ] = None
    fusion: Annotated[
        FusionName | None, about("How the scores of both lanes are combined; search.fusion if not given.")
    ] = None
    token_budget: Annotated[
        Annotated[int, Meta(ge=0, le=10_000_000)] | None,
        about(
            "Return the best hits that fit into this many tokens, whole sections where they fit; search.token_budget if not given, 0: no budget."
        ),
    ] = None
    min_relevance: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        about("Omit hits that are less likely to be relevant than this, 0 to 1; search.min_relevance if not given."),
    ] = None
    explain: Annotated[bool, about("Include the parts of each score.")] = False
    include_superseded: Annotated[bool, about("Include superseded memories.")] = False
    include_expired: Annotated[bool, about("Include expired memories.")] = False
    trust: Annotated[
        TrustName, about("Minimum trust of a hit: any, a record (canonical), or a record verified by a second writer.")
    ] = "any"
    one_per_memory: Annotated[
        bool, about("Return only the best chunk of each memory, or of each section of other text.")
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
    grounding_refs: tuple[SupportingRecord, ...]
    freshness: FreshnessVerdict
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
    nothing_relevant: str


_SEARCH_OPTIONS = tuple(name for name in SearchOptions.__struct_fields__ if name in SearchRequest.__struct_fields__)
"""Fields that a search request shares with `SearchOptions`; one that is not given keeps its setting."""
_OPTION_ENUMS = {"lane": Lane, "fusion": Fusion, "trust": TrustFilter}


@OPERATIONS.declare(
    "memory.search",
    ShellCommand("search", ("query...",), hidden=("projects", "one_per_memory")),
    errors=(ModelError,),
    warms=True,
    pure=True,
)
def search(engine: Engine, request: SearchRequest, call: RequestContext) -> SearchReply:
    """Search memories, notes and records, best hit first.

    Keywords and vectors are searched together. Each hit has its location, its relevance and trust, and the number of
    tokens it takes to read more.
    """
    options: dict[str, Any] = {
        name: _OPTION_ENUMS[name](value) if name in _OPTION_ENUMS else value
        for name in _SEARCH_OPTIONS
        if (value := getattr(request, name)) is not None
    }
    reply = engine.search(
        request.query,
        replace(engine.defaults.search, filters=read_filters(request, call.directory), **options),
        all_projects=request.all_projects,
    )
    return replace(reply, explained=True) if request.explain else reply


@shows_as_json(SearchReply, SearchJson)
def search_json(reply: SearchReply) -> SearchJson:
    """Return search hits, with score parts if requested."""
    return reply_from(
        reply,
        SearchJson,
        lane=str(reply.lane),
        hits=tuple(hit_json(hit, explain=reply.explained) for hit in reply.hits),
    )


@shows_as_json(Hit, HitJson)
def hit_json(hit: Hit, *, explain: bool = False) -> HitJson:
    """Return one hit. With a token budget only `packed` holds text: the budget is for that."""
    changed: dict[str, Any] = {
        "anchor": anchor_json(hit.anchor),
        "origin": hit.origin,
        "lifecycle": lifecycle_json(hit.lifecycle),
        "verification_hint": hit.trust.verification_hint,
        "grounding_refs": tuple(hit.grounding),
        "freshness": hit.verdict,
        "explanation": hit.explanation.parts if explain else UNSET,
    }
    if hit.packed is None:
        changed["packed"] = UNSET
    else:
        changed |= dict.fromkeys(("content", "snippet", "matches", "tokens"), UNSET)
    return reply_from(hit, HitJson, **changed)


def lifecycle_json(lifecycle: LifecycleState | None) -> Any:
    """Return a lifecycle state, or UNSET if there is nothing to report."""
    return UNSET if lifecycle is None or lifecycle == NO_LIFECYCLE_STATE else lifecycle


def anchor_json(anchor: Anchor | None) -> Json | None:
    """Return the non-empty fields of an anchor; of `covers` only the count, as `expand` lists the chunks."""
    if anchor is None:
        return None
    fields: Json = {name: value for name in anchor.__struct_fields__ if (value := getattr(anchor, name))}
    return fields | {"covers": len(anchor.covers)} if anchor.covers else fields
