"""Conversion of core values to the `…Json` replies of `schema`."""

from __future__ import annotations

from lorelog.core.document import Document, StoredChunk
from lorelog.core.memory import (
    Duplicate,
    DuplicatesReply,
    ExpandReply,
    GetReply,
    HealthReply,
    IndexReport,
    ListReply,
    SupersedeReply,
)
from lorelog.core.query import LifecycleState
from lorelog.core.serializable import shows_as_json, to_json
from lorelog.operations.memory import schema
from lorelog.operations.replies import freshness_json, reply_from
from lorelog.operations.search.handlers import anchor_json, lifecycle_json
from lorelog.services.evaluation.search_quality import EvaluateReply
from lorelog.services.places.roots import RootStatus

_MAX_DUPLICATE_TEXT = 300
"""Characters of a near-duplicate's text: enough to recognise it."""


@shows_as_json(ExpandReply, schema.ExpandJson)
def expand_json(reply: ExpandReply) -> schema.ExpandJson:
    """Return an expanded section."""
    location = schema.TranscriptLocationInfo(
        address=reply.transcript, exists=reply.transcript_exists, tokens=reply.transcript_tokens
    )
    return reply_from(
        chunk_json(reply.chunk, reply.lifecycle),
        schema.ExpandJson,
        content=reply.content,
        start_line=reply.start_line,
        end_line=reply.end_line,
        tokens=reply.tokens,
        transcript=location if reply.transcript else None,
        covered=reply.covered,
        covers=reply.covers,
        derived_cues=reply.derived_cues,
        trust=reply.trust,
        freshness=freshness_json(reply.verdict),
        notes=reply.notes,
    )


@shows_as_json(GetReply, schema.GetJson)
def get_json(reply: GetReply) -> schema.GetJson:
    """Return a memory, or whether it was deleted."""
    return schema.GetJson(
        found=reply.exists,
        deleted=bool(reply.deleted_at),
        deleted_at=reply.deleted_at,
        forgotten=reply.forgotten,
        superseded_by=reply.lifecycle.superseded_by,
        expired=reply.lifecycle.expired,
        memory=None if reply.memory is None else chunk_json(reply.memory, reply.lifecycle),
        trust=None if reply.memory is None else reply.trust,
    )


@shows_as_json(ListReply, schema.ListJson)
def list_json(reply: ListReply) -> schema.ListJson:
    """Return documents or memories."""
    return schema.ListJson(
        documents=tuple(map(document_json, reply.documents)),
        memories=tuple(chunk_json(memory, reply.lifecycles.get(memory.id)) for memory in reply.memories),
        more=reply.more,
        notes=reply.notes,
    )


@shows_as_json(IndexReport, schema.IndexJson)
def index_json(report: IndexReport) -> schema.IndexJson:
    """Return the report of an index run."""
    reembedding = report.reembedding
    return reply_from(
        report,
        schema.IndexJson,
        failed=len({problem.path for problem in report.problems}),
        reembedding=None if reembedding is None else reply_from(reembedding, schema.ReembedJson),
    )


@shows_as_json(SupersedeReply, schema.SupersedeJson)
def supersede_json(reply: SupersedeReply) -> schema.SupersedeJson:
    """Return the new memory and the id of the old one."""
    return reply_from(reply.added, schema.SupersedeJson, supersedes=reply.old)


@shows_as_json(DuplicatesReply, schema.DuplicatesJson)
def duplicates_json(reply: DuplicatesReply) -> schema.DuplicatesJson:
    """Return groups of near-duplicates."""
    groups = tuple(
        tuple(_duplicate_json(duplicate, keep=not rank) for rank, duplicate in enumerate(group))
        for group in reply.groups
    )
    return reply_from(reply, schema.DuplicatesJson, groups=groups)


@shows_as_json(HealthReply, schema.HealthJson)
def health_json(reply: HealthReply) -> schema.HealthJson:
    """Return the results of the health checks."""
    return reply_from(reply, schema.HealthJson)


@shows_as_json(RootStatus, schema.RootJson)
def root_json(status: RootStatus) -> schema.RootJson:
    """Return an indexed root."""
    return reply_from(status.root, schema.RootJson, exists=status.exists, documents=status.documents)


@shows_as_json(schema.RootsReply, schema.RootsJson)
def roots_json(reply: schema.RootsReply) -> schema.RootsJson:
    """Return the indexed roots."""
    return schema.RootsJson(roots=tuple(map(root_json, reply.roots)))


@shows_as_json(EvaluateReply, schema.EvaluateJson)
def evaluate_json(reply: EvaluateReply) -> schema.EvaluateJson:
    """Return measured search quality."""
    rankings = tuple(
        {
            "name": ranking.name,
            "measures": [{"name": name, **to_json(value)} for name, value in ranking.measures.items()],
            "ours_ahead": to_json(ranking.ours_ahead),
        }
        for ranking in reply.rankings
    )
    missing = tuple(schema.MissingDocument(document=name, reason=reason) for name, reason in reply.unknown)
    return reply_from(reply, schema.EvaluateJson, rankings=rankings, unknown=missing, failed=len(reply.problems))


@shows_as_json(StoredChunk, schema.ChunkJson)
def chunk_json(stored: StoredChunk, lifecycle: LifecycleState | None = None) -> schema.ChunkJson:
    """Return a chunk; its lifecycle state only if there is anything to report."""
    return reply_from(
        stored.chunk,
        schema.ChunkJson,
        id=stored.id,
        project=stored.project,
        anchor=anchor_json(stored.chunk.anchor),
        origin=stored.chunk.anchor.origin if stored.chunk.anchor else "",
        lifecycle=lifecycle_json(lifecycle),
    )


@shows_as_json(Document, schema.DocumentJson)
def document_json(document: Document) -> schema.DocumentJson:
    """Return a document as list shows it."""
    return reply_from(document, schema.DocumentJson, chunks=document.chunk_count, bytes=document.stamp.size)


def _duplicate_json(duplicate: Duplicate, *, keep: bool) -> schema.DuplicateJson:
    from lorelog.retrieval.dedupe import normalized_text

    stored, chunk = duplicate.stored, duplicate.stored.chunk
    text = normalized_text(stored)
    return reply_from(
        chunk,
        schema.DuplicateJson,
        id=stored.id,
        memory=chunk.anchor.memory if chunk.anchor else "",
        project=stored.project,
        similarity=round(duplicate.similarity, 4),
        keep=keep,
        text=text if len(text) <= _MAX_DUPLICATE_TEXT else text[: _MAX_DUPLICATE_TEXT - 1] + "…",
    )
