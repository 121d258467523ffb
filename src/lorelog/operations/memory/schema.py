"""Requests and replies of `memory.*` and `roots.*`. docs/json.md explains the reply fields.

Replies that are core values (`AddReply`, `CompactReply`, …) are not repeated here; a class named `…Json` exists
where the JSON differs from the core value of that name.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from lorelog.core.memory import AddReply, AdmissionResult, CoveredChunk, FileProblem, HealthCheck, KnownItemScores
from lorelog.core.query import VectorCoverage
from lorelog.core.record import Trust
from lorelog.operations.replies import FreshnessJson, Json, OperationReply
from lorelog.operations.requests import FilteredRequest, OperationRequest, Path, Paths, Since, Text, Until, Words
from lorelog.operations.search.schema import ChunkLocation, LaneName

_MemoryType = Annotated[
    Annotated[str, Meta(max_length=64)], Meta(description="Type of the memory, such as decision, fact, lesson.")
]
_Tags = Annotated[Words, Meta(description="Tags, one word each.")]
_Origin = Annotated[
    Literal["user", "agent", "tool", "import"],
    Meta(description="Who the text comes from; `user` of an agent or over HTTP becomes `agent`."),
]
_Cues = Annotated[
    Annotated[list[Annotated[str, Meta(max_length=300)]], Meta(max_length=20)],
    Meta(
        description="When to show the memory to an agent, as KIND=VALUE: path=src/db/**, command=npm *, symbol=NAME, "
        "error=TEXT, topic=WORDS, event=commit, day=2026-12-31. Derived from the text if none are given."
    ),
]
_Expires = Annotated[
    Annotated[str, Meta(max_length=40)],
    Meta(description="The last day the memory is shown: 2026-03-05, tomorrow, or a period such as 14d, 2w, 3m, 1y."),
]
_KeepSecrets = Annotated[
    bool, Meta(description="Write secrets in the text as they are. Only a person on this machine can ask for it.")
]
_Day = Annotated[str, Meta(max_length=40)] | UnsetType | None


class MemoryText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One memory to add."""

    text: Annotated[Text, Meta(min_length=1, description="The text to remember, in Markdown.")]
    type: _MemoryType = ""
    tags: _Tags = []
    origin: _Origin = "user"
    expires: _Expires = ""
    cues: _Cues = []


class AddRequest(OperationRequest, frozen=True, kw_only=True):
    """One memory to add, and where."""

    text: Annotated[Text, Meta(min_length=1, description="The text to remember, in Markdown.")]
    type: _MemoryType = ""
    tags: _Tags = []
    origin: _Origin = "user"
    expires: _Expires = ""
    cues: _Cues = []
    to_global: Annotated[bool, Meta(description="Make it visible in every project.")] = False
    keep_secrets: _KeepSecrets = False


class AddBatchRequest(OperationRequest, frozen=True, kw_only=True):
    """Several memories to add together."""

    memories: Annotated[list[MemoryText], Meta(min_length=1, max_length=1000, description="The memories, in order.")]
    to_global: Annotated[bool, Meta(description="Make them visible in every project.")] = False
    keep_secrets: _KeepSecrets = False


class IdentityRequest(OperationRequest, frozen=True, kw_only=True):
    """One chunk or memory."""

    id: Annotated[
        str, Meta(min_length=1, max_length=200, description="Id of a chunk or memory, or its first characters.")
    ]


class ExpandRequest(IdentityRequest, frozen=True, kw_only=True):
    """A section to show."""

    lines: Annotated[
        Annotated[int, Meta(ge=0, le=100_000)] | None,
        Meta(description="Show this many lines before and after the hit instead of its section."),
    ] = None
    cues: Annotated[bool, Meta(description="Also return the cues that are derived from its text.")] = False


class TranscriptRequest(OperationRequest, frozen=True, kw_only=True):
    """A conversation to show."""

    place: Annotated[
        str, Meta(min_length=1, max_length=4096, description="Id of a chunk or memory, or the path of a transcript.")
    ]
    turn: Annotated[str, Meta(max_length=200, description="The turn to show; the memory's own turn if not given.")] = ""
    context: Annotated[int, Meta(ge=0, le=1000, description="Number of turns before and after it.")] = 3


