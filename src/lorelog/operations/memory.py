"""Operations on memories: `memory.*`, as far as they read and write memories themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import asdict, replace

from lorelog.core.caller import checked_origin
from lorelog.core.document import Document, StoredChunk
from lorelog.core.errors import NotFound, SourceError, UsageError
from lorelog.core.memory import AddReply, CoveredChunk, DeleteReply, ExpandReply, GetReply, ListReply, NewMemory
from lorelog.core.options import ListOptions
from lorelog.core.query import FreshnessVerdict, LifecycleState
from lorelog.core.record import Trust
from lorelog.core.serializable import ReplyItems, shows_as_json
from lorelog.core.session import TranscriptReply
from lorelog.engine import Engine
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand, reply_from
from lorelog.operations.requests import (
    Day,
    FilteredRequest,
    Id,
    OperationRequest,
    Text,
    Words,
    about,
    parse_last_day,
    read_filters,
)
from lorelog.operations.search import ChunkLocation, anchor_json, lifecycle_json

OPERATIONS = OperationFamily()
TEXT_HELP = "text of the memory, in Markdown; '-' reads standard input"
_MemoryType = Annotated[str, about("Type of the memory, such as decision, fact, lesson.", max_length=64)]
_Tags = Annotated[Words, about("Tags, one word each.")]
OriginName = Annotated[
    Literal["user", "agent", "tool", "import"],
    about("Who the text comes from; `user` of an agent or over HTTP becomes `agent`."),
]
CueTexts = Annotated[
    list[Annotated[str, Meta(max_length=300)]],
    about(
        "When to show the memory to an agent, as KIND=VALUE: path=src/db/**, command=npm *, symbol=NAME, error=TEXT, topic=WORDS, event=commit, day=2026-12-31. Derived from the text if none are given.",
        max_length=20,
    ),
]
_Expires = Annotated[
    Day,
    about(
        "The last day the memory is shown: 2026-03-05, tomorrow, or a period such as 14d, 2w, 3m, 1y.", max_length=40
    ),
]
KeepSecrets = Annotated[
    bool, about("Write secrets in the text as they are. Only a person on this machine can ask for it.")
]
MemoryId = Annotated[Id, about("Id of a chunk or memory, or its first characters.", min_length=1, max_length=200)]


class MemoryText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One memory to add."""

    text: Annotated[Text, about("The text to remember, in Markdown.", min_length=1)]
    type: _MemoryType = ""
    tags: _Tags = []
    origin: OriginName = "user"
    expires: _Expires = ""
    cues: CueTexts = []


class AddRequest(OperationRequest, frozen=True):
    """One memory to add, and where."""

    text: Annotated[Text, about("The text to remember, in Markdown.", min_length=1)]
    type: _MemoryType = ""
    tags: _Tags = []
    origin: OriginName = "user"
    expires: _Expires = ""
    cues: CueTexts = []
    to_global: Annotated[bool, about("Make it visible in every project.")] = False
    keep_secrets: KeepSecrets = False


class AddBatchRequest(OperationRequest, frozen=True, kw_only=True):
    """Several memories to add together."""

    memories: Annotated[list[MemoryText], about("The memories, in order.", min_length=1, max_length=1000)]
    to_global: Annotated[bool, about("Make them visible in every project.")] = False
    keep_secrets: KeepSecrets = False


class IdentityRequest(OperationRequest, frozen=True):
    """One chunk or memory."""

    id: MemoryId


class ExpandRequest(OperationRequest, frozen=True):
    """A section to show."""

    id: MemoryId
    lines: Annotated[
        Annotated[int, Meta(ge=0, le=100_000)] | None,
        about("Show this many lines before and after the hit instead of its section."),
    ] = None
    cues: Annotated[bool, about("Also return the cues that are derived from its text.")] = False


class TranscriptRequest(OperationRequest, frozen=True):
    """A conversation to show."""

    place: Annotated[Id, about("Id of a chunk or memory, or the path of a transcript.", min_length=1, max_length=4096)]
    turn: Annotated[str, about("The turn to show; the memory's own turn if not given.", max_length=200)] = ""
    context: Annotated[int, about("Number of turns before and after it.", ge=0, le=1000)] = 3


