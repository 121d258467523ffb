"""Conversion of core values to the `…Json` replies of `schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorelog.operations.memory import schema
from lorelog.operations.replies import freshness_json, reply_from, to_json
from lorelog.operations.search.handlers import anchor_json, lifecycle_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorelog.core.document import Document, StoredChunk
    from lorelog.core.memory import (
        AddReply,
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
    from lorelog.services.evaluation.search_quality import EvaluateReply
    from lorelog.services.places.roots import RootStatus

_MAX_DUPLICATE_TEXT = 300
"""Characters of a near-duplicate's text: enough to recognise it."""


def expand_json(reply: ExpandReply, _: object = None) -> schema.ExpandJson:
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


def get_json(reply: GetReply, _: object = None) -> schema.GetJson:
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


def list_json(reply: ListReply, _: object = None) -> schema.ListJson:
    """Return documents or memories."""
    return schema.ListJson(
        documents=tuple(map(document_json, reply.documents)),
        memories=tuple(chunk_json(memory, reply.lifecycles.get(memory.id)) for memory in reply.memories),
        more=reply.more,
        notes=reply.notes,
    )


def index_json(report: IndexReport, _: object = None) -> schema.IndexJson:
    """Return the report of an index run."""
    reembedding = report.reembedding
    return reply_from(
        report,
        schema.IndexJson,
        failed=len({problem.path for problem in report.problems}),
        reembedding=None if reembedding is None else reply_from(reembedding, schema.ReembedJson),
    )


def add_batch_json(replies: Sequence[AddReply], _: object = None) -> schema.AddBatchJson:
    """Return the new memories."""
    return schema.AddBatchJson(memories=tuple(replies))


def supersede_json(reply: SupersedeReply, _: object = None) -> schema.SupersedeJson:
    """Return the new memory and the id of the old one."""
    return reply_from(reply.added, schema.SupersedeJson, supersedes=reply.old)


def duplicates_json(reply: DuplicatesReply, _: object = None) -> schema.DuplicatesJson:
    """Return groups of near-duplicates."""
    groups = tuple(
        tuple(_duplicate_json(duplicate, keep=not rank) for rank, duplicate in enumerate(group))
        for group in reply.groups
    )
    return reply_from(reply, schema.DuplicatesJson, groups=groups)


def health_json(reply: HealthReply, _: object = None) -> schema.HealthJson:
    """Return the results of the health checks."""
    return reply_from(reply, schema.HealthJson)


def roots_json(roots: Sequence[RootStatus], _: object = None) -> schema.RootsJson:
    """Return the indexed roots."""
    return schema.RootsJson(
        roots=tuple(
            reply_from(status.root, schema.RootJson, exists=status.exists, documents=status.documents)
            for status in roots
        )
    )


def evaluate_json(reply: EvaluateReply, _: object = None) -> schema.EvaluateJson:
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