class ListRequest(FilteredRequest, frozen=True, kw_only=True):
    """Which memories or documents to list."""

    documents: Annotated[bool, Meta(description="List files instead of memories.")] = False
    limit: Annotated[int, Meta(ge=1, le=100_000, description="Maximum number of entries.")] = 20
    due: Annotated[bool, Meta(description="Only memories that are due for review, the longest overdue first.")] = False
    include_superseded: Annotated[bool, Meta(description="Include superseded memories.")] = False
    include_expired: Annotated[bool, Meta(description="Include expired memories.")] = False


class IndexRequest(OperationRequest, frozen=True, kw_only=True):
    """Files to index, and how."""

    paths: Annotated[
        Paths,
        Meta(
            description="Files and directories, '!PATH' to exclude one; the project's indexed paths if none are given."
        ),
    ] = []
    to_global: Annotated[bool, Meta(description="Make them visible in every project.")] = False
    exclude: Annotated[
        Words, Meta(description="gitignore-style patterns to exclude from the paths; stored with them.")
    ] = []
    ignore_files: Annotated[
        Words, Meta(description="Names of ignore files to honour besides the configured ones.")
    ] = []
    force: Annotated[bool, Meta(description="Read and chunk every file again.")] = False
    vectors: Annotated[bool, Meta(description="Compute vectors in this run.")] = True
    reembed: Annotated[
        bool,
        Meta(description="Embed everything again with the current model; the old vectors are used until that is done."),
    ] = False
    anyway: Annotated[bool, Meta(description="With reembed: use the new vectors even if they find clearly less.")] = (
        False
    )
    rollback: Annotated[
        bool, Meta(description="Index nothing; use the vectors from before the last reembed again.")
    ] = False
    forget_old: Annotated[
        bool,
        Meta(description="Index nothing; delete the vectors that are not in use; rollback is not possible afterwards."),
    ] = False


class RootsRequest(OperationRequest, frozen=True, kw_only=True):
    """Roots by their paths."""

    paths: Annotated[Paths, Meta(min_length=1, description="Files and directories.")]


class HealthRequest(OperationRequest, frozen=True, kw_only=True):
    """Options of a health check."""

    duplicates: Annotated[int, Meta(ge=0, le=1000, description="Maximum number of duplicated texts to list.")] = 10


class EvaluateRequest(FilteredRequest, frozen=True, kw_only=True):
    """Judged questions to measure search with."""

    queries: Annotated[Path | None, Meta(description="Questions: JSON lines with id and text, plain or gzip.")] = None
    qrels: Annotated[Path | None, Meta(description="Judgements, tab-separated: question, document, gain.")] = None
    feedback: Annotated[bool, Meta(description="Use the judgements of memory.feedback instead of files.")] = False
    k: Annotated[int, Meta(ge=1, le=1000, description="Number of top hits that count.")] = 10
    lane: Annotated[LaneName | None, Meta(description="Only the rankings of this lane.")] = None


class SupersedeRequest(IdentityRequest, frozen=True, kw_only=True):
    """The memory that replaces another."""

    text: Annotated[Text, Meta(min_length=1, description="The new text, in Markdown.")]
    type: Annotated[
        Annotated[str, Meta(max_length=64)], Meta(description="Type of the memory; that of the old one if not given.")
    ] = ""
    tags: Annotated[Words, Meta(description="Tags, one word each; those of the old memory if not given.")] = []
    origin: _Origin = "user"
    cues: _Cues = []
    keep_secrets: _KeepSecrets = False


class EditRequest(IdentityRequest, frozen=True, kw_only=True):
    """A new text for the section of a memory."""

    before: Annotated[Text, Meta(min_length=1, description="The section as memory.expand showed it, to be replaced.")]
    text: Annotated[Text, Meta(min_length=1, description="The new text of the section, with its heading and anchor.")]
    keep_secrets: _KeepSecrets = False


class ExpiryRequest(IdentityRequest, frozen=True, kw_only=True):
    """The expiry and review days of a memory. A field that is not given stays unchanged; null removes it."""

    expires: Annotated[
        _Day,
        Meta(
            description="The last day it is shown: 2026-03-05, today, or a period such as 14d, 2w, 3m, 1y; "
            "null or 'never' removes it."
        ),
    ] = UNSET
    review_after: Annotated[
        _Day, Meta(description="The day from which it is due for review, likewise; null or 'never' removes it.")
    ] = UNSET