class ListRequest(FilteredRequest, frozen=True, kw_only=True):
    """Which memories or documents to list."""

    documents: Annotated[bool, about("List files instead of memories.")] = False
    limit: Annotated[int, about("Maximum number of entries.", ge=1, le=100_000)] = 20
    due: Annotated[bool, about("Only memories that are due for review, the longest overdue first.")] = False
    include_superseded: Annotated[bool, about("Include superseded memories.")] = False
    include_expired: Annotated[bool, about("Include expired memories.")] = False


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
    freshness: FreshnessVerdict
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


class AddBatchReply(ReplyItems[AddReply], OperationReply, frozen=True, kw_only=True):
    """The new memories, in the order they were given."""

    memories: tuple[AddReply, ...]


@shows_as_json(ExpandReply, ExpandJson)
def expand_json(reply: ExpandReply) -> ExpandJson:
    location = TranscriptLocationInfo(
        address=reply.transcript, exists=reply.transcript_exists, tokens=reply.transcript_tokens
    )
    chunk = asdict(chunk_json(reply.chunk, reply.lifecycle))
    for name in ("content", "start_line", "end_line"):  # the section's own
        del chunk[name]
    transcript = location if reply.transcript else None
    return reply_from(reply, ExpandJson, **chunk, transcript=transcript, freshness=reply.verdict)


@shows_as_json(GetReply, GetJson)
def get_json(reply: GetReply) -> GetJson:
    """Return a memory, or whether it was deleted."""
    return GetJson(
        found=reply.exists,
        deleted=bool(reply.deleted_at),
        deleted_at=reply.deleted_at,
        forgotten=reply.forgotten,
        superseded_by=reply.lifecycle.superseded_by,
        expired=reply.lifecycle.expired,
        memory=None if reply.memory is None else chunk_json(reply.memory, reply.lifecycle),
        trust=None if reply.memory is None else reply.trust,
    )


@shows_as_json(ListReply, ListJson)
def list_json(reply: ListReply) -> ListJson:
    memories = tuple(chunk_json(memory, reply.lifecycles.get(memory.id)) for memory in reply.memories)
    return reply_from(reply, ListJson, documents=tuple(map(document_json, reply.documents)), memories=memories)


@shows_as_json(StoredChunk, ChunkJson)
def chunk_json(stored: StoredChunk, lifecycle: LifecycleState | None = None) -> ChunkJson:
    """Return a chunk; its lifecycle state only if there is anything to report."""
    return reply_from(
        stored.chunk,
        ChunkJson,
        id=stored.id,
        project=stored.project,
        anchor=anchor_json(stored.chunk.anchor),
        origin=stored.chunk.anchor.origin if stored.chunk.anchor else "",
        lifecycle=lifecycle_json(lifecycle),
    )


@shows_as_json(Document, DocumentJson)
def document_json(document: Document) -> DocumentJson:
    return reply_from(document, DocumentJson, chunks=document.chunk_count, bytes=document.stamp.size)


@OPERATIONS.declare("memory.expand", errors=(NotFound,), pure=True)
def expand(engine: Engine, request: ExpandRequest, call: RequestContext) -> ExpandReply:
    """Show the whole section around a hit, read from its file."""
    reply = engine.memories().expand(request.id, lines=request.lines)
    reply = replace(reply, verdict=engine.memories().check_freshness(reply.chunk))
    if request.cues:
        from lorelog.services.standing.memories import list_derived_cues

        reply = replace(reply, derived_cues=tuple(map(str, list_derived_cues(reply.chunk))))
    if not reply.transcript:
        return reply
    from lorelog.services.sessions.transcripts import checked_follow, describe_transcript

    return describe_transcript(reply, checked_follow(engine.transcript_access(call.environment)))


@OPERATIONS.declare("memory.get", pure=True)
def get(engine: Engine, request: IdentityRequest, call: RequestContext) -> GetReply:
    """Return one memory by its id, or report that it is deleted or unknown."""
    return engine.memories().get(request.id)


@OPERATIONS.declare(
    "memory.transcript",
    ShellCommand("transcript", ("place",), {"context": "-c --context"}),
    errors=(NotFound, SourceError),
)
def transcript(engine: Engine, request: TranscriptRequest, call: RequestContext) -> TranscriptReply:
    """Show the conversation that a memory was captured from, around its turn. Secrets in it are redacted."""
    if not call.names_files and "/" in request.place:
        raise UsageError(
            "a conversation must be named by the id of its memory", hint="only the shell and Python accept paths"
        )
    from lorelog.services.sessions.transcripts import TranscriptSources, checked_follow, read_transcript

    sources = TranscriptSources(
        engine.store,
        checked_follow(engine.transcript_access(call.environment)),
        call.directory if call.names_files else None,  # a bare name could also be a file
        engine.defaults.capture.patterns,
    )
    return read_transcript(request.place, sources, turn=request.turn, context=request.context)


