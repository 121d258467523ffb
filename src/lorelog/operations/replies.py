"""What each operation answers, as JSON. docs/json.md explains these fields; they do not change without a version.

Typed dictionaries and not classes: they travel as they are, and a client reads them without importing anything.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from lorelog.operations.code_replies import CodeAnswerShape
from lorelog.operations.freshness_shapes import FreshnessShape
from lorelog.operations.trust_shapes import GroundingShape, HintShape, ProblemShape, TrustShape

Shape = dict[str, Any]


class ErrorShape(TypedDict):
    """What went wrong."""

    code: str
    message: str
    hint: str


class CoverageShape(TypedDict):
    """How much of what was searched has vectors."""

    chunks: int
    with_vectors: int


class PartShape(TypedDict):
    """One named share of a score."""

    name: str
    value: float
    note: str


class PackedShape(TypedDict):
    """What a token budget left of a hit."""

    form: str
    text: str
    tokens: int
    start_line: int
    end_line: int
    within: str


class DroppedShape(TypedDict):
    """A hit that a token budget left out."""

    id: str
    source: str
    start_line: int
    end_line: int
    tokens: int
    reason: str


class PackingShape(TypedDict):
    """What a token budget was spent on."""

    budget: int
    spent: int
    dropped: list[DroppedShape]


class FateShape(TypedDict):
    """What has become of a memory."""

    superseded_by: str
    expires: str
    review_after: str
    expired: bool
    due: bool


class PlacedShape(TypedDict):
    """A chunk: where it stands and what is known of it."""

    id: str
    source: str
    start_line: int
    end_line: int
    heading: str
    heading_level: int
    heading_path: list[str]
    project: str
    date: str
    type: str
    tags: list[str]
    content_hash: str
    anchor: Shape | None
    fate: NotRequired[FateShape]


class HitShape(PlacedShape):
    """One result: where it stands, what it says, why it came up."""

    score: float
    content: NotRequired[str]
    snippet: NotRequired[str]
    matches: NotRequired[list[list[int]]]
    duplicates: list[str]
    relevance: float
    tokens: NotRequired[int]
    expand_tokens: int
    trust: TrustShape
    verification_hint: HintShape
    grounding_refs: list[GroundingShape]
    freshness: FreshnessShape
    packed: NotRequired[PackedShape]
    explanation: NotRequired[list[PartShape]]


class SearchShape(TypedDict):
    """Hits, best first."""

    query: str
    lane: str
    hits: list[HitShape]
    weighing: str
    coverage: CoverageShape
    packing: PackingShape | None
    notes: list[str]
    code: CodeAnswerShape | None


class ChunkShape(PlacedShape):
    """A chunk, as list and get show it."""

    content: str


class TranscriptPlaceShape(TypedDict):
    """Where a conversation lies, and what all of it would cost to read."""

    address: str
    exists: bool
    tokens: int | None


class CoveredShape(TypedDict):
    """A chunk that a summary sums up, where it stands now."""

    content_hash: str
    id: str
    source: str
    start_line: int
    end_line: int
    date: str


class ExpandShape(ChunkShape):
    """A section."""

    tokens: int
    transcript: TranscriptPlaceShape | None
    covered: int
    covers: list[CoveredShape]
    trust: TrustShape
    notes: list[str]


class GetShape(TypedDict):
    """A memory by its id: there, deleted, or unknown."""

    found: bool
    deleted: bool
    deleted_at: str
    superseded_by: str
    expired: bool
    memory: ChunkShape | None
    trust: TrustShape | None


class DocumentShape(TypedDict):
    """A file of the index."""

    source: str
    project: str
    root: str
    title: str
    date: str
    chunks: int
    bytes: int
    indexed_at: str


class ListShape(TypedDict):
    """Documents or memories, newest first."""

    documents: list[DocumentShape]
    memories: list[ChunkShape]
    more: bool


class KnownItemsShape(TypedDict):
    """How well vectors alone find chunks by questions made of what the chunks say."""

    hit_at_5: float
    mrr: float


ReembeddingShape = TypedDict(
    "ReembeddingShape",
    {
        "from": str,
        "to": str,
        "probes": int,
        "before": KnownItemsShape | None,
        "after": KnownItemsShape | None,
        "worse": bool,
        "swapped": bool,
    },
)
"""What came of making all vectors anew."""


class IndexShape(TypedDict):
    """What an index run did."""

    files: int
    changed: int
    unchanged: int
    touched: int
    removed: int
    chunks: int
    embedded: int
    truncated: int
    waiting: int
    problems: list[ProblemShape]
    notes: list[str]
    seconds: float
    failed: int
    reembedding: ReembeddingShape | None


class AdmissionShape(TypedDict):
    """How long a new memory is kept, and why."""

    decision: str
    reason: str
    expires: str


class AddShape(TypedDict):
    """Where a new memory stands."""

    memory: str
    id: str
    source: str
    start_line: int
    end_line: int
    searchable: bool
    admission: AdmissionShape
    notes: list[str]


class AddBatchShape(TypedDict):
    """Where new memories stand, in the order they were given."""

    memories: list[AddShape]


class DeleteShape(TypedDict):
    """What was hidden, or shown again."""

    id: str
    memory: str
    source: str
    chunks: int
    changed: bool
    notes: list[str]


class StatsShape(TypedDict):
    """Sizes."""

    documents: int
    chunks: int
    vectors: int
    other_vectors: int
    coverage: CoverageShape
    model: str
    projects: dict[str, int]
    bytes_on_disk: int
    bytes_mapped: int
    schema_version: int
    location: str


class CheckShape(TypedDict):
    """One thing that was looked at."""

    name: str
    ok: bool
    message: str
    hint: str


class HealthShape(TypedDict):
    """Whether the index is as it should be."""

    ok: bool
    checks: list[CheckShape]
    coverage: CoverageShape
    duplicates: list[list[str]]


class LatencyShape(TypedDict):
    """How often an operation was asked for and how long it took, in milliseconds; of the last ones only."""

    op: str
    count: int
    errors: int
    p50_ms: float
    p90_ms: float
    p99_ms: float


class MetricsShape(TypedDict):
    """What this process has done since it started."""

    pid: int
    uptime_s: float
    rss_bytes: int
    operations: list[LatencyShape]
    cache: dict[str, int]


class RootShape(TypedDict):
    """A file or directory that is indexed."""

    path: str
    project: str
    exclude: list[str]
    patterns: list[str]
    origin: str
    exists: bool
    documents: int


class RootsShape(TypedDict):
    """What is indexed."""

    roots: list[RootShape]


class ForgottenShape(TypedDict):
    """Roots that are no longer indexed."""

    forgotten: list[str]
    documents: int


class ResetShape(TypedDict):
    """What was deleted."""

    deleted: str


class UnknownShape(TypedDict):
    """A judged document that a search cannot find."""

    document: str
    reason: str


class EvaluateShape(TypedDict):
    """What was measured."""

    k: int
    questions: int
    judged: int
    documents: int
    unknown: list[UnknownShape]
    rankings: list[Shape]
    problems: list[ProblemShape]
    failed: int
    notes: list[str]


class ToolCallShape(TypedDict):
    """A tool that was used in a turn."""

    name: str
    input: str
    result: str
    failed: bool
    truncated: bool


class TurnShape(TypedDict):
    """One request and what came of it."""

    id: str
    number: int
    time: str
    user: str
    assistant: str
    tools: list[ToolCallShape]
    sidechain: bool
    interrupted: bool
    truncated: bool
    tools_left_out: int


class TranscriptShape(TypedDict):
    """Part of a conversation."""

    address: str
    host: str
    format: str
    session: str
    turns: list[TurnShape]
    total: int
    focus: str
    skipped: int
    broken: int
    notes: list[str]
    tokens: int