class FeedbackRequest(IdentityRequest, frozen=True, kw_only=True):
    """Whether a memory answers a query."""

    query: Annotated[str, Meta(min_length=1, max_length=10_000, description="The query.")]
    relevance: Annotated[Literal["relevant", "irrelevant"], Meta(description="Whether the memory answers it.")]


class NearDuplicatesRequest(OperationRequest, frozen=True, kw_only=True):
    """Which memories to compare."""

    threshold: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(
            description="Minimum similarity, 0 to 1: cosine of vectors (default 0.84 with the built-in model, else 0.94) or share of common words (0.8)."
        ),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of groups.")] = 20
    types: Annotated[Words, Meta(description="Only memories of one of these types.")] = []
    all_projects: Annotated[bool, Meta(description="Search every project, not only this one and the global one.")] = (
        False
    )


class EpisodeRequest(OperationRequest, frozen=True, kw_only=True):
    """An episode to summarize."""

    episode_id: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=150,
            description="Its id: memories tagged episode:ID and those captured in the session of that id belong to it.",
        ),
    ]
    max_chunks: Annotated[int, Meta(ge=1, le=1000, description="Use only this many of the newest memories.")] = 50
    retain_source_chunks: Annotated[
        bool, Meta(description="Keep showing the memories; if false, the summary supersedes them.")
    ] = True


class CompactRequest(OperationRequest, frozen=True, kw_only=True):
    """What to summarize, with which model, and where to write the summary."""

    source: Annotated[Path | None, Meta(description="Only files at or below this path.")] = None
    since: Since = None
    until: Until = None
    output_dir: Annotated[
        Path | None,
        Meta(description="Write to the day's file in this directory; the project's journals if not given."),
    ] = None
    llm: Annotated[
        Annotated[str, Meta(max_length=200)],
        Meta(
            description="'none' extracts sentences at no cost; otherwise a provider or PROVIDER/MODEL; "
            "llm.provider if not given."
        ),
    ] = ""
    prompt_file: Annotated[
        Path | None, Meta(description="A file with instructions for the model; prompts.compact if not given.")
    ] = None
    dry_run: Annotated[bool, Meta(description="Report the requests and their cost; write nothing.")] = False


class ChunkJson(ChunkLocation, frozen=True, kw_only=True):
    """A chunk, as list and get show it."""

    content: str


class TranscriptLocationInfo(OperationReply, frozen=True, kw_only=True):
    """The transcript that a memory comes from, and its size in tokens."""

    address: str
    exists: bool
    tokens: int | None


class ExpandJson(ChunkJson, frozen=True, kw_only=True):
    """A whole section."""

    tokens: int
    transcript: TranscriptLocationInfo | None
    covered: int
    covers: tuple[CoveredChunk, ...]
    derived_cues: tuple[str, ...]
    trust: Trust
    freshness: FreshnessJson
    notes: tuple[str, ...]


class GetJson(OperationReply, frozen=True, kw_only=True):
    """A memory by its id: present, deleted, forgotten, or unknown."""

    found: bool
    deleted: bool
    deleted_at: str
    forgotten: bool
    superseded_by: str
    expired: bool
    memory: ChunkJson | None
    trust: Trust | None


class DocumentJson(OperationReply, frozen=True, kw_only=True):
    """An indexed file."""

    source: str
    project: str
    root: str
    title: str
    date: str
    date_source: str
    chunks: int
    bytes: int
    indexed_at: str


class ListJson(OperationReply, frozen=True, kw_only=True):
    """Documents or memories, newest first."""

    documents: tuple[DocumentJson, ...]
    memories: tuple[ChunkJson, ...]
    more: bool
    notes: tuple[str, ...]


class ReembedJson(OperationReply, frozen=True, kw_only=True, rename={"old": "from", "new": "to"}):
    """Comparison of the old and the new vectors."""

    old: str
    new: str
    probes: int
    before: KnownItemScores | None
    after: KnownItemScores | None
    worse: bool
    swapped: bool


class IndexJson(OperationReply, frozen=True, kw_only=True):
    """Result of an index run."""

    files: int
    changed: int
    unchanged: int
    touched: int
    removed: int
    chunks: int
    embedded: int
    truncated: int
    waiting: int
    problems: tuple[FileProblem, ...]
    notes: tuple[str, ...]
    seconds: float
    failed: int
    reembedding: ReembedJson | None