@OPERATIONS.declare("memory.list", ShellCommand("list", hidden=("projects",)), pure=True)
def list_memories(engine: Engine, request: ListRequest, call: RequestContext) -> ListReply:
    """List memories or documents, newest first."""
    if request.documents and request.due:
        raise UsageError("due applies to memories only", hint="use either documents or due, not both")
    return engine.memories().list(
        read_filters(request, call.directory),
        documents=request.documents,
        limit=request.limit,
        all_projects=request.all_projects,
        options=ListOptions(request.include_superseded, request.include_expired, request.due),
    )


@OPERATIONS.declare(
    "memory.add",
    ShellCommand("add", ("text",), helps={"text": TEXT_HELP}, hidden=("origin", "cues"), metavars={"expires": "DAY"}),
    writes=True,
    once=True,
    warms=True,
)
def add(engine: Engine, request: AddRequest, call: RequestContext) -> AddReply:
    """Add a memory: append it to today's journal. It is searchable at once.

    Secrets in it are redacted; `redacted` counts them by kind.
    """
    _check_project_known(engine, request, call)
    check_keep_secrets(call, [request.origin], keep_secrets=request.keep_secrets)
    return engine.memories().add(
        [_new_memory(request, call)], to_global=request.to_global, keep_secrets=request.keep_secrets
    )[0]


@OPERATIONS.declare("memory.add_batch", writes=True, once=True, warms=True)
def add_batch(engine: Engine, request: AddBatchRequest, call: RequestContext) -> AddBatchReply:
    """Add several memories at once: all of them are written, or none. Secrets in them are redacted."""
    _check_project_known(engine, request, call)
    check_keep_secrets(call, [memory.origin for memory in request.memories], keep_secrets=request.keep_secrets)
    memories = [_new_memory(memory, call) for memory in request.memories]
    added = engine.memories().add(memories, to_global=request.to_global, keep_secrets=request.keep_secrets)
    return AddBatchReply(memories=tuple(added))


@OPERATIONS.declare("memory.delete", ShellCommand("delete", ("id",)), errors=(NotFound,), writes=True, needs="delete")
def delete(engine: Engine, request: IdentityRequest, call: RequestContext) -> DeleteReply:
    """Hide a memory from every search and list; its file is not changed.

    It stays hidden when the index is rebuilt. `memory.restore` shows it again.
    """
    return engine.memories().delete(request.id)


@OPERATIONS.declare("memory.restore", errors=(NotFound,), writes=True, needs="restore")
def restore(engine: Engine, request: IdentityRequest, call: RequestContext) -> DeleteReply:
    """Show a deleted memory again, with the current text of its file."""
    return engine.memories().restore(request.id)


def _new_memory(memory: AddRequest | MemoryText, call: RequestContext) -> NewMemory:
    tags = tuple(dict.fromkeys(memory.tags))
    expires = parse_last_day(memory.expires) if memory.expires else ""
    origin = checked_origin(memory.origin, call.agent)
    return NewMemory(memory.text, memory.type, tags, origin, expires=expires, cues=read_cues(memory.cues))


def read_cues(cues: Sequence[str]) -> tuple[str, ...]:
    if not cues:
        return ()
    from lorelog.services.cues.cue import parse_cues

    return parse_cues(cues)


def _check_project_known(engine: Engine, request: OperationRequest, call: RequestContext) -> None:
    """Raise UsageError if a remote client names a project that the user never indexed."""
    if not call.own and request.project and not engine.maintenance().has_indexed_project():
        raise UsageError(
            f"{request.project} is not a known project", hint="index a file of the project in a shell first"
        )


def check_keep_secrets(call: RequestContext, origins: Sequence[str], *, keep_secrets: bool) -> None:
    """Raise UsageError if secrets are to be kept by anyone but a person on this machine, or in text of a program."""
    if not keep_secrets:
        return
    call.check("keep_secrets")
    if any(origin != "user" for origin in origins):
        raise UsageError(
            "keep_secrets applies to a person's own text only", hint="text of an agent, a tool or an import is redacted"
        )
