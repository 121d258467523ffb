"""Values become JSON here: what the handlers return, in the shapes of `replies`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from lorelog.core.query import NO_FATE
from lorelog.operations.freshness_shapes import freshness_shape
from lorelog.operations.meter import resident_bytes
from lorelog.operations.trust_shapes import grounding_shape, hint_shape, trust_shape

if TYPE_CHECKING:  # a search needs only its own
    from collections.abc import Sequence

    from lorelog.core.code_answers import CodeReply
    from lorelog.core.document import Anchor, Document, StoredChunk
    from lorelog.core.errors import LorelogError
    from lorelog.core.memory import (
        AddReply,
        DeleteReply,
        ExpandReply,
        GetReply,
        HealthReply,
        IndexReport,
        ListReply,
        Problem,
    )
    from lorelog.core.ports import StoreStats
    from lorelog.core.query import Coverage, Fate, Hit, Packing, SearchReply
    from lorelog.core.transcript import TranscriptReply
    from lorelog.operations import replies
    from lorelog.operations.code_replies import CodeAnswerShape
    from lorelog.operations.meter import Meter
    from lorelog.operations.replies import Shape
    from lorelog.operations.trust_shapes import ProblemShape
    from lorelog.retrieval.cache import CacheCounters
    from lorelog.services.evaluate import EvaluateReply
    from lorelog.services.roots import KnownRoot

_UNPACKED = {"content", "snippet", "matches", "tokens"}


def error_shape(error: LorelogError) -> replies.ErrorShape:
    """What went wrong."""
    return {"code": error.code, "message": error.message, "hint": error.hint}


def search_shape(reply: SearchReply, *, explain: bool) -> replies.SearchShape:
    """Hits, best first."""
    return {
        "query": reply.query,
        "lane": str(reply.lane),
        "hits": [_hit_shape(hit, explain=explain) for hit in reply.hits],
        "weighing": reply.weighing,
        "coverage": _coverage_shape(reply.coverage),
        "packing": None if reply.packing is None else _packing_shape(reply.packing),
        "notes": list(reply.notes),
        "code": _code_shape(reply.code),
    }


def expand_shape(reply: ExpandReply) -> replies.ExpandShape:
    """A section."""
    return {
        **chunk_shape(reply.chunk, reply.fate),
        "content": reply.content,
        "start_line": reply.start_line,
        "end_line": reply.end_line,
        "tokens": reply.tokens,
        "transcript": _transcript_shape(reply) if reply.transcript else None,
        "covered": reply.covered,
        "covers": [cast("replies.CoveredShape", asdict(one)) for one in reply.covers],
        "trust": trust_shape(reply.trust),
        "notes": list(reply.notes),
    }


def list_shape(reply: ListReply) -> replies.ListShape:
    """Documents or memories."""
    return {
        "documents": [_document_shape(document) for document in reply.documents],
        "memories": [chunk_shape(memory, reply.fates.get(memory.id)) for memory in reply.memories],
        "more": reply.more,
    }


def index_shape(report: IndexReport) -> replies.IndexShape:
    """What a run did."""
    shape = asdict(report)
    shape["problems"] = [asdict(problem) for problem in report.problems]
    shape["failed"] = len({problem.path for problem in report.problems})
    shape["notes"] = list(report.notes)
    if report.reembedding is not None:
        told = asdict(report.reembedding)
        shape["reembedding"] = {"from": told.pop("old"), "to": told.pop("new"), **told}
    return cast("replies.IndexShape", shape)


def evaluate_shape(reply: EvaluateReply) -> replies.EvaluateShape:
    """What was measured."""
    return {
        "k": reply.k,
        "questions": reply.questions,
        "judged": reply.judged,
        "documents": reply.documents,
        "unknown": [{"document": name, "reason": reason} for name, reason in reply.unknown],
        "rankings": [
            {
                "name": ranking.name,
                "measures": [{"name": name, **asdict(value)} for name, value in ranking.measures.items()],
                "ours_ahead": asdict(ranking.ours_ahead) if ranking.ours_ahead else None,
            }
            for ranking in reply.rankings
        ],
        "problems": [_problem_shape(problem) for problem in reply.problems],
        "failed": len(reply.problems),
        "notes": list(reply.notes),
    }


def add_shape(reply: AddReply) -> replies.AddShape:
    """Where a new memory stands."""
    admission = asdict(reply.admission) | {"decision": str(reply.admission.decision)}
    return cast("replies.AddShape", asdict(reply) | {"notes": list(reply.notes), "admission": admission})


def get_shape(reply: GetReply) -> replies.GetShape:
    """A memory by its id."""
    memory = None if reply.memory is None else chunk_shape(reply.memory, reply.fate)
    return {
        "found": reply.found,
        "deleted": bool(reply.deleted_at),
        "deleted_at": reply.deleted_at,
        "superseded_by": reply.fate.superseded_by,
        "expired": reply.fate.expired,
        "memory": memory,
        "trust": None if reply.memory is None else trust_shape(reply.trust),
    }


def delete_shape(reply: DeleteReply) -> replies.DeleteShape:
    """What was hidden, or shown again."""
    return cast("replies.DeleteShape", asdict(reply) | {"notes": list(reply.notes)})


def health_shape(reply: HealthReply) -> replies.HealthShape:
    """Whether the index is as it should be."""
    return {
        "ok": reply.ok,
        "checks": [cast("replies.CheckShape", asdict(check)) for check in reply.checks],
        "coverage": _coverage_shape(reply.coverage),
        "duplicates": [list(places) for places in reply.duplicates],
    }


def metrics_shape(meter: Meter, cache: CacheCounters) -> replies.MetricsShape:
    """What this process has counted."""
    import os
    import time

    return {
        "pid": os.getpid(),
        "uptime_s": round(time.monotonic() - meter.started, 3),
        "rss_bytes": resident_bytes(),
        "operations": [
            {
                "op": one.op,
                "count": one.count,
                "errors": one.errors,
                "p50_ms": round(one.quantile(0.5) * 1000, 3),
                "p90_ms": round(one.quantile(0.9) * 1000, 3),
                "p99_ms": round(one.quantile(0.99) * 1000, 3),
            }
            for one in meter.counted()
        ],
        "cache": dict(cache._asdict()),
    }


def transcript_shape(reply: TranscriptReply) -> replies.TranscriptShape:
    """Part of a conversation."""
    shape = asdict(reply) | {"notes": list(reply.notes)}
    shape["turns"] = [turn | {"tools": list(turn["tools"])} for turn in shape["turns"]]
    return cast("replies.TranscriptShape", shape)


def roots_shape(roots: Sequence[KnownRoot]) -> replies.RootsShape:
    """What is indexed."""
    return {
        "roots": [
            {
                "path": one.root.path,
                "project": one.root.project,
                "exclude": list(one.root.exclude),
                "patterns": list(one.root.patterns),
                "origin": one.root.origin,
                "exists": one.exists,
                "documents": one.documents,
            }
            for one in roots
        ]
    }


def stats_shape(stats: StoreStats, coverage: Coverage, model: str) -> replies.StatsShape:
    """Sizes."""
    return {
        "documents": stats.documents,
        "chunks": stats.chunks,
        "vectors": stats.vectors,
        "other_vectors": stats.other_vectors,
        "coverage": _coverage_shape(coverage),
        "model": model,
        "projects": dict(stats.projects),
        "bytes_on_disk": stats.bytes_on_disk,
        "bytes_mapped": stats.bytes_mapped,
        "schema_version": stats.schema_version,
        "location": stats.location,
    }


def chunk_shape(stored: StoredChunk, fate: Fate | None = None) -> replies.ChunkShape:
    """A chunk, as list and expand show it; what has become of it only where there is something to tell."""
    chunk = stored.chunk
    shape: replies.ChunkShape = {
        "id": stored.id,
        "source": chunk.source,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "heading": chunk.heading,
        "heading_level": chunk.heading_level,
        "heading_path": list(chunk.heading_path),
        "project": stored.project,
        "date": chunk.date,
        "type": chunk.type,
        "tags": list(chunk.tags),
        "content": chunk.content,
        "content_hash": chunk.content_hash,
        "anchor": _anchor_shape(chunk.anchor),
    }
    if fate is not None and fate != NO_FATE:
        shape["fate"] = cast("replies.FateShape", asdict(fate))
    return shape


def _hit_shape(hit: Hit, *, explain: bool) -> replies.HitShape:
    shape: Shape = {
        "id": hit.id,
        "score": hit.score,
        "source": hit.source,
        "start_line": hit.start_line,
        "end_line": hit.end_line,
        "heading": hit.heading,
        "heading_level": hit.heading_level,
        "heading_path": list(hit.heading_path),
        "project": hit.project,
        "date": hit.date,
        "type": hit.type,
        "tags": list(hit.tags),
        "content": hit.content,
        "content_hash": hit.content_hash,
        "snippet": hit.snippet,
        "matches": [list(span) for span in hit.matches],
        "anchor": _anchor_shape(hit.anchor),
        "duplicates": list(hit.duplicates),
        "relevance": hit.relevance,
        "tokens": hit.tokens,
        "expand_tokens": hit.expand_tokens,
        "trust": trust_shape(hit.trust),
        "verification_hint": hint_shape(hit.trust),
        "grounding_refs": [grounding_shape(one) for one in hit.grounding],
        "freshness": freshness_shape(hit.verdict),
    }
    if hit.fate != NO_FATE:
        shape["fate"] = asdict(hit.fate)
    if hit.packed is not None:  # the budget is for the texts, so there are no others
        shape = {name: value for name, value in shape.items() if name not in _UNPACKED}
        shape["packed"] = asdict(hit.packed)
    if explain:
        shape["explanation"] = [asdict(part) for part in hit.explanation.parts]
    return cast("replies.HitShape", shape)


def _code_shape(reply: CodeReply | None) -> CodeAnswerShape | None:
    if reply is None:
        return None
    from lorelog.operations.code_replies import code_answer_shape

    return code_answer_shape(reply)


def _packing_shape(packing: Packing) -> replies.PackingShape:
    shape = asdict(packing) | {"dropped": [asdict(one) for one in packing.dropped]}
    return cast("replies.PackingShape", shape)


def _problem_shape(problem: Problem) -> ProblemShape:
    return {"path": problem.path, "message": problem.message, "hint": problem.hint}


def _transcript_shape(reply: ExpandReply) -> replies.TranscriptPlaceShape:
    return {
        "address": reply.transcript,
        "exists": reply.transcript_exists,
        "tokens": reply.transcript_tokens,
    }


def _coverage_shape(coverage: Coverage) -> replies.CoverageShape:
    return {"chunks": coverage.chunks, "with_vectors": coverage.with_vectors}


def _anchor_shape(anchor: Anchor | None) -> Shape | None:
    if anchor is None:
        return None
    said = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(anchor).items() if value}
    return (
        said | {"covers": len(anchor.covers)} if anchor.covers else said
    )  # `expand` tells which; there may be thousands


def _document_shape(document: Document) -> replies.DocumentShape:
    return {
        "source": document.source,
        "project": document.project,
        "root": document.root,
        "title": document.title,
        "date": document.date,
        "chunks": document.chunk_count,
        "bytes": document.stamp.size,
        "indexed_at": document.indexed_at,
    }