class AddBatchJson(OperationReply, frozen=True, kw_only=True):
    """The new memories, in the order they were given."""

    memories: tuple[AddReply, ...]


class SupersedeJson(OperationReply, frozen=True, kw_only=True):
    """The new memory, and the id of the one it replaces."""

    memory: str
    id: str
    source: str
    start_line: int
    end_line: int
    searchable: bool
    admission: AdmissionResult
    notes: tuple[str, ...]
    redacted: dict[str, int]
    origin: str
    supersedes: str


class EditReply(OperationReply, frozen=True, kw_only=True):
    """A memory that was edited in its file. Its id stays; `changed` is false if the file said so already."""

    memory: str
    source: str
    changed: bool
    redacted: dict[str, int]
    notes: tuple[str, ...]


class DuplicateJson(OperationReply, frozen=True, kw_only=True):
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
    keep: bool
    text: str


class DuplicatesJson(OperationReply, frozen=True, kw_only=True):
    """Groups of near-duplicate memories, the one to keep first in each."""

    groups: tuple[tuple[DuplicateJson, ...], ...]
    compared: int
    by_vectors: int
    more: bool
    notes: tuple[str, ...]


class DeliveryDay(OperationReply, frozen=True, kw_only=True):
    """Memories shown to agents on one day."""

    day: str
    deliveries: int
    tokens: int


class DeliveryStats(OperationReply, frozen=True, kw_only=True):
    """Tokens of memories shown to agents in the last 7 and 30 days, and by day, newest first."""

    tokens_7_days: int
    tokens_30_days: int
    days: tuple[DeliveryDay, ...]


class ProjectStats(OperationReply, frozen=True, kw_only=True):
    """Sizes of one project; the empty id is the global one."""

    id: str
    documents: int
    coverage: VectorCoverage


class StatsReply(OperationReply, frozen=True, kw_only=True):
    """Sizes of the index of all projects, and of this project; tokens of deliveries."""

    project: ProjectStats

    documents: int
    chunks: int
    vectors: int
    other_vectors: int
    coverage: VectorCoverage
    model: str
    projects: dict[str, int]
    bytes_on_disk: int
    bytes_mapped: int
    schema_version: int
    location: str
    deliveries: DeliveryStats


class HealthJson(OperationReply, frozen=True, kw_only=True):
    """Results of the health checks."""

    ok: bool
    checks: tuple[HealthCheck, ...]
    coverage: VectorCoverage
    duplicates: tuple[tuple[str, ...], ...]


class OperationLatency(OperationReply, frozen=True, kw_only=True):
    """Calls of one operation, with latency percentiles of the most recent ones in milliseconds."""

    op: str
    count: int
    errors: int
    p50_ms: float
    p90_ms: float
    p99_ms: float


class MetricsReply(OperationReply, frozen=True, kw_only=True):
    """Counters of this process since it started."""

    pid: int
    uptime_s: float
    rss_bytes: int
    operations: tuple[OperationLatency, ...]
    cache: dict[str, int]


class RootJson(OperationReply, frozen=True, kw_only=True):
    """An indexed file or directory."""

    path: str
    project: str
    exclude: tuple[str, ...]
    patterns: tuple[str, ...]
    origin: str
    exists: bool
    documents: int


class RootsJson(OperationReply, frozen=True, kw_only=True):
    """The indexed files and directories."""

    roots: tuple[RootJson, ...]


class RemovedRoots(OperationReply, frozen=True, kw_only=True):
    """Roots that are no longer indexed, and the number of documents dropped."""

    forgotten: tuple[str, ...]
    documents: int


class ResetReply(OperationReply, frozen=True, kw_only=True):
    """The deleted index folder."""

    deleted: str


class MissingDocument(OperationReply, frozen=True, kw_only=True):
    """A judged document that search cannot return."""

    document: str
    reason: str


class EvaluateJson(OperationReply, frozen=True, kw_only=True):
    """Measured search quality."""

    k: int
    questions: int
    judged: int
    documents: int
    unknown: tuple[MissingDocument, ...]
    rankings: tuple[Json, ...]
    problems: tuple[FileProblem, ...]
    failed: int
    notes: tuple[str, ...]
